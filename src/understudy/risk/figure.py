"""Figures of risk: distributions side by side (R Figure 2) and before-after (R Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.drawing import COLOURS, INTERNAL, footer, house_style
from understudy.risk.patterns import Floats
from understudy.risk.profile import WhackAMole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__public__ = ("distribution_figure", "whack_a_mole_figure")


def risk_density(risk: Floats, bandwidth: float = 0.015) -> tuple[Floats, Floats]:
    """Density on [0, 1] by a Gaussian kernel that reflects at both ends, on 400 cells.

    Risks of 0 and near 1 are common, and a plain kernel would put mass outside.
    """
    cells = 400
    counts = np.histogram(risk, bins=cells, range=(0.0, 1.0))[0] / len(risk) * cells
    reach = int(np.ceil(4 * bandwidth * cells))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / (bandwidth * cells)) ** 2)
    mirrored = np.pad(counts, reach, mode="symmetric")
    density = np.convolve(mirrored, kernel / kernel.sum(), mode="valid")
    return (np.arange(cells) + 0.5) / cells, density


def distribution_figure(panels: Mapping[str, Mapping[str, Floats]], subtitle: str = "") -> Figure:
    """Violins of risk: a panel per set of known variables, a violin per released file.

    Two panels stand beside each other; more of them would be too small to read on a page.
    """
    from matplotlib.figure import Figure

    most = max(len(files) for files in panels.values())
    across, down = min(2, len(panels)), -(-len(panels) // 2)
    with house_style():
        width = max(4.5, across * (1.0 + 1.1 * most))
        figure = Figure(figsize=(width, 0.8 + 3.8 * down), layout="constrained")
        axes = figure.subplots(down, across, sharey=True, squeeze=False)
        for unused in axes.flat[len(panels) :]:
            unused.remove()
        for axis, (title, files) in zip(axes.flat, panels.items(), strict=False):
            for position, risk in enumerate(files.values()):
                _violin(axis, position, risk, COLOURS[position % len(COLOURS)])
            axis.set_xticks(range(len(files)), list(files))
            axis.set_xlim(-0.6, len(files) - 0.4)
            axis.set_title(title, fontsize=10, pad=24)
            axis.set_ylim(-0.02, 1.02)
            axis.grid(axis="y")
        for axis in axes[:, 0]:
            axis.set_ylabel("Identification risk of a record")
        footer(figure, subtitle, INTERNAL)
    return figure


def whack_a_mole_figure(
    before: Floats, after: Floats, rises: WhackAMole, names: tuple[str, str]
) -> Figure:
    """Risk of every record before and after, with those that rise picked out."""
    from matplotlib.figure import Figure

    risen = np.zeros(len(before), np.bool_)
    risen[rises.records["record"].to_numpy()] = True
    faint = float(np.clip(2000 / len(before), 0.05, 0.6))
    label = f"risk rises by {rises.rise:g} or more: {rises.count:,} of {len(before):,} records"
    with house_style():
        figure = Figure(figsize=(5.2, 5.4), layout="constrained")
        axis = figure.subplots()
        # As pixels, for a million circles would make a huge SVG.
        plain: dict[str, Any] = {"s": 8, "linewidths": 0, "rasterized": True}
        axis.scatter(before[~risen], after[~risen], alpha=faint, color=COLOURS[1], **plain)
        axis.scatter(
            before[risen],
            after[risen],
            s=24,
            color=COLOURS[2],
            edgecolors="black",
            linewidths=0.4,
            label=label,
        )
        axis.plot([0, 1], [0, 1], color="black", linewidth=0.8)
        axis.set_xlabel(f"Risk: {names[0]}")
        axis.set_ylabel(f"Risk: {names[1]}")
        axis.set_xlim(-0.02, 1.02)
        axis.set_ylim(-0.02, 1.02)
        axis.set_aspect("equal")
        axis.grid()
        figure.legend(loc="outside upper left", frameon=False, fontsize=9)
        footer(figure, INTERNAL)
    return figure


def _violin(axis: Any, position: int, risk: Floats, colour: str) -> None:
    grid, density = risk_density(risk)
    half = 0.42 * density / density.max()
    seen = half > 0.002  # no hairline where there are no records
    axis.fill_betweenx(
        grid, position - half, position + half, where=seen, color=colour, alpha=0.55, lw=0
    )
    axis.plot([position - 0.25, position + 0.25], [risk.mean()] * 2, color="black", linewidth=2)
    axis.annotate(
        f"mean {risk.mean():.3f}",
        (position, 1.0),
        xytext=(0, 8),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
    )
