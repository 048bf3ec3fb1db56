"""All chances of a false alarm together: the table in docs/testing.md, below 1e-4 per run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from scipy import stats

import chance

TESTS = Path(__file__).parents[1]
ROOMS = (TESTS, TESTS.parent / "studies" / "tests")
PAGE = TESTS.parent / "docs" / "testing.md"
MOST = 1e-4

Rows: TypeAlias = list[tuple[str, float, str]]  # test, chance, why: one for each case

LISTING = """
import json, sys, pytest
class Listing:
    def pytest_collection_finish(self, session):
        import chance  # not before pytest has rewritten its assertions
        stated = [(item, chance.statement(item)) for item in session.items]
        rows = [[item.nodeid.split("[")[0], *told] for item, told in stated if told]
        print("LISTING" + json.dumps(rows), file=sys.stderr)
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                      *sys.argv[1:]], [Listing()]))
"""


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> Rows:
    """Every case of the ordinary suite that states a chance: this run's own list, if it is all."""
    options, items = request.config.option, request.session.items
    whole = not options.keyword and options.markexpr == "not slow"
    if not (whole and set(stating()) <= {item.path for item in items}):
        return listed()
    stated = [(item.nodeid.split("[")[0], chance.statement(item)) for item in items]
    return [(name, *answer) for name, answer in stated if answer]


def stating() -> list[Path]:
    """The files in which a test states a chance."""
    return [
        path
        for room in ROOMS
        for path in sorted(room.rglob("test_*.py"))
        if path != Path(__file__) and "mark.chance" in path.read_text(encoding="utf-8")
    ]


@cache
def listed() -> Rows:
    """The same by another process, which collects these files and runs nothing."""
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *map(str, stating())],
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("LISTING")]
    assert len(lines) == 1, done.stdout + done.stderr
    return [tuple(row) for row in json.loads(lines[0].removeprefix("LISTING"))]


def table(rows: Rows) -> str:
    """One line per test: cases, the chance of them all, and what would have to happen."""
    lines = ["| test | cases | chance of a false alarm | what would have to happen |"]
    lines.append("|---|---|---|---|")
    for name in sorted({test for test, _, _ in rows}):
        cases = [(p, why) for test, p, why in rows if test == name]
        total = sum(p for p, _ in cases)
        short = name.removeprefix("tests/").replace("::", " ")
        file, _, test = short.partition(" ")
        lines.append(f"| `{file}` `{test}` | {len(cases)} | {total:.1e} | {cases[0][1]} |")
    total = sum(p for _, p, _ in rows)
    lines.append(f"| all together | {len(rows)} | {total:.1e} | below {MOST:.0e} |")
    return "\n".join(lines)


def test_all_chances_together_are_small(rows: Rows) -> None:
    assert len(rows) > 30
    assert all(0 <= p < MOST for _, p, _ in rows)
    assert sum(p for _, p, _ in rows) < MOST


def test_the_page_shows_the_table(rows: Rows) -> None:
    """`python tests/architecture/test_chance.py` writes it anew."""
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_table(text, rows)


BEGIN, END = "<!-- chances: begin -->", "<!-- chances: end -->"


def with_table(text: str, rows: Rows) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}"


# -- the bounds themselves -----------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.4, 2.0, 30.0])
def test_bounds_hold_for_the_law(scale: float) -> None:
    law = chance.noise(scale)
    k = np.arange(-2000, 2001)
    pmf = law.pmf(k)
    assert chance.any_noise_at_all(1, scale) == pytest.approx(1 - law.pmf(0))
    assert chance.noise_beyond(3, scale) == pytest.approx(pmf[np.abs(k) > 3].sum())
    assert chance.same_noise(3, scale, pairs=2) == pytest.approx(2 * (pmf**2).sum() ** 3)
    # the mean of ten draws, by convolution; Chernoff is above it, and not idle
    size = np.bincount(np.abs(k), pmf)
    ten = np.array([1.0])
    for _ in range(10):
        ten = np.convolve(ten, size)[:20_000]
    mean = (size * np.arange(size.size)).sum()
    gap = 2 * scale
    exact = ten[np.abs(np.arange(ten.size) / 10 - mean) > gap].sum()
    assert exact < chance.mean_size_beyond(gap, scale, 10) < 0.5


