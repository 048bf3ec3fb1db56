"""How every figure looks, and how it is written: SVG and PNG beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__public__ = ("COLOURS", "INTERNAL", "footer as figure_footer", "house_style", "save_figure")

# Okabe and Ito's colours, told apart by colour-blind readers and in print.
COLOURS = ("#7f7f7f", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

DOTS_PER_INCH = 160  # of a PNG

# The mark of everything that only the data holder may see.
INTERNAL = "internal: computed from confidential data"

_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "svg.hashsalt": "understudy",  # the same figure gives the same bytes
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this: one look for all figures, and the caller's settings untouched."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write `path`.svg and `path`.png; the same figure gives the same bytes."""
    written = [path.with_suffix(".svg"), path.with_suffix(".png")]
    with house_style():
        written[0].write_text(svg_text(figure), encoding="utf-8")
        figure.set_layout_engine("none")  # everything is in its place already
        _write_png(figure, written[1])
    return written


def svg_text(figure: Figure) -> str:
    """The figure as SVG, without a date. `savefig` would draw it twice, once for its layout."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    with house_style():
        canvas.print_svg(out, metadata={"Date": None})
    return out.getvalue()


def _write_png(figure: Figure, path: Path) -> None:
    """The figure as `savefig` writes it, which draws twice where a layout was ever asked for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    usual = figure.dpi
    figure.set_dpi(DOTS_PER_INCH)
    canvas: Any = FigureCanvasAgg(figure)
    try:
        canvas.print_png(path)
    finally:
        figure.set_dpi(usual)


def footer(figure: Figure, *lines: str) -> None:
    """Small grey lines under a figure: what it rests on, and who may see it."""
    figure.supxlabel("\n".join(line for line in lines if line), fontsize=8.5, color="#555555")
