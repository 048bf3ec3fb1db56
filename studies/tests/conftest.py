"""The studies are tested like the rest: noise without a seed is accounted for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from understudy import drawing

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # pytest runs in importlib mode
pytest_plugins = ("chance", "shared_files")


@pytest.fixture(scope="session", autouse=True)
def one_png() -> Iterator[None]:
    """The first PNG is drawn, and the others are copies of it: every figure is drawn as SVG, and
    the same once more in dots is `save_figure`'s own business."""
    draw, kept = drawing._write_png, list[bytes]()

    def copied(figure: Any, path: Path) -> None:
        if not kept:
            draw(figure, path)
            kept.append(path.read_bytes())
        path.write_bytes(kept[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "_write_png", copied)
        yield