def test_draws_of_another_scale_do_not_follow_the_law() -> None:
    draw = np.random.default_rng(1)
    for scale, trials in ((2.0, 960), (12.0, 1560), (1000.0, 4000)):
        right, wrong = (
            chance.noise(factor * scale).ppf(draw.random(trials)) for factor in (1.0, 2.0)
        )
        assert chance.follows(right, chance.noise(scale))
        assert not chance.follows(wrong, chance.noise(scale))
        assert not chance.follows(right, chance.noise(2 * scale))


def test_intervals_miss_as_seldom_as_they_say() -> None:
    """Exact: the binomial's mass outside the interval, at a level where it shows."""
    x = np.arange(201)
    outside = [not chance.within([k], 200, [0.3], 0.01) for k in x]
    assert 0.002 < stats.binom.pmf(x[outside], 200, 0.3).sum() <= 0.01


def test_an_audit_fails_as_often_as_is_computed() -> None:
    """By simulation, at a level where it shows: 20,000 runs, to five standard errors."""
    draws, alpha, p, q = 2000, 1e-2, 0.7, 0.2
    draw = np.random.default_rng(2)
    first, other = draw.binomial(draws, p, 20_000), draw.binomial(draws, q, 20_000)
    lower = stats.beta.ppf(alpha / 2, first, draws - first + 1)
    upper = stats.beta.isf(alpha / 2, other + 1, draws - other)
    bound = np.log(lower / upper)
    for low, high in ((1.05, 1.2), (1.0, 1.15), (1.05, np.inf)):
        share = np.mean((bound <= low) | (bound > high))
        assert share > 0.05
        assert chance.audit_fails(p, q, draws, alpha, low, high) == pytest.approx(share, abs=0.0125)


DRAWING = """
import numpy as np, pytest
from understudy.dp.noise import integer_laplace
from understudy.verify.partitions import new_key

@pytest.fixture(scope="module")
def drawn():
    return integer_laplace(np.zeros(2, dtype=int), 1, 1.0)

def test_noise(): integer_laplace(np.zeros(2, dtype=int), 1, 1.0)
def test_key(): new_key()
def test_seed(): np.random.default_rng()
def test_first_of_a_fixture(drawn): pass
def test_second_of_a_fixture(drawn): pass

@pytest.mark.any_noise
def test_stated(drawn): new_key()
@pytest.mark.chance(1e-9, "why")
def test_also_stated(): new_key()
def test_seeded(): np.random.default_rng(1)
@pytest.mark.usefixtures("stand_in_noise", "stand_in_keys", "stand_in_answers")
def test_stand_in():
    from understudy.verify.noise import SAMPLERS
    integer_laplace(np.zeros(2, dtype=int), 1, 1.0), new_key()
    [sampler(2000, 10**6, None)([0]) for sampler in SAMPLERS.values()]
"""


def test_a_test_that_draws_without_a_word_fails(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (folder / "test_drawing.py").write_text(DRAWING, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "chance", "-p", "no:cacheprovider", "-rA", "-q",
         "--rootdir", str(tmp_path), str(folder)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
    )  # fmt: skip
    outcomes = {
        line.split("::")[1].split(" ")[0]: line.split(" ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED"))
    }
    failed = {name for name, outcome in outcomes.items() if outcome == "FAILED"}
    assert failed == {
        "test_noise", "test_key", "test_seed",
        "test_first_of_a_fixture", "test_second_of_a_fixture",
    }, done.stdout  # fmt: skip
    assert len(outcomes) == 9


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), listed()), encoding="utf-8")


def test_a_clone_named_like_the_command_is_not_the_command(tmp_path: Path) -> None:
    clone = tmp_path / "understudy"
    clone.mkdir()
    assert not chance._is_program(["git", "-C", str(clone), "ls-files"])
    assert chance._is_program(["understudy", "release", "release.toml"])
    assert chance._is_program([str(clone / ".venv" / "bin" / "understudy"), "--help"])
    assert chance._is_program([sys.executable, "-m", "understudy.cli.main"])
