"""Pictures in the pages: plain SVG (templates/chart.svg.j2), coloured by the page's style sheet.

The pages allow neither scripts nor styles inside the document, and they are read in light
and in dark; so shapes carry a class instead of a colour, and every picture has its message
in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from numpy.typing import NDArray

from understudy.verify.numbers import short
from understudy.verify.planner import Plan
from understudy.verify.receipt import SHOWN, Receipt

FloatValues = NDArray[np.float64] | Sequence[float]

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 80, 30, 14, 52
TALL_TOP = 30  # with a line of words above


@cache
def _template() -> Template:
    templates = Environment(
        loader=PackageLoader("understudy.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("chart.svg.j2")


class Chart:
    """Axes, and shapes between them in the data's own units."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], top: int = TOP) -> None:
        self._x, self._y, self._top = _widened(*x), _widened(*y), top
        self._shapes: list[dict[str, Any]] = []

    def band(self, low: float, high: float, style: str) -> None:
        """A vertical band over the whole height, cut to the axes."""
        left, right = (self._across(min(max(v, self._x[0]), self._x[1])) for v in (low, high))
        width = f"{right - left:.1f}"
        self._add("rect", style, x=f"{left:.1f}", y=self._top, width=width)

    def area(self, x: FloatValues, low: FloatValues, high: FloatValues, style: str) -> None:
        there = [self._point(a, b) for a, b in zip(x, high, strict=True)]
        back = [self._point(a, b) for a, b in zip(x, low, strict=True)][::-1]
        self._add("polygon", style, points=there + back)

    def line(self, x: FloatValues, y: FloatValues, style: str) -> None:
        points = [self._point(a, b) for a, b in zip(x, y, strict=True)]
        self._add("polyline", style, points=points)

    def text(self, x: float, y: float, text: str) -> None:
        """Words at a point; y counts pixels from the top."""
        pixel = self._across(min(max(x, self._x[0]), self._x[1]))
        self._add("text", "mark", x=f"{pixel:.1f}", y=f"{y:.1f}", text=text)

    def svg(self, name: str, title: str, seen: str, across: str, up: str, marks_up: bool) -> Markup:
        """The picture with its axes; `seen` says in words what can be seen."""
        marks = ticks(*self._y, 5) if marks_up else ()
        picture = _template().render(
            name=name,
            title=title,
            seen=seen,
            across=across,
            up=up,
            width=WIDTH,
            height=HEIGHT,
            left=LEFT,
            right=RIGHT,
            top=self._top,
            bottom=BOTTOM,
            ticks_across=[(f"{self._across(v):.1f}", short(v)) for v in ticks(*self._x, 5)],
            ticks_up=[(f"{self._up(v):.1f}", short(v)) for v in marks],
            shapes=self._shapes,
        )
        return Markup(picture)  # the template escapes every text

    def _add(self, kind: str, style: str, **facts: Any) -> None:
        self._shapes.append({"kind": kind, "style": style, "points": [], **facts})

    def _across(self, value: float) -> float:
        low, high = self._x
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def _up(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - BOTTOM - self._top)

    def _point(self, x: float, y: float) -> str:
        return f"{self._across(x):.1f},{self._up(y):.1f}"


def posterior_chart(receipt: Receipt) -> Markup:
    """The posterior density, its middle part, and the tolerance where it applies."""
    posterior = receipt.belief
    picture = receipt.query.measured_by.picture(receipt.terms, posterior)
    x, height = posterior.density(241)
    low, high = posterior.interval(SHOWN)
    inner = (x >= low) & (x <= high)
    top = TOP if picture.tolerance is None else TALL_TOP
    chart = Chart(picture.reach, (0, float(height.max()) * 1.05), top=top)
    if picture.tolerance is not None:
        _mark_tolerance(chart, picture.tolerance)
    chart.area(x, np.zeros(len(x)), height, "density")
    chart.area(x[inner], np.zeros(int(inner.sum())), height[inner], "middle")
    chart.line(x, height, "curve")
    return chart.svg(
        "posterior", "What the answer says", picture.seen, picture.across, "plausible", False
    )


def plan_charts(plan: Plan) -> tuple[Markup, Markup]:
    """What would be reported, and how often the verdict would be "inside" (V §5)."""
    ratios = np.unique(plan.table["se"].to_numpy())
    same = _nearest(plan, ratios, 1.0)
    offset = same["estimate"].to_numpy() - plan.estimate
    low, high = same["median_low"].to_numpy(), same["median_high"].to_numpy()
    measure = plan.measured_by
    reach = measure.report_reach or (float(low.min()), float(high.max()))
    first = Chart((float(offset[0]), float(offset[-1])), reach, top=TALL_TOP)
    _mark_tolerance(first, plan.tolerance)
    first.area(offset, low, high, "middle")
    first.line(offset, same["median_mid"].to_numpy(), "curve")
    if measure.reports_difference:
        first.line(offset, offset, "truth")
    across = "true difference, if it were"
    reported = first.svg(
        "plan-reported",
        "What would be reported",
        "The line is the middle report for each true difference; nine reports in ten fall into "
        f"the shaded band. At no difference the band reaches from {short(_at(offset, low, 0))} "
        f"to {short(_at(offset, high, 0))}.",
        across,
        measure.reports,
        marks_up=True,
    )
    second = Chart((float(offset[0]), float(offset[-1])), (0, 1), top=TALL_TOP)
    _mark_tolerance(second, plan.tolerance)
    for ratio, style in ((0.5, "curve thin"), (2.0, "curve thin"), (1.0, "curve")):
        rows = _nearest(plan, ratios, ratio)
        second.line(offset, rows["says_inside"].to_numpy(), style)
    chance = same["says_inside"].to_numpy()
    verdicts = second.svg(
        "plan-verdict",
        "How often the verdict would be “inside”",
        f"At no difference the verdict is “inside” {_at(offset, chance, 0):.0%} of the time, at "
        f"twice your tolerance {chance[-1]:.0%}. Thin lines: a confidential standard error half "
        "and twice the synthetic one.",
        across,
        "chance of “inside”",
        marks_up=True,
    )
    return reported, verdicts


def right_chance(plan: Plan) -> float:
    """The chance of a right verdict, over the assumed differences, at the same precision."""
    ratios = np.unique(plan.table["se"].to_numpy())
    return float(_nearest(plan, ratios, 1.0)["says_right"].to_numpy().mean())


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers between two ends: 1, 2 or 5 times a power of ten apart."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _mark_tolerance(chart: Chart, width: float) -> None:
    chart.band(-width, width, "tolerance")
    chart.text(0, 20, "within your tolerance")


def _nearest(plan: Plan, ses: NDArray[np.float64], ratio: float) -> pl.DataFrame:
    nearest = ses[np.argmin(np.abs(np.log(ses / plan.se / ratio)))]
    return plan.table.filter(pl.col("se") == nearest).sort("estimate")


def _at(x: FloatValues, y: FloatValues, value: float) -> float:
    return float(np.interp(value, np.asarray(x), np.asarray(y)))


def _widened(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)
