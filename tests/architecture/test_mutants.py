"""The mutator makes one change at a time, and the list of equivalent mutants is not out of date."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "mutants"))

import mutants as m
import run

FORMULA = '''
"""A docstring with 1 number."""

SCALE: float = 2.0

def standard_error(values, floor: int = 0):
    """Words."""
    if not values:
        raise ValueError("at least 1")
    spread = max(sum(v**2 for v in values) / len(values), floor)
    print("1")
    return math.sqrt(spread) if spread > 0 else -1
'''


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "formula.py"
    path.write_text(FORMULA)
    return path


def test_every_part_of_a_formula_is_changed_and_words_are_not(module):
    changes = {mutant.change for mutant in m.mutants(module, "formula.py")}
    assert changes == {
        "2.0 -> 4.0",
        "0 -> 1",
        "not values -> values",
        "raise -> pass",
        "max(sum((v ** 2 for v in values)) / len(values), floor) -> "
        "min(sum((v ** 2 for v in values)) / len(values), floor)",
        "max(sum((v ** 2 for v in values)) / len(values), floor) -> "
        "sum((v ** 2 for v in values)) / len(values)",
        "sum((v ** 2 for v in values)) / len(values) -> "
        "sum((v ** 2 for v in values)) * len(values)",
        "v ** 2 -> v * 2",
        "2 -> 3",
        "return math.sqrt(spread) if spread > 0 else -1 -> return None",
        "math.sqrt(spread) if spread > 0 else -1 -> -1 if spread > 0 else math.sqrt(spread)",
        "math.sqrt(spread) -> spread",
        "spread > 0 -> spread >= 0",
        "spread > 0 -> spread < 0",
        "-1 -> 1",
        "1 -> 0",
        "1 -> 2",
    }


def test_a_mutant_differs_in_one_place_and_says_which(module):
    original = ast.unparse(ast.parse(FORMULA)).splitlines()
    for mutant in m.mutants(module, "formula.py"):
        changed = ast.unparse(m.mutated(FORMULA, mutant)).splitlines()
        assert len(changed) == len(original)
        assert sum(a != b for a, b in zip(original, changed, strict=True)) == 1, mutant
        assert FORMULA.splitlines()[mutant.line - 1].strip() == mutant.code


def test_the_sample_is_seeded_and_survives_edits_elsewhere(module):
    everything = m.mutants(module, "formula.py")
    drawn = [mutant.name for mutant in m.sample(everything, 9, seed=1)]
    assert len(set(drawn)) == 9
    assert drawn == [mutant.name for mutant in m.sample(everything[::-1], 9, seed=1)]
    assert drawn != [mutant.name for mutant in m.sample(everything, 9, seed=2)]
    module.write_text("\n\nHALF = 'half'\n" + FORMULA)
    assert drawn == [mutant.name for mutant in m.sample(m.mutants(module, "formula.py"), 9, seed=1)]


def test_a_statement_at_import_is_seen_by_the_test_files_that_run_or_import_its_module(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(run, "ROOT", tmp_path)
    (tmp_path / "a.py").touch()
    (tmp_path / "b.py").touch()
    (tmp_path / "c.py").write_text("from understudy.formula import Declares")
    reach = {
        "c.py::test_what_is_declared": {"seconds": 0.1, "lines": {}},
        "a.py::test_far": {"seconds": 0.1, "lines": {"formula.py": [30]}},
        "a.py::test_slow": {"seconds": 9.0, "lines": {"formula.py": [10, 11]}},
        "a.py::test_near": {"seconds": 2.0, "lines": {"formula.py": [11]}},
        "a.py::test_other": {"seconds": 0.1, "lines": {}},
        "b.py::test_another_module": {"seconds": 0.1, "lines": {"other.py": [2]}},
    }
    inside = m.Mutant("formula.py", 0, 0, 11, (10, 11), "f", "", "", 0)
    assert run.tests_for(inside, reach) == ["a.py::test_near", "a.py::test_slow"]
    outside = m.Mutant("formula.py", 0, 0, 2, (2, 2), "", "", "", 0)
    assert set(run.tests_for(outside, reach)) == set(reach) - {"b.py::test_another_module"}


def test_every_equivalent_mutant_has_a_reason_and_is_still_in_the_source():
    listed = run.equivalent()
    files = {entry.split("|")[0] for entry in listed}
    present = {
        mutant.name
        for room in run.TESTS
        for path in run.files_of(room)
        if (file := path.relative_to(run.SOURCE).as_posix()) in files
        for mutant in m.mutants(path, file)
    }
    assert [entry for entry in listed if entry not in present] == []
    assert all(len(reason) > 20 for reason in listed.values())


def test_every_room_has_files_and_tests():
    for room, tests in run.TESTS.items():
        assert run.files_of(room), room
        for test in tests:
            assert (run.ROOT / test).exists(), test
