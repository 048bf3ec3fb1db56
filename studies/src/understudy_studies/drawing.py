"""Figures of a study: panels in the house's style, and one legend above them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib.figure import Figure as Figure

import understudy as us

GREY, BLUE, ORANGE, GREEN, PINK, SKY, VERMILION = us.COLOURS


@contextmanager
def panels(
    rows: int, columns: int, width: float, height: float, **shared: Any
) -> Iterator[tuple[Figure, Any]]:
    """A figure of so many inches and its axes, (rows, columns), to be drawn in the style."""
    with us.house_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **shared)


def legend_above(figure: Figure, axis: Any, columns: int, **looks: Any) -> None:
    """What is drawn in one panel, named for all of them."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=columns, frameon=False, **looks
    )
