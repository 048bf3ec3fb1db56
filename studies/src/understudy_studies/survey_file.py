"""A survey file for a study, by a mapping: which of its columns is which, and what codes mean.

    [salary]
    column = "SALARY"
    missing = [9999998]                       # codes that are not salaries
    [gender]
    column = "GENDER"
    levels = { 1 = "Female", 2 = "Male" }
    [keep]                                    # only records with one of these values
    AGEGROUP = [40]

The left names are the study's, the right ones the file's. Records without a value are left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

import understudy as us

Mapping = dict[str, Any]


def mapped_file(
    data: Path, columns: Path | None, wanted: Sequence[str]
) -> tuple[pl.DataFrame, Mapping]:
    """The wanted columns, texts where the mapping has levels and numbers elsewhere; the mapping."""
    if columns is None:
        raise us.Refused(
            "`--data` needs `--columns`, a file that says which of its columns is which; "
            "studies/README.md has one."
        )
    mapping = _mapping(columns, wanted)
    frame = us.read_survey(data).frame()
    for name, values in mapping.get("keep", {}).items():
        frame = frame.filter(_codes(frame, name).is_in([str(value) for value in values]))
    for name in wanted:
        codes = _codes(frame, mapping[name]["column"])
        absent = [str(code) for code in mapping[name].get("missing", ())]
        frame = frame.filter(codes.is_not_null() & ~codes.is_in(absent))
    if frame.is_empty():
        raise us.Refused("The mapping keeps no record of the file; check [keep] and `missing`.")
    return pl.DataFrame([_column(frame, name, mapping[name]) for name in wanted]), mapping


def _mapping(path: Path, wanted: Sequence[str]) -> Mapping:
    try:
        mapping = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise us.Refused(f"`{path}` cannot be read as TOML: {error}.") from None
    for name in wanted:
        if not isinstance(mapping.get(name), dict) or "column" not in mapping[name]:
            raise us.Refused(f"`{path}` must name a column for [{name}].")
    for name in mapping:
        if name not in (*wanted, "keep"):
            raise us.Refused(f"`{path}` has a part [{name}], which this study does not use.")
    return mapping


def _codes(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column as texts; whole numbers without a point."""
    if name not in frame.columns:
        raise us.Refused(f"The file has no column `{name}`; correct the mapping.")
    text = frame[name].cast(pl.String)
    return text.str.strip_suffix(".0") if frame[name].dtype.is_float() else text


def _column(frame: pl.DataFrame, name: str, section: Mapping) -> pl.Series:
    codes, levels = _codes(frame, section["column"]), section.get("levels")
    if levels is None:
        numbers = codes.cast(pl.Float64, strict=False)
        if numbers.null_count():
            raise us.Refused(
                f"Column `{section['column']}` holds values that are not numbers; name them in "
                f"`missing` of [{name}], or give [{name}] levels."
            )
        return numbers.alias(name)
    unknown = codes.filter(~codes.is_in(list(levels)))
    if len(unknown):
        raise us.Refused(
            f"Column `{section['column']}` has the value {unknown[0]}, which levels of [{name}] do "
            "not name; name it, or leave such records out by [keep] or `missing`."
        )
    return codes.replace_strict(levels).alias(name)
