"""Data sets whose public rows stay on disk or on Spark: FBS and FBP, made block by block.

On disk a file is written block by block, here. On Spark the workers make the records of their
partitions, and keep them; what comes here is the sum of the weights in each stratum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.mechanisms.outputs.output import DrawValues, Ground, without_drafts
from understudy.models.contract import OutcomeModel
from understudy.models.public_totals import PublicTotals
from understudy.models.record_maker import RecordMaker, record_maker
from understudy.models.survey_normal import SurveyNormal
from understudy.survey.collected import collected
from understudy.survey.partition_work import in_blocks, kept_as_long, viewed
from understudy.survey.rows_here import blocks_of
from understudy.survey.stored import survey_of
from understudy.survey.survey import Survey
from understudy.survey.waiting_frames import WaitingFrames

BLOCK = 2**19  # records that are made at once
SUM = "understudy_sum"


def files_in_place(
    model: OutcomeModel, survey: Survey, ground: Ground, draws: Sequence[DrawValues], chance: Chance
) -> list[Survey]:
    """A data set from each draw; `survey` has the public rows of the ground, and stand-ins."""
    if not isinstance(model, SurveyNormal):
        raise Refused("Public rows that stay where they are go with FBS and FBP; nothing was made.")
    public = survey.raw.select([name for name in ground.columns if name not in model.sensitive])
    codebook = without_drafts(ground.codebook, model.sensitive)
    files = []
    for number, draw in enumerate(draws):
        own = chance.of(f"generate {number}")
        maker = record_maker(model, survey, ground.types, draw, own)
        if survey.on_cluster:
            records, made = _made_there(maker, public, ground)
            file = Survey(records, ground.design, codebook)
            kept_as_long(file, made)
        else:
            frames, several = _made_here(maker, public, ground, number, len(draws))
            file = survey_of(frames, several, ground.design, codebook)
        files.append(file)
    return files


def _made_here(
    maker: RecordMaker, public: ir.Table, ground: Ground, before: int, files: int
) -> tuple[Iterator[pl.DataFrame], bool]:
    """The frames of one file, and whether there are several; weights depend on all records, so
    that the first blocks wait for the last."""
    totals, weight = maker.model.file_totals, maker.model.sensitive[-1]
    waiting, sums, made = (
        WaitingFrames(),
        dict.fromkeys(_strata(totals), 0.0),
        before * ground.records,
    )
    for number, block in enumerate(blocks_of(public, BLOCK)):
        frame = maker(block, f"0 {number}").select(ground.columns)
        values, level = frame[weight].to_numpy(), _levels(frame, totals)
        for name in sums:
            sums[name] += float(values[level == name].sum())
        waiting.put(frame)
        made += frame.height
        ground.made(made, files * ground.records)
    factors = {name: size / sums[name] for name, size in _strata(totals).items()}
    return (_scaled(frame, weight, factors, totals) for frame in waiting.taken()), len(waiting) > 1


def _scaled(
    frame: pl.DataFrame, weight: str, factors: Mapping[str, float], totals: PublicTotals
) -> pl.DataFrame:
    level = pl.Series(_levels(frame, totals), dtype=pl.String)
    return frame.with_columns(
        frame[weight] * level.replace_strict(factors, return_dtype=pl.Float64)
    )


def _strata(totals: PublicTotals) -> dict[str, float]:
    """The public total of each stratum; all records are one where there are none."""
    return dict(totals.by_stratum) if totals.stratum is not None else {"": totals.size}


def _levels(frame: pl.DataFrame, totals: PublicTotals) -> Any:
    if totals.stratum is None:
        return np.full(frame.height, "", dtype=object)
    return frame[totals.stratum].cast(pl.String).to_numpy()


def _made_there(maker: RecordMaker, public: ir.Table, ground: Ground) -> tuple[ir.Table, Any]:
    """The records of one file as a table on Spark, and Spark's frame, which its workers keep."""
    totals, weight = maker.model.file_totals, maker.model.sensitive[-1]
    types = {**public.schema().to_polars(), **ground.types, weight: pl.Float64()}
    schema = ibis.Schema.from_polars(pl.Schema({name: types[name] for name in ground.columns}))
    frame = in_blocks(public, maker, schema, BLOCK)
    table = viewed(frame, public)
    if totals.stratum is None:
        made = float(collected(table.aggregate(**{SUM: table[weight].sum()})).item())
        return table.mutate(**{weight: table[weight] * (totals.size / made)}), frame
    level = table[totals.stratum].cast("string")
    by = table.group_by(level.name("level")).aggregate(**{SUM: table[weight].sum()})
    sums = dict(collected(by).rows())
    factors = [(name, size / sums[name]) for name, size in totals.by_stratum]
    return table.mutate(**{weight: table[weight] * level.cases(*factors)}), frame
