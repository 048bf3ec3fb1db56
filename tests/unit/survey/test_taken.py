"""Some records of a survey by their positions, wherever they lie; and frames that wait on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.survey import survey as survey_module
from understudy.survey import waiting_frames
from understudy.survey.engine import scratch
from understudy.survey.waiting_frames import WaitingFrames

FRAME = pl.DataFrame({"a": np.arange(1_000), "b": [f"text {k}" for k in range(1_000)]})


@pytest.mark.parametrize("positions", [[0, 1, 99, 100, 101, 999], [500], [*range(1_000)]])
def test_records_are_those_at_their_positions(
    positions: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "ROWS_AT_A_TIME", 100)  # positions lie in several batches
    FRAME.write_parquet(tmp_path / "file.parquet")
    codebook = us.Codebook({"a": us.Column("a", type="integer", missing=(500,))})
    on_disk = us.read_survey(tmp_path / "file.parquet", codebook=codebook)
    in_memory = us.Survey(FRAME, codebook=codebook)
    for survey in (on_disk, in_memory):
        taken = survey.taken(np.array(positions))
        assert taken.raw.to_polars().equals(FRAME[positions])
        assert taken.codebook == codebook


def test_frames_wait_in_their_order_and_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_frames, "IN_MEMORY", FRAME[:700].estimated_size())
    waiting = WaitingFrames()
    for part in (FRAME[:400], FRAME[400:700], FRAME[700:]):
        waiting.put(part)
    assert len(waiting) == 3
    assert len([*scratch().glob("*.arrow")]) == 1  # what is beyond the limit is written
    assert pl.concat(waiting.taken()).equals(FRAME)
    assert not [*scratch().glob("*.arrow")]
    monkeypatch.setattr(waiting_frames, "IN_MEMORY", 0)
    waiting.put(FRAME)
    assert not [*scratch().glob("*.arrow")]  # one alone is not
