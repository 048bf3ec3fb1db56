"""The secant on log c: few fits, never above the target, and a refusal when it cannot be met."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from understudy.dp.calibrate import _next, calibrate
from understudy.errors import Refused


def counting(
    bound: Callable[[float], float],
) -> tuple[list[float], Callable[..., tuple[float, float]]]:
    seen: list[float] = []

    def fit_at(scale: float, previous: float | None, stream: int) -> tuple[float, float]:
        assert stream == len(seen) // 10  # a stream ends after ten fits without success
        assert previous == (seen[-1] if seen else None)  # each fit starts from the one before
        seen.append(scale)
        return bound(scale), scale

    return seen, fit_at


@pytest.mark.parametrize(
    "bound",
    [
        lambda c: 2.7 * c,
        lambda c: 2.7 * c**0.6,
        lambda c: 2.7 * c**1.8,
        lambda c: 9 * c / (1 + 3 * c) + 0.1,
        lambda c: 2.7 * c * (1 + 0.01 * ((1e6 * c) % 1)),  # a little noise
    ],
)
@pytest.mark.parametrize("target", [0.4, 1.5, 2.9])
def test_the_target_is_met_from_below(bound: Callable[[float], float], target: float) -> None:
    seen, fit_at = counting(bound)
    calibrated = calibrate(fit_at, target)
    assert target * 0.98 <= calibrated.bound <= target
    assert calibrated.bound == bound(calibrated.scale)
    assert calibrated.fit == calibrated.scale
    assert calibrated.fits == len(seen) <= 6


def test_saturated_weights_stop_early_below_the_target() -> None:
    seen, fit_at = counting(lambda c: min(3.0 * c, 5.0))
    calibrated = calibrate(fit_at, 20.0)
    assert calibrated.bound == 5.0
    assert len(seen) <= 4
    for target in (10.2, 20.0):  # steps of 0.7 and of 1.4 on the log scale
        seen, fit_at = counting(lambda _: 5.0)
        assert calibrate(fit_at, target).fits == len(seen) == 2


def test_a_small_step_without_effect_is_not_saturation() -> None:
    _, fit_at = counting(lambda c: 0.97 * max(c / 1.1, 1.0))
    assert 0.98 <= calibrate(fit_at, 1.0).bound <= 1.0


def test_a_bound_of_nothing_asks_for_a_larger_scale() -> None:
    seen, fit_at = counting(lambda c: 0.0 if c < 2 else 0.5 * c)
    assert 9.8 <= calibrate(fit_at, 10.0).bound <= 10.0
    assert seen[1] > seen[0]


def test_a_jump_gives_the_best_below_the_target() -> None:
    _, fit_at = counting(lambda c: 1.0 if c < 0.5 else 3.0)
    assert calibrate(fit_at, 2.0).bound == 1.0


def test_another_stream_is_taken_where_the_bound_jumps() -> None:
    """The target lies in the first stream's jump; the second stream's is elsewhere."""
    jumps = {0: 0.7, 1: 0.9, 2: 0.5}
    streams: list[int] = []

    def fit_at(scale: float, previous: float | None, stream: int) -> tuple[float, float]:
        assert (previous is None) == (not streams)
        streams.append(stream)
        return scale * (1.9 if scale < jumps[stream] else 3.0), scale

    calibrated = calibrate(fit_at, 1.6)
    assert 1.6 * 0.98 <= calibrated.bound <= 1.6
    assert calibrated.fits == len(streams)
    assert streams == [0] * 10 + [1] * (len(streams) - 10)
    assert 11 <= len(streams) <= 16


def test_an_unreachable_target_is_refused() -> None:
    _, fit_at = counting(lambda c: 2.0 + c)
    with pytest.raises(Refused, match="larger epsilon"):
        calibrate(fit_at, 1.0)


@pytest.mark.parametrize(
    ("tried", "step"),
    [
        ([(0.0, 0.7)], -0.7),  # a slope of 1, as long as nothing else is known
        ([(0.0, 0.7), (0.0, 0.7)], -0.7),
        ([(0.0, 2.0), (-1.0, 1.0)], -2.0),
        ([(0.0, 2.0), (-1.0, 0.5)], -1.0 - 0.5 / 1.5),
        ([(3.0, 5.0), (1.0, 0.5), (0.0, -0.5)], 0.5),  # a secant with the nearest to the aim
        ([(3.0, 0.5), (1.0, 5.0), (0.0, -0.5)], 0.5),
        ([(0.0, 1.1), (-1.0, 1.0)], -6.0),  # slopes are kept between 0.2 and 3
        ([(0.0, 9.0), (-1.0, 1.5)], -1.5),
        ([(0.0, 0.5), (-1.0, -3.0)], -0.5),  # a step to what is known halves the bracket instead
        ([(2.0, 2.0), (1.0, 0.5), (-1.0, -6.0)], 0.0),
        ([(-2.0, -2.0), (-1.0, -0.5), (1.0, 6.0)], 0.0),
        ([(-1.0, 0.5), (1.0, 0.4), (0.0, -0.1)], 0.2),  # jumps: no bracket
        ([(0.0, 50.0)], -9.210340371976184),  # log(1e-4)
        ([(0.0, -50.0)], 9.210340371976184),
    ],
)
def test_steps_by_hand(tried: list[tuple[float, float]], step: float) -> None:
    """On (log c, log bound) with the aim at 0."""
    assert _next(tried, 0.0) == pytest.approx(step, rel=1e-12, abs=1e-12)
