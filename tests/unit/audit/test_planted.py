"""What is planted costs what its name says; verdicts at their limits; the table's columns."""

from __future__ import annotations

import math

import pytest

from understudy.audit.attack import Losses, attacks
from understudy.audit.audit import AuditResult, audit, audit_table, judge

# the exact loss of the planted mistake, in claims
TIMES = {
    ("marginals", "scale-halved"): 2.0,
    ("marginals", "one-table"): 2.0,
    ("modips-public", "scale-halved"): 2.0,
    ("modips-public", "two-sets"): 2.0,
    ("modips-threshold", "scale-halved"): 2.0,
    ("modips-threshold", "threshold-missing"): math.inf,
    ("perturbed-histogram", "scale-halved"): 2.0,
    ("perturbed-histogram", "two-draws"): 2.0,
    ("noisy-moments", "noise-halved"): 2.0,
    ("noisy-moments", "noise-for-each-of-two-files"): 2.0,
    ("noisy-moments-units", "units-clipped-per-record"): 3.0,
    ("noisy-moments-bins", "units-counted-as-one"): 3.0,
    ("noisy-moments-bins", "noise-for-each-of-two-files"): 2.0,
    ("modips-public-units", "limit-missing"): 4 / 3,
    ("modips-public-units", "noise-for-one"): 3.0,
    ("modips-threshold-units", "limit-missing"): 4 / 3,
    ("modips-threshold-units", "noise-for-one"): math.inf,
    ("modips-threshold-units", "threshold-for-one"): math.inf,
    ("marginals-units", "limit-missing"): 4 / 3,
    ("marginals-units", "noise-for-one"): 3.0,
    ("histogram-units", "limit-missing"): 4 / 3,
    ("histogram-units", "noise-for-one"): 3.0,
    ("laplace-table-units", "noise-for-one"): 3.0,
}


@pytest.mark.any_noise
@pytest.mark.parametrize(("name", "mutant"), TIMES)
def test_a_planted_mistake_costs_what_it_says(name: str, mutant: str) -> None:
    for result in audit(name, epsilon=0.5, trials=100, mutant=mutant):
        assert result.exact == pytest.approx(TIMES[name, mutant] * result.claimed, rel=1e-3)


@pytest.mark.any_noise
@pytest.mark.parametrize("name", list(dict.fromkeys(name for name, _ in TIMES)))
def test_without_it_the_claim_is_met(name: str) -> None:
    for result in audit(name, epsilon=0.5, trials=100):
        assert result.exact == pytest.approx(result.claimed, rel=1e-3)


def test_one_attack_is_there_to_leak() -> None:
    assert {name for name, attack in attacks().items() if attack.leaks} == {"modips-observed"}


@pytest.mark.parametrize(
    ("shown", "exact", "verdict"),
    [
        (1.0, 1.0, "holds"),
        (0.9, 1 + 1e-9, "holds"),  # no more than rounding
        (0.95, 1 + 1.5e-9, "broken"),
        (1 + 1e-15, 1.0, "broken"),
        (0.9 - 1e-15, 1.0, "asleep"),
    ],
)
def test_verdicts_at_their_limits(shown: float, exact: float, verdict: str) -> None:
    assert judge(Losses(1.0, shown, exact)) == verdict


def test_the_largest_epsilon_is_audited_and_the_seed_is_fixed() -> None:
    asked = {"epsilon": 4.0, "trials": 2000, "relations": ("blank",)}
    assert audit("censored", **asked) == audit("censored", **asked, seed=1)  # type: ignore[arg-type]


def test_columns_of_the_table_stand_under_their_heads() -> None:
    results = [
        AuditResult("censored", "blank", 1.0, 0.95, 0.97, 3_000_000, "holds"),
        AuditResult("marginals", "add-remove", 0.5, 12.0, 0.97, 100, "broken", "one-table"),
    ]
    assert audit_table(results).splitlines() == [
        "mechanism  relation    mutant     claimed    shown   exact     trials  verdict",
        "censored   blank       -                1   0.9500  0.9700  3,000,000  holds",
        "marginals  add-remove  one-table      0.5  12.0000  0.9700        100  broken",
    ]
