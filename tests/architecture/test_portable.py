"""The tools of `make test-portable`: the design of its runs, shifted seeds, which tests use JAX."""

from __future__ import annotations

import sys
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from own_core import own_core
from seed_offsets import STEP, Offset, offsets_of
from uses_jax import uses_jax

ROOT = Path(__file__).resolve().parents[2]
FACTORS = ("instructions", "threads", "offset", "busy")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = SourceFileLoader("test_portable_script", str(ROOT / "scripts" / "test-portable"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


def test_every_level_of_every_factor_occurs_twice_or_more(script: ModuleType) -> None:
    assert len(script.EIGHT) == 8
    levels = {"instructions": 4, "threads": 2, "offset": 4, "busy": 2}
    for factor, number in levels.items():
        counts = Counter(getattr(run, factor) for run in script.EIGHT)
        assert len(counts) == number
        assert min(counts.values()) >= 2


def test_pairs_of_levels_occur_as_the_script_says(script: ModuleType) -> None:
    pairs = {
        (factor, other): {(getattr(run, factor), getattr(run, other)) for run in script.EIGHT}
        for factor, other in combinations(FACTORS, 2)
    }
    for pair in combinations(FACTORS, 2):
        whole = {"instructions": 4, "threads": 2, "offset": 4, "busy": 2}
        expected = 8 if pair == ("instructions", "offset") else whole[pair[0]] * whole[pair[1]]
        assert len(pairs[pair]) == expected, pair


def test_four_runs_have_every_level_and_every_pair_of_threads_and_load(script: ModuleType) -> None:
    assert len(script.FOUR) == 4
    for factor, number in {"instructions": 4, "threads": 2, "offset": 4, "busy": 2}.items():
        assert len({getattr(run, factor) for run in script.FOUR}) == number
    assert len({(run.threads, run.busy) for run in script.FOUR}) == 4


def test_workers_have_a_core_each() -> None:
    assert [own_core(worker, {3, 5}) for worker in ("gw0", "gw1", "gw2")] == [3, 5, 3]


def test_results_are_counted(script: ModuleType, tmp_path: Path) -> None:
    results = tmp_path / "run.xml"
    results.write_text(
        "<testsuites><testsuite><testcase classname='a' name='good'/>"
        "<testcase classname='a' name='bad'><failure/></testcase>"
        "<testcase classname='a' name='broken'><error/></testcase>"
        "<testcase classname='a' name='left out'><skipped/></testcase></testsuite></testsuites>"
    )
    counts = script.counts_of(results)
    assert (counts.passed, counts.skipped) == (1, 1)
    assert counts.failed == ("a::bad", "a::broken")


def test_seeds_are_shifted_and_nothing_else() -> None:
    offset = Offset(3)
    assert offset.shifted(5) == 5 + 3 * STEP
    assert offset.shifted(np.int64(5)) == 5 + 3 * STEP
    assert offset.shifted([5, 2]) == [5 + 3 * STEP, 2]
    assert offset.shifted(2**63 - 1) < 2**63
    generator = np.random.Generator(np.random.PCG64(1))
    for other in (None, -1, True, generator, "7"):
        assert offset.shifted(other) is other
    assert Offset(0).shifted(5) == 5
    assert list(offsets_of("1-3")) == [1, 2, 3]
    assert list(offsets_of("4")) == [4]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/unit/fitting/test_nuts.py", True),  # imports JAX itself
        ("tests/unit/test_synthesize.py", True),
        ("tests/unit/release/test_publish.py", True),  # by `us.publish`
        ("tests/tutorials/test_tutorials.py", True),  # executes text
        ("tests/unit/test_claim.py", False),
        ("tests/unit/tables/test_taylor.py", False),
        ("tests/unit/fitting/test_diagnostics.py", False),
    ],
)
def test_tests_that_use_jax_are_found_by_what_they_import(test: str, expected: bool) -> None:
    assert uses_jax(ROOT / test) is expected
