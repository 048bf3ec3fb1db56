"""What tests of a whole file's budget share."""

from __future__ import annotations

from fractions import Fraction

import pytest

from understudy.dp import noise
from understudy.mechanisms.whole_file import budget


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[Fraction]:
    """The cost of every call of noise, in the order of the calls."""
    costs: list[Fraction] = []

    def listed(law):
        def drawn(counts, sensitivity, cost):
            costs.append(Fraction(cost))
            return law(counts, sensitivity, cost)

        return drawn

    monkeypatch.setattr(budget, "integer_laplace", listed(noise.integer_laplace))
    monkeypatch.setattr(budget, "integer_gaussian", listed(noise.integer_gaussian))
    return costs
