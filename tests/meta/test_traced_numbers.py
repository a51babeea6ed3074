"""Where lowering computes with sizes, no number may lose its trace (see rlx.ir.traced)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlx

ROOT = Path(rlx.__file__).parent
FILES = [*sorted((ROOT / "lower").glob("*.py")), ROOT / "costs.py"]
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def leftmost(node: ast.expr) -> ast.expr:
    """What a sum or product begins with."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        node = node.left
    return node


def is_plain_float(node: ast.expr) -> bool:
    """A float that takes an int to its right for a plain one."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "float"
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def losses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines and expressions in which a traced number becomes a plain one."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left, op) if isinstance(op, ARITHMETIC) and is_plain_float(leftmost(left)):
                if not all(isinstance(n, (ast.BinOp, ast.Constant, ast.operator)) for n in ast.walk(node)):
                    yield node.lineno, ast.unparse(node)
            case ast.Call(ast.Name("int"), [ast.BinOp() | ast.Call(ast.Name("min" | "max"))]):
                yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_floats_stand_to_the_right_and_rounding_is_trunc(file: Path) -> None:
    """A float to the left of a traced int, and int() of a traced float, give plain numbers."""
    found = [f"{file.name}:{line}: {text}" for line, text in losses(ast.parse(file.read_text()))]
    assert not found


def test_the_rule_finds_what_it_is_for() -> None:
    """Each form on its own."""
    bad = "0.5 * size * m; float(size) * n; int(a / b); int(min(a, b)); 20 + x * (0.7 + 0.1 * n)"
    assert len({text for _, text in losses(ast.parse(bad))}) >= 5
    assert not list(losses(ast.parse("m * 0.5 * size; int(True); 2.0 * 3.0; math.trunc(a / b)")))
