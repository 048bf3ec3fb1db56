"""Rehearsals and stages of ReferenceCensored, with a fitter whose fits pass where the test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from understudy.dp.contributions import clip_bound
from understudy.errors import Refused
from understudy.mechanisms import scale_rehearsal, stage_rehearsal
from understudy.mechanisms.contract import Mechanism, Terms
from understudy.mechanisms.reference_censored import RATIOS, SHARES, ReferenceCensored

Passes = Callable[["Stage"], bool]


@dataclass(frozen=True)
class Stage:
    """A fit that was asked for."""

    stage: str
    terms: Terms
    files: str
    fast: bool

    @property
    def alpha(self) -> float:
        return float(self.terms.alpha.max())


@dataclass(frozen=True)
class Fit:
    positions: np.ndarray
    good: bool

    def check(self) -> None:
        if not self.good:
            raise Refused("R-hat is 1.4.")


class File:
    """Stands for a survey; a weak dictionary keeps it."""


@dataclass(frozen=True, eq=False)
class TrialFitter:
    """f_i(theta) = -(theta - y_i)^2 / 2 of four records; theta is where its file is."""

    passes: Passes
    log: list[Stage] = field(default_factory=list)
    files: str = "confidential"
    weighs_proposals: bool = False
    fast: bool = False
    survey: Any = field(default_factory=File)
    n: int = 4
    model: str = "model"
    settings: str = "settings"
    level: float = 0.0  # of its values
    units: Any = None
    guess: list[Any] = field(default_factory=list)  # of this file and of those around it

    @property
    def present(self) -> np.ndarray:
        return np.ones(4, dtype=bool)

    def fit(self, terms: Terms, stage: str, start: Any = None) -> Fit:  # noqa: ARG002
        asked = Stage(stage, terms, self.files, self.fast)
        self.log.append(asked)
        spread = np.linspace(-1, 1, 40)[:, None] / np.sqrt(4 * asked.alpha)
        return Fit(self.level + spread, self.passes(asked))

    def record_loglik(self, position: np.ndarray) -> np.ndarray:
        return -0.5 * (self.level + np.array([-1.0, 0.0, 0.5, 1.0]) - position[0]) ** 2

    def on(self, survey: Any, purpose: str) -> TrialFitter:  # noqa: ARG002
        return replace(self, files="reference")

    def on_guess(self, number: int) -> TrialFitter:
        if number:
            return replace(self, files=f"guess {number}", level=0.3 * number)
        self.guess[:] = self.guess or [replace(self, files="guess 0", level=0.0)]
        return self.guess[0]

    def rehearsing(self, fast: bool) -> TrialFitter:
        return replace(self, fast=fast)

    def resampled(self, n: int, number: int) -> TrialFitter:
        assert n == self.n
        return replace(self, files=f"resample {number}")


def rehearsed(mechanism: Mechanism, passes: Passes, datasets: int = 3, **more: Any) -> Any:
    fitter: Any = TrialFitter(passes, **more)
    return mechanism.rehearsed(fitter, datasets).mechanism, fitter.log


REFERENCE: Any = object()
HISTORY = ReferenceCensored(3.0, REFERENCE, prior_scale=0.5)


@pytest.mark.parametrize("weighs", [True, False])
def test_the_largest_scale_that_passes_on_every_file_is_taken(weighs: bool) -> None:
    """M = 0.5: tried are 0.5, 0.354, 0.25, ... by weighed proposals, and 0.25, 0.177, 0.125, ... by
    chains of gradients; one file of all stands against the first two."""
    third = 0.25 if weighs else 0.125

    def passes(asked: Stage) -> bool:
        good = asked.alpha < 1.2 * third or asked.files != "resample 1"
        return good or asked.stage == "reference"

    chosen, log = rehearsed(HISTORY, passes, weighs_proposals=weighs)
    assert chosen.scale == pytest.approx(third)
    assert replace(chosen, scale="auto") == HISTORY
    number = scale_rehearsal.FILES_WEIGHED if weighs else scale_rehearsal.FILES_WALKED
    last = [asked for asked in log if asked.stage == "rehearsal"][-number - 1 :]
    assert [asked.files for asked in last] == [
        "reference", *(f"resample {k}" for k in range(number))
    ]  # fmt: skip
    assert all(asked.alpha == pytest.approx(third) for asked in last)
    assert all(asked.terms.limit == 0.5 and asked.terms.prior_scale == 0.5 for asked in last)
    assert all(asked.fast is weighs for asked in last)
    assert not any(asked.files == "confidential" for asked in log)


def test_chains_of_gradients_are_asked_where_weighed_proposals_never_suit() -> None:
    chosen, log = rehearsed(HISTORY, lambda asked: not asked.fast, weighs_proposals=True)
    assert chosen.scale == 0.25
    walked = 1 + scale_rehearsal.FILES_WALKED
    fast = [asked.fast for asked in log[1:]]
    assert fast[: scale_rehearsal.SCALES] == [True] * scale_rehearsal.SCALES
    assert fast[scale_rehearsal.SCALES :][:walked] == [False] * walked


def test_chains_are_asked_at_few_scales_where_they_are_the_second_choice() -> None:
    """Theirs are .25, .177, .125, ...: they agree from .2 on, and advice does not wait for them."""

    def passes(asked: Stage) -> bool:
        return asked.stage == "reference" or (asked.alpha < 0.2 and not asked.fast)

    for weighs in (True, False):
        chosen, log = rehearsed(HISTORY, passes, weighs_proposals=weighs)
        assert chosen.scale == pytest.approx(0.0625 if weighs else 0.25 / np.sqrt(2))
        at_reference = [asked for asked in log if asked.files == "reference" and not asked.fast]
        alphas = [asked.alpha for asked in at_reference if asked.stage == "rehearsal"]
        assert alphas == pytest.approx([0.25, 0.0625] if weighs else [0.25, 0.25 / np.sqrt(2)])
    fitter: Any = TrialFitter(lambda asked: asked.stage == "reference", weighs_proposals=True)
    with pytest.raises(Refused, match="nothing was spent"):
        HISTORY.rehearsed(fitter, 3)
    slow = [asked for asked in fitter.log if asked.stage == "rehearsal" and not asked.fast]
    assert len(slow) == 3
    assert {asked.terms.limit for asked in slow} == {0.5}  # no other epsilon, no fewer files


def test_a_release_that_would_fail_is_refused_with_the_nearest_that_passes() -> None:
    """At M = 0.5 nothing passes; at epsilon 3 for one data set M is 1.5."""

    def passes(asked: Stage) -> bool:
        return asked.stage == "reference" or asked.terms.limit > least

    least = 1.0
    with pytest.raises(Refused, match=r"R-hat is 1.4.*nothing was spent; epsilon = 3 passes for 1"):
        rehearsed(HISTORY, passes)
    least = 1.9
    with pytest.raises(Refused, match="epsilon = 12 passes for 3 data sets"):
        rehearsed(HISTORY, passes)
    least = 100.0
    with pytest.raises(Refused, match="another model, or fewer predictors") as refusal:
        rehearsed(HISTORY, passes)
    assert "\n" not in str(refusal.value)


def test_what_is_settled_is_not_rehearsed() -> None:
    for mechanism in (
        replace(HISTORY, scale=0.1),
        ReferenceCensored(3.0, "two-stage"),
        ReferenceCensored(3.0, "none", scale=0.1, stages=(0.2,)),
    ):
        chosen, log = rehearsed(mechanism, lambda _: True)
        assert (chosen, log) == (mechanism, [])


def test_a_check_and_its_release_share_one_rehearsal() -> None:
    fitter: Any = TrialFitter(lambda _: True)
    first = HISTORY.rehearsed(fitter, 3)
    asked = len(fitter.log)
    assert HISTORY.rehearsed(fitter, 3) is first
    assert len(fitter.log) == asked
    assert HISTORY.rehearsed(fitter, 1).mechanism != first.mechanism
    assert first.seconds is not None
    assert first.settled == "alpha = 0.25"


def test_without_history_the_best_division_that_passes_is_taken() -> None:
    nothing = ReferenceCensored(3.0, "none")

    def passes(asked: Stage) -> bool:
        return asked.stage != "stage 3"  # which only the first division has

    chosen, log = rehearsed(nothing, passes)
    assert chosen.stages in SHARES[1:]
    left = 3.0 * (1 - sum(chosen.stages)) / 6
    assert chosen.scale == pytest.approx(left / RATIOS[0])
    assert {asked.files for asked in log} == {"guess 0", "guess 1", "guess 2", "guess 3"}
    with pytest.raises(Refused, match=r"around the public guess.*use another model"):
        rehearsed(nothing, lambda asked: asked.stage != "stage 1")
    fitter: Any = TrialFitter(lambda _: True)
    kept = replace(nothing, stages=(0.4,)).rehearsed(fitter, 3)
    assert replace(kept.mechanism, scale="auto") == replace(nothing, stages=(0.4,))  # type: ignore[call-arg]
    assert kept.settled.startswith("alpha = 0.15 and the stages 1.2 + 1.8 of epsilon")


def test_the_guess_is_fitted_once_for_all_divisions_scales_files_and_the_release() -> None:
    """Three divisions, of which two fail at the first of three scales, on three files."""
    first = [3.0 * (1 - sum(shares)) / 6 / RATIOS[0] for shares in SHARES[1:]]

    def passes(asked: Stage) -> bool:
        return asked.stage != "release" or not np.isclose(asked.alpha, first).any()

    fitter: Any = TrialFitter(passes)
    release = ReferenceCensored(3.0, "none").rehearsed(fitter, 3).mechanism
    assert len([asked for asked in fitter.log if asked.stage == "release"]) > 9
    release.prepare(fitter, 3)
    assert [asked.files for asked in fitter.log].count("guess 0") == 1
    other: Any = TrialFitter(passes, level=2.0)
    release.prepare(other, 3)
    assert other.log[0].files == "guess 0"


def test_the_division_whose_draws_are_nearest_to_the_records_is_the_best() -> None:
    """Draws lie within 1/sqrt(4 alpha) of the file's level, where its records are most likely."""
    fitter: Any = TrialFitter(lambda _: True)
    divisions = [
        [ReferenceCensored(3.0, "none", scale, stages=(0.2,))] for scale in (0.05, 0.2, 0.1)
    ]
    assert stage_rehearsal.rehearsed_stages(divisions, fitter, 3).mechanism is divisions[1][0]


