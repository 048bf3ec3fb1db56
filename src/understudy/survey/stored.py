"""A survey of frames that come one after another: in memory, or one file in the scratch folder."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.engine import new_scratch_file, parquet_table
from understudy.survey.formats.parquet import write_frames
from understudy.survey.survey import Survey


def survey_of(
    frames: Iterator[pl.DataFrame], several: bool, design: Design, codebook: Codebook
) -> Survey:
    """One frame stays in memory; of several, all records lie on disk in their final form."""
    if not several:
        return Survey(next(frames), design, codebook)
    path = new_scratch_file(".parquet")
    write_frames(frames, codebook, path)
    survey = Survey(parquet_table(path), design, codebook)
    survey.stored = path
    return survey
