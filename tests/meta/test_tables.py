"""Rows are found in the modules that the indices name, and nothing else is imported for them."""

import subprocess
import sys

import pytest

import rlx
from rlx import ops
from rlx.lower.context import RULES
from rlx.onnx import registry
from rlx.tables import Table

EVERY_ROW = """
import sys
{imports}
for module, keys in table.index.items():
    for key in keys:
        assert dict.get(table, key) is not None or module not in table._loaded, (module, key)
        assert table[key] is not None
assert not table.whole
have = set(dict.keys(table))
assert have == set(table), have ^ set(table)
"""


@pytest.mark.parametrize("imports", [
    "from rlx.ops import TABLE as table", "from rlx.lower.context import RULES as table",
    "from rlx.onnx.registry import _TABLE as table",
])  # fmt: skip
def test_an_index_knows_every_row(imports: str) -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_ROW.format(imports=imports)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr


def test_one_row_imports_one_family() -> None:
    code = ("import sys, rlx\nfrom rlx import ops\nops.tanh\n"
            "print([m for m in sys.modules if m.startswith('rlx.ops.') and '._' not in m])")
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                          text=True).stdout.strip() == "['rlx.ops.unary']"


def test_ops_go_before_families_of_the_same_name() -> None:
    code = ("import rlx.ops.softmax, rlx.ops.conv, rlx.ops.einsum\nfrom rlx import ops\n"
            "from rlx.ops import matmul, conv, view\n"
            "print(*(type(op).__name__ for op in (ops.softmax, conv, matmul)), callable(ops.einsum), view.__name__)")
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.split() == ["OpDef", "OpDef", "OpDef", "True", "rlx.ops.view"]


def test_a_table_is_a_mapping_of_all_rows() -> None:
    assert "tanh" in ops.TABLE and "tanhh" not in ops.TABLE
    assert ops.TABLE.get("tanhh") is None and ops.TABLE.get("tanh") is ops.tanh
    assert dict(ops.TABLE) == {**ops.TABLE} == dict(ops.TABLE.items())
    assert len(ops.TABLE) == len(list(ops.TABLE)) == len(ops.TABLE.values()) > 200
    with pytest.raises(KeyError):
        ops.TABLE["tanhh"]
    with pytest.raises(AttributeError, match="the nearest are tanh"):
        ops.tanhh  # noqa: B018
    assert {"tanh", "squeeze", "TABLE"} <= set(dir(ops))
    assert registry.find("", "Relu", 17) is not None and registry.find("", "NoSuchOp", 17) is None


def test_a_row_that_the_index_does_not_know_is_found() -> None:
    table: Table[str, object] = Table("rlx.lower", {})
    with pytest.raises(KeyError):
        table["matmul"]
    assert table.whole and RULES["matmul"] is not None
    assert rlx.ops.TABLE.index["view"]


def test_every_row_knows_its_family_whatever_was_made_first() -> None:
    code = ("from rlx.ops import TABLE, FAMILY\nfrom rlx.ops import softmax\n"
            "print(softmax.family, [n for n, f in FAMILY.items() if TABLE[n].family != f])")
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "softmax []"
