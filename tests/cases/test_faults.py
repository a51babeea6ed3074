"""Every fault, report and wish is answered by tests that exist and carry its number, or waits for what it is about."""

import ast
import pathlib
import re
import tomllib

import pytest

TESTS = pathlib.Path(__file__).parents[1]
TABLE = tomllib.loads((TESTS / "cases" / "faults.toml").read_text())
# Numbers of the report file; those between them are cited elsewhere.
REPORTS = [
    1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38, 40, 41,
    43, 44, 46, 47, 49, 50, 52, 53, 55, 56, 58, 59, 61, 62, 64, 65, 67, 68, 70, 71, 73, 74, 76, 77, 79, 80, 82,
    83, 85, 86, 88, 89, 91, 92, 94, 95, 97, 98, 100, 101, 103, 104, 106, 107, 109, 110, 112, 113, 115, 116, 118,
    119, 121, 122, 124, 125, 127, 128, 130, 131, 133, 134, 136, 137, 139, 140, 142, 143, 145, 146, 148, 149,
]
LATER = {"experts", "packed weights", "SPD geometry", "state-space ops"}


def named() -> dict[str, set[str]]:
    """Functions called test_... by file."""
    found = {}
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text())
        names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}
        found[str(path.relative_to(TESTS))] = names
    return found


FUNCTIONS = named()


def numbers(test: str) -> set[str]:
    """The numbers in the name of a test: R-14 as R14, A07 as A7."""
    words = test.split("::")[1].split("_")
    return {f"{m[1].upper()}{int(m[2])}" for w in words if (m := re.fullmatch(r"([ra])(\d{1,3})", w, re.IGNORECASE))}


def entries() -> list[tuple[str, str, object]]:
    return [(kind, key, entry) for kind, rows in TABLE.items() for key, entry in rows.items()]


def test_every_number_is_listed() -> None:
    assert list(TABLE) == ["R", "A", "B", "C"]
    assert [int(k) for k in TABLE["R"]] == list(range(1, 94))
    assert [int(k) for k in TABLE["A"]] == REPORTS
    assert [int(k) for k in TABLE["B"]] == list(range(1, 19))
    groups = {key.split()[0] for key in TABLE["C"]}
    assert groups == {*(f"C1.{i}" for i in range(1, 11)), "C2", "C3", "C4", "C5", "C6", "C7"}
    assert sum(key.startswith("C2 ") for key in TABLE["C"]) == 21


@pytest.mark.parametrize(("kind", "key", "entry"), entries(), ids=lambda v: v if isinstance(v, str) else "")
def test_what_answers_a_number_exists_and_is_named_so(kind: str, key: str, entry: object) -> None:
    if isinstance(entry, dict):
        assert set(entry) == {"later"} and entry["later"] in LATER
        return
    assert isinstance(entry, list) and entry and len(set(entry)) == len(entry)
    for test in entry:
        path, function = test.split("::")
        assert function in FUNCTIONS[path], test
        if kind in "RA":
            assert kind + key in numbers(test), test


def test_every_number_in_a_name_is_in_the_list() -> None:
    for path, functions in FUNCTIONS.items():
        for function in functions:
            for number in numbers(f"{path}::{function}"):
                entry = TABLE[number[0]].get(number[1:])
                assert entry is None or f"{path}::{function}" in entry, (number, function)
                assert entry is not None, f"{function}: {number} is no number of the lists"
