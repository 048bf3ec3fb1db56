"""Heat maps of all pairs of columns: association in both files, and the distance between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.drawing import INTERNAL, footer, house_style, svg_text
from understudy.report.figures import WIDTH, shortened

TITLES = {
    "confidential": "association, confidential (Cramér's V)",
    "released": "association, released (Cramér's V)",
    "distance": "distance of the two tables (total variation)",
}
NAMED = 80  # columns whose names fit; more are numbered on the axes


def pairs_figure(fitness: dict[str, Any]) -> str:
    """Three maps below each other, columns in the codebook's order."""
    from matplotlib.figure import Figure

    names = [shortened(name, 18) for name in fitness["columns"]]
    size = len(names)
    if size > NAMED:
        names = [str(k + 1) if k % 5 == 4 else "" for k in range(size)]
    font = float(np.clip(160 / max(size, 1), 4.5, 9))
    with house_style():
        height = WIDTH * 0.95
        figure = Figure(figsize=(WIDTH, 3 * height), layout="constrained")
        for axis, (key, title) in zip(figure.subplots(3, 1), TITLES.items(), strict=True):
            values = np.array(fitness["maps"][key], dtype=np.float64)
            top = 1.0 if key != "distance" else max(0.1, float(np.nanmax(values, initial=0.0)))
            image = axis.imshow(
                values, cmap="viridis" if key != "distance" else "magma_r", vmin=0, vmax=top
            )
            axis.set_xticks(range(size), names, rotation=90, fontsize=font)
            axis.set_yticks(range(size), names, fontsize=font)
            axis.set_title(title, fontsize=10)
            figure.colorbar(image, ax=axis, shrink=0.7)
        footer(figure, INTERNAL)
    return svg_text(figure)
