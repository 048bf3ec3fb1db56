"""Every case of the bench runs and computes what its peers compute; the README says its results.

Tiny sizes, once each, and nothing of seconds; programs of other environments are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from bench.framework import measure
from bench.framework.case import OURS, Case, NotRun, Outcome, Side, case_named, names
from bench.framework.figures import growth, ratio
from bench.framework.readme_table import BEGIN, END, README, RESULTS, number, table
from bench.framework.scale_tables import PAGE, page

CASES = {name: case_named(name) for name in names()}


def runs(case: Case, folder: Path) -> None:
    """Ours and every peer of this environment, with the case's own comparison of what they give."""
    sides = case.sides(case.tiny, folder)
    assert list(sides) == [OURS, *case.peers]
    values = {}
    for name, side in sides.items():
        if isinstance(side, Side) and not side.outside:
            result = side.run()
            values[name] = result.value if isinstance(result, Outcome) else result
    assert OURS in values
    for name, value in values.items():
        side = sides[name]
        if name != OURS and isinstance(side, Side) and side.compared:
            case.check(values[OURS], value, name)


@pytest.mark.any_noise
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.compiles])
def test_a_case_runs_and_agrees_with_its_peers(name: str, tmp_path: Path) -> None:
    runs(CASES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.any_noise
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.compiles])
def test_a_case_with_programs_runs_and_agrees_with_its_peers(name: str, tmp_path: Path) -> None:
    runs(CASES[name], tmp_path)


def test_what_a_case_declares() -> None:
    for case in CASES.values():
        assert len(case.sizes) == 3, case.name
        assert case.tiny <= min(case.quick) <= max(case.quick) <= max(case.sizes), case.name
        assert set(case.bars) <= set(case.peers), case.name


class _Halves(Case):
    what = "a half"
    peers: ClassVar[dict[str, str]] = {"right": "the same", "lacking": "not here"}
    sizes = quick = (1, 2, 4)
    tiny = 1

    def __init__(self) -> None:
        self.order: list[str] = []

    def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:  # noqa: ARG002
        def by(name: str, value: float) -> Side:
            return Side(lambda: self.order.append(name) or Outcome(value, 2.0, 3.0, 4.0))

        return {"ours": by("ours", n / 2), "right": by("right", n / 2), "lacking": NotRun("no")}

    def check(self, ours: float, theirs: float, peer: str) -> None:
        assert ours == theirs, peer


def test_sides_take_turns_and_are_compared(tmp_path: Path) -> None:
    case = _Halves()
    record = measure.measured(case, 4, 3, tmp_path)
    assert case.order == ["ours", "right"] * 4  # the first of each does not count
    assert record["sides"]["lacking"] == {"not_run": "no"}
    assert [run["cpu"] for run in record["sides"]["right"]["runs"]] == [1.5] * 3
    assert record["sides"]["ours"]["memory_mb"] > 0


def test_a_side_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    class Wrong(_Halves):
        def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:  # noqa: ARG002
            return {"ours": Side(lambda: 1.0), "wrong": Side(lambda: 2.0)}

    with pytest.raises(AssertionError, match="wrong"):
        measure.measured(Wrong(), 1, 1, tmp_path)


def measured_at(n: int, ours: list[float], theirs: list[float]) -> dict:
    runs = {
        name: {"runs": [{"cpu": cpu} for cpu in spent]}
        for name, spent in (("ours", ours), ("peer", theirs))
    }
    return {"n": n, "sides": runs}


def test_ratios_are_of_neighbouring_runs_and_growth_is_a_slope() -> None:
    size = measured_at(1, [1, 2, 4], [2, 2, 2])
    pair = ratio(size["sides"], "peer")
    assert pair is not None
    assert (pair.low, pair.middle, pair.high, pair.runs) == (0.5, 1, 2, 3)
    sizes = [measured_at(n, [n**1.5 / 7] * 3, [1]) for n in (10, 100, 1000)]
    assert growth(sizes) == pytest.approx(1.5)
    assert growth(sizes[:2]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0417, ".042"), (3.14159, "3.1"), (42.2, "42"), (1894.4, "1,890"), (0.5, ".5")],
)
def test_numbers_are_written_with_two_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_the_readme_says_what_the_bench_measured() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    written = README.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip()
    assert written == table(results)
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text, results)
    for name, record in results["cases"].items():
        case = CASES[name]
        assert (record["what"], record["peers"]) == (case.what, dict(case.peers)), name
        assert [size["n"] for size in record["sizes"]] == list(case.sizes), name
        for size in record["sizes"]:
            assert len(size["sides"][OURS]["runs"]) >= 5, name
