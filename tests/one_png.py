"""Every figure of a module's tests is drawn as SVG, and the first of a run as PNG too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from understudy import drawing

_KEPT: list[bytes] = []


@pytest.fixture(scope="module")
def one_png() -> Iterator[None]:
    """Other PNGs are copies of the first: the same figure in dots is `save_figure`'s business."""
    draw = drawing._write_png

    def copied(figure: Any, path: Path) -> None:
        if not _KEPT:
            draw(figure, path)
            _KEPT.append(path.read_bytes())
        path.write_bytes(_KEPT[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "_write_png", copied)
        yield