def test_the_files_keep_at_least_half_of_epsilon() -> None:
    assert all(sum(shares) <= 0.5 for shares in SHARES)
    assert ReferenceCensored(3.0, "two-stage").first_stage == 1 / 3


def test_a_release_without_history_takes_as_long_as_the_best_division_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock that ticks whenever it is read: begun at 0, two divisions from 1 to 2 and 3 to 4, the
    end at 5; a division went through three files."""
    ticks = count()
    monkeypatch.setattr(
        stage_rehearsal, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    )
    fitter: Any = TrialFitter(lambda _: True)
    divisions = [[ReferenceCensored(3.0, "none", 0.1, stages=(share,))] for share in (0.2, 0.3)]
    done = stage_rehearsal.rehearsed_stages(divisions, fitter, 3)
    assert done.seconds == pytest.approx(5 + 1 / 3)


def test_before_a_rehearsal_alpha_is_the_first_that_one_would_try() -> None:
    """Half of epsilon for three files, M = 1.5/6; and a record without a value weighs nothing."""

    class Absent(TrialFitter):
        present = np.array([True, False, True, True])

    fitter: Any = Absent(lambda _: True)
    prepared = ReferenceCensored(3.0, "none", stages=(0.5,)).prepare(fitter, 3)
    alpha = 0.25 / RATIOS[0]
    assert prepared.terms.alpha == pytest.approx([alpha, 0.0, alpha, alpha])


def charged(mechanism: ReferenceCensored, datasets: int) -> None:
    """Every draw that the records enter is paid for, and nothing of epsilon is left."""
    fitter: Any = TrialFitter(lambda _: True)
    prepared = mechanism.prepare(fitter, datasets)
    draws = [asked for asked in fitter.log if asked.files == "confidential"]
    assert [asked.stage for asked in draws] == [f"stage {k + 1}" for k in range(len(draws))]
    limits = [asked.terms.limit for asked in draws] + [prepared.terms.limit] * datasets
    spent = sum(2 * Fraction(limit) for limit in limits)
    assert spent <= Fraction(mechanism.epsilon)
    assert float(spent) == pytest.approx(mechanism.epsilon, rel=1e-12)


DIVISIONS = [(SHARES[0], 3), (SHARES[1], 1), ((0.1, 0.2, 0.05, 0.3), 2)]


@pytest.mark.parametrize(("shares", "datasets"), DIVISIONS)
def test_epsilon_is_the_sum_over_all_stages(shares: tuple[float, ...], datasets: int) -> None:
    charged(ReferenceCensored(3.0, "none", scale=0.1, stages=shares), datasets)


def test_a_stage_that_is_not_charged_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_epsilon(mechanism: ReferenceCensored, datasets: int) -> float:
        return clip_bound(mechanism.epsilon, datasets)

    monkeypatch.setattr(ReferenceCensored, "_last_limit", all_of_epsilon)
    with pytest.raises(AssertionError):
        charged(ReferenceCensored(3.0, "none", scale=0.1, stages=SHARES[0]), 3)


def test_each_stage_is_centred_at_the_one_draw_before_it() -> None:
    fitter: Any = TrialFitter(lambda _: True, level=2.0)
    mechanism = ReferenceCensored(3.0, "none", scale=0.2, stages=(0.3, 0.2))
    prepared = mechanism.prepare(fitter, 3)
    guess, first, second = fitter.log
    assert (guess.files, guess.terms.limit) == ("guess 0", np.inf)
    # M is 0.45, 0.3 and 1.5/6 = 0.25, and alpha the same part of each: 0.8
    assert [first.alpha, second.alpha] == pytest.approx([0.36, 0.24])
    assert float(prepared.terms.alpha.max()) == 0.2
    centres = [asked.terms.prior_centre[0] for asked in (first, second)]
    drawn = [2.0 + 1 / np.sqrt(4 * alpha) for alpha in (0.36, 0.24)]
    assert centres == pytest.approx([0.0, drawn[0]])
    assert prepared.terms.prior_centre == pytest.approx([drawn[1]])
    scales = [asked.terms.prior_scale for asked in (first, second)]
    assert [*scales, prepared.terms.prior_scale] == [1.0, 0.5, 0.5]
    at_centre = fitter.record_loglik(np.array([drawn[1]]))
    assert prepared.terms.reference_loglik == pytest.approx(at_centre)
    claim = mechanism.claim(prepared, None, 3)  # type: ignore[arg-type]
    assert claim.epsilon == 3.0
    assert "2 stages of one draw each, which spend 0.9, 0.6 of epsilon" in str(claim)
    assert "no history, 3 stages, 3 draws" in str(claim)


@pytest.mark.parametrize("stages", [(), (0.5, 0.5), (0.0,), (0.4, 1.0), (True,)])
def test_stages_leave_a_part_of_epsilon(stages: Any) -> None:
    with pytest.raises(Refused, match="`stages`"):
        ReferenceCensored(3.0, "none", stages=stages)
