"""Facts of a codebook from elsewhere: a spreadsheet, an archive's document, a file with labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from understudy.errors import Refused
from understudy.survey.codebook import Codebook
from understudy.survey.codebook_sheet import ENDINGS, read_sheet
from understudy.survey.ddi import read_ddi
from understudy.survey.draft import draft_codebook
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey


def described(survey: Survey, kept: Codebook, source: Path) -> Codebook:
    """The survey's codebook with what `source` says of its columns, but for those that are `kept`.

    A spreadsheet has all facts of its columns. Labels, value labels and missing codes of other
    sources are declared, and what they leave open is drafted from the records.
    """
    if not source.is_file():
        raise Refused(f"There is no file `{source}`; check the path.")
    if source.suffix.lower() in ENDINGS:
        columns = dict(read_sheet(source).columns)
    else:
        labelled = read_ddi(source) if source.suffix.lower() == ".xml" else _labels(source)
        names = {name.lower(): name for name in survey.columns}
        known = {
            names[name.lower()]: replace(column, name=names[name.lower()])
            for name, column in labelled.columns.items()
            if name.lower() in names and names[name.lower()] not in kept
        }
        columns = {}
        if known:
            chosen = survey.raw.select(list(known))
            columns = dict(draft_codebook(chosen, survey.design, Codebook(known)).columns)
    shared = {name: column for name, column in columns.items() if name in survey.columns}
    if not shared:
        raise Refused(f"`{source.name}` describes no column of the file; check that they match.")
    return replace(survey.codebook, columns={**survey.codebook.columns, **shared})


def _labels(source: Path) -> Codebook:
    """Labels, value labels and missing codes of a file that carries them, and nothing else."""
    from understudy.survey.codebook import Column

    columns = {
        column.name: Column(
            column.name,
            label=column.label,
            value_labels=column.value_labels,
            missing=() if "missing" in column.drafted else column.missing,
        )
        for column in read_survey(source).codebook
        if column.label or column.value_labels
    }
    return Codebook(columns)
