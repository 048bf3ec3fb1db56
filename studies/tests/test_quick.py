"""`--quick` of every study: all of its parts at a small size, and no error without replicates."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

# what only a whole study writes: its last table, an application, an extension beyond the paper
PARTS = {
    "acs_modips": ["study.csv", "pairs.json", "figure-3-2.svg"],
    "censoring": ["table-2.csv", "table-3.csv", "figure-09.svg", "figure-24.svg"],
    "private_tables": [
        "table2_counts.csv",
        "table5_means.csv",
        "corrections.csv",
        "noise.csv",
        "figure10.svg",
    ],
    "risk_weights": [
        "application-table-4.csv",
        "simulation-table-6.csv",
        "convergence.csv",
        "frontier.svg",
    ],
    "verification": ["auc-normal.csv", "influence.csv", "figure-5-influence.svg"],
}


@pytest.mark.slow
@pytest.mark.any_noise
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PARTS)
def test_all_parts_at_a_small_size(name: str, tmp_path: Path) -> None:
    run = import_module(f"understudy_studies.{name}.run")
    run.run_study(None, tmp_path, quick=True, progress=False)
    text = (tmp_path / "study.html").read_text(encoding="utf-8")
    for file in PARTS[name]:
        assert (tmp_path / file).stat().st_size > 100, file
    assert "file order" in text or name != "private_tables"
    assert "ReferenceCensored" in text or name not in ("private_tables", "censoring")
    assert "This run is small" in text
    assert text.count("±") <= 1  # the words that explain it
