"""Releases beside each other: numbers of their evidence, one figure."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from understudy.drawing import save_figure
from understudy.errors import Refused
from understudy.report.comparison import compare_releases, comparison_figure


def evidence(epsilon: float | None, shift: float, risk: float) -> dict[str, Any]:
    """Two cells, one of them off by `shift` standard errors."""
    cell = {"released": {"se": 3.0}, "confidential": {"se": 2.0}, "overlap": 0.5}
    profile = [
        {"release": "confidential", "mean": 0.7, "share_above": 0.9},
        {"release": "synthetic", "mean": risk, "share_above": 0.1},
    ]
    return {
        "mechanism": "M()",
        "claim": {"kind": "risk" if epsilon is None else "formal", "epsilon": epsilon},
        "datasets": 3,
        "records_confidential": 100,
        "table": {"cells": [{**cell, "difference": shift}, {**cell, "difference": 0.0}]},
        "utility": {"columns": [{"U_m": 0.1}, {"U_m": 0.3}], "propensity": {"ratio": [2.0, 4.0]}},
        "risk": {"profile": profile},
    }


def write(folder: Path, facts: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "evidence.json").write_text(json.dumps(facts))
    return folder


def test_a_row_for_each_release(tmp_path: Path) -> None:
    first = write(tmp_path / "one", evidence(3.0, 2.0, 0.2))
    two = write(tmp_path / "two", evidence(None, 1.0, 0.4))
    table = compare_releases([first, two])
    assert table["release"].to_list() == ["one", "two"]
    assert table["epsilon"].to_list() == [3.0, None]
    assert table["error"].to_list() == pytest.approx([math.sqrt(2), math.sqrt(0.5)])
    assert table["se_ratio"].to_list() == [1.5, 1.5]
    assert table["u_m"].to_list() == pytest.approx([0.2, 0.2])
    assert table["pmse_ratio"].to_list() == [3.0, 3.0]
    assert table["risk_mean"].to_list() == [0.2, 0.4]
    assert table["risk_confidential"].to_list() == [0.7, 0.7]
    svg, _ = save_figure(comparison_figure(table), tmp_path / "figure")
    text = svg.read_text()
    assert "internal: computed from confidential data" in text
    assert "no epsilon" in text


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    first = write(tmp_path / "one", evidence(3.0, 2.0, 0.2))
    other = write(tmp_path / "two", {**evidence(3.0, 2.0, 0.2), "records_confidential": 7})
    with pytest.raises(Refused, match="at least two"):
        compare_releases([first])
    with pytest.raises(Refused, match="different numbers of confidential records"):
        compare_releases([first, other])
    with pytest.raises(Refused, match=r"no evidence.json"):
        compare_releases([first, tmp_path])
    (other / "evidence.json").write_text("{}")
    with pytest.raises(Refused, match="damaged"):
        compare_releases([first, other])
