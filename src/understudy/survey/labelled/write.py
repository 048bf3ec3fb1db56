"""Stata and SPSS files out, with labels, value labels and missing codes.

What one of them cannot hold (a long name or label, a missing code of a text in Stata, four
scattered missing codes in SPSS) is refused by name: nothing is cut silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import polars as pl

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, Value
from understudy.survey.labelled.header_time import without_time
from understudy.survey.labelled.missing_tags import CODE_TAGS
from understudy.survey.survey import Survey

EXACT = 2**53  # whole numbers up to here are exact in a float
STATA_LONG = 2147483620  # the largest whole number that Stata stores as one


@dataclass(frozen=True)
class _Limits:
    """What a kind of file can hold; lengths of texts in characters (Stata) or bytes (SPSS)."""

    software: str
    name: str  # pattern
    name_length: int
    reserved: str  # pattern
    label: int
    value_label: int
    title: int
    text: int  # bytes
    in_bytes: bool

    @property
    def unit(self) -> str:
        return "bytes" if self.in_bytes else "characters"

    def length(self, text: str) -> int:
        return len(text.encode()) if self.in_bytes else len(text)


STATA = _Limits(
    "Stata",
    r"[^\W\d]\w*",
    32,
    r"_all|_b|byte|_coef|_cons|double|float|if|in|int|long|_n|_N|_pi|_pred|_rc|_skip|str\d+|strL"
    r"|using|with",
    80,
    32000,
    80,
    2045,
    False,
)
SPSS = _Limits(
    "SPSS",
    r"[^\W\d_]([\w.$#@]*[\w$#@])?",
    64,
    r"(?i)all|and|by|eq|ge|gt|le|lt|ne|not|or|to|with",
    256,
    120,
    64,
    32767,
    True,
)


@dataclass
class _Prepared:
    """Columns as pyreadstat takes them, and what goes with them."""

    values: dict[str, Any] = field(default_factory=dict)
    value_labels: dict[str, dict[Any, str]] = field(default_factory=dict)
    missing: dict[str, list[Any]] = field(default_factory=dict)


def write_stata(survey: Survey, codebook: Codebook, part: Path) -> None:
    import pyreadstat

    prepared = _prepare(survey, codebook, STATA)
    _write(
        STATA,
        pyreadstat.write_dta,
        prepared,
        codebook,
        part,
        missing_user_values=prepared.missing or None,
    )


def write_sav(survey: Survey, codebook: Codebook, part: Path) -> None:
    import pyreadstat

    prepared = _prepare(survey, codebook, SPSS)
    _write(
        SPSS,
        pyreadstat.write_sav,
        prepared,
        codebook,
        part,
        missing_ranges=prepared.missing or None,
    )


def _write(
    limits: _Limits, writer: Any, prepared: _Prepared, codebook: Codebook, part: Path, **more: Any
) -> None:
    import pandas as pd

    labels = {c.name: c.label for c in codebook if c.label}
    try:
        writer(
            pd.DataFrame(prepared.values),
            str(part),
            file_label=codebook.title,
            column_labels=labels or None,
            variable_value_labels=prepared.value_labels or None,
            **more,
        )
        without_time(part)
    except OSError:
        raise
    except Exception:  # the library's texts may quote values
        raise Refused(
            f"This survey cannot be written as a {limits.software} file; write Parquet instead."
        ) from None


def _prepare(survey: Survey, codebook: Codebook, limits: _Limits) -> _Prepared:
    _check_texts(codebook, limits)
    frame = survey.raw.to_polars()
    prepared = _Prepared()
    for name in frame.columns:
        _check_name(name, limits)
        series = frame[name]
        facts = codebook.columns.get(name, Column(name))
        _check_kind(series, facts)
        if series.dtype == pl.Boolean:
            series, facts = series.cast(pl.Int8), _as_numbers(facts)
        if series.dtype.is_numeric():
            prepared.values[name] = _numbers(series, facts, limits, prepared)
        elif series.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
            prepared.values[name] = _texts(series.cast(pl.String), facts, limits, prepared)
        elif series.dtype == pl.Date or isinstance(series.dtype, pl.Datetime):
            prepared.values[name] = _dates(series, facts, limits)
        else:
            raise Refused(
                f"Column `{name}` is of a type that {limits.software} does not have; leave it out "
                "or write Parquet."
            )
    return prepared


def _check_kind(series: pl.Series, facts: Column) -> None:
    codes = (*facts.value_labels, *facts.missing)
    numeric = series.dtype.is_numeric() or series.dtype == pl.Boolean
    if numeric and any(isinstance(code, str) for code in codes):
        raise Refused(
            f"The codebook gives text codes for the numeric column `{series.name}`; correct it."
        )


def _as_numbers(facts: Column) -> Column:
    """The facts of a true/false column that is written as 1/0."""
    labels: dict[Value, str] = {int(v): text for v, text in facts.value_labels.items()}
    return Column(
        facts.name,
        label=facts.label,
        value_labels=labels or {0: "false", 1: "true"},
        missing=tuple(int(code) for code in facts.missing),
    )


def _numbers(series: pl.Series, facts: Column, limits: _Limits, prepared: _Prepared) -> Any:
    import pandas as pd

    name = series.name
    if series.dtype.is_float():
        series = series.fill_nan(None)
        if series.is_infinite().any():
            raise Refused(f"Column `{name}` holds infinite values, which cannot be written.")
    elif series.dtype.is_decimal():
        series = series.cast(pl.Float64)
    elif any(isinstance(end, int) and abs(end) > EXACT for end in (series.min(), series.max())):
        raise Refused(
            f"Column `{name}` holds whole numbers of more than 15 digits, which "
            f"{limits.software} would round; make it text first."
        )
    labels: dict[Any, str] = dict(facts.value_labels)
    if limits is SPSS:
        if facts.missing:
            prepared.missing[name] = _spss_ranges(series, facts)
        if labels:
            prepared.value_labels[name] = {float(v): text for v, text in labels.items()}
        return pd.Series(series.cast(pl.Float64).to_numpy(), dtype="float64")
    letters = _stata_letters(facts)
    if any(value != math.floor(value) for value in labels if value not in letters):
        raise Refused(
            f"Column `{name}` has value labels of numbers that are not whole, which Stata cannot "
            "hold; write SPSS or Parquet."
        )
    if letters:
        prepared.missing[name] = sorted(letters.values())
    for code in letters:
        if code not in labels and code not in CODE_TAGS:
            labels[code] = f"{code:g}"  # so that the code itself is not lost
    if labels:
        prepared.value_labels[name] = {
            letters.get(code, int(code)): text for code, text in labels.items()
        }
    values: list[Any] = series.to_list()
    if letters:
        values = [letters.get(value, value) for value in values]
    numbers = [value for value in values if isinstance(value, (int, float))]
    if series.dtype.is_integer() and any(abs(value) > STATA_LONG for value in numbers):
        values = [float(value) if isinstance(value, int) else value for value in values]
    if not numbers and not any(isinstance(value, str) for value in values):
        return pd.Series([math.nan] * len(values), dtype="float64")
    return pd.Series(values, dtype=object)


def _stata_letters(facts: Column) -> dict[Value, str]:
    """A letter for each missing code: tags keep theirs, other codes take the next free ones."""
    letters = {
        code: CODE_TAGS[code]
        for code in facts.missing
        if isinstance(code, (int, float)) and CODE_TAGS.get(code, "_") != "_"
    }
    free = [letter for letter in ascii_lowercase if letter not in letters.values()]
    others = [code for code in facts.missing if code not in letters]
    if len(others) > len(free):
        raise Refused(
            f"Column `{facts.name}` has more than 26 missing codes, which Stata cannot hold; "
            "write SPSS or Parquet."
        )
    return {**letters, **dict(zip(others, free, strict=False))}  # type: ignore[dict-item]


def _spss_ranges(series: pl.Series, facts: Column) -> list[Any]:
    """Up to three codes one by one; more as a range, with one code beside it."""
    codes = sorted(float(code) for code in facts.missing)
    if len(codes) <= 3:
        return list(codes)
    numbers = series.cast(pl.Float64)
    valid = set(numbers.filter(~numbers.is_in(codes)).drop_nulls().unique().to_list())
    valid |= {float(v) for v in (*facts.value_labels, *(facts.levels or ())) if v not in codes}
    ways: Sequence[tuple[list[float], list[float]]] = (
        (codes, []),
        (codes[1:], codes[:1]),
        (codes[:-1], codes[-1:]),
    )
    for inside, beside in ways:
        low, high = inside[0], inside[-1]
        if not any(low <= value <= high for value in valid):
            return [{"lo": low, "hi": high}, *beside]
    raise Refused(
        f"Column `{facts.name}` has more than three missing codes with values between them, which "
        "SPSS cannot hold; write Parquet, or recode them."
    )


def _texts(series: pl.Series, facts: Column, limits: _Limits, prepared: _Prepared) -> Any:
    import pandas as pd

    name = series.name
    longest = series.str.len_bytes().max()
    if isinstance(longest, int) and longest > limits.text:
        raise Refused(
            f"Column `{name}` holds text longer than {limits.text} bytes, which "
            f"{limits.software} cannot hold; write Parquet."
        )
    if limits is STATA and (facts.missing or facts.value_labels):
        raise Refused(
            f"Stata has no missing codes or value labels for text, but column `{name}` has some; "
            "write SPSS or Parquet."
        )
    codes = [str(code) for code in facts.missing]
    if len(codes) > 3 or any(len(code.encode()) > 8 for code in codes):
        raise Refused(
            f"SPSS holds at most three missing codes of up to 8 bytes for text, and column "
            f"`{name}` has others; write Parquet."
        )
    if codes:
        prepared.missing[name] = list(codes)
    if facts.value_labels:
        prepared.value_labels[name] = {str(v): text for v, text in facts.value_labels.items()}
    return pd.Series(series.fill_null("").to_list(), dtype=object)


def _dates(series: pl.Series, facts: Column, limits: _Limits) -> Any:
    import pandas as pd

    if facts.missing:
        raise Refused(
            f"The missing codes of the date column `{series.name}` cannot be kept in a "
            f"{limits.software} file; write Parquet."
        )
    if isinstance(series.dtype, pl.Datetime):
        if series.dtype.time_zone is not None:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        series = series.cast(pl.Datetime("us"))
    if series.null_count() == len(series):
        return pd.Series([math.nan] * len(series), dtype="float64")
    return pd.Series(series.to_list(), dtype=object)


def _check_name(name: str, limits: _Limits) -> None:
    if limits.length(name) > limits.name_length:
        raise Refused(
            f"The column name `{name}` is longer than the {limits.name_length} {limits.unit} of a "
            f"{limits.software} name; rename it."
        )
    if not re.fullmatch(limits.name, name) or re.fullmatch(limits.reserved, name):
        raise Refused(
            f"`{name}` cannot be a column name in {limits.software} (letters, digits and _, not "
            "starting with a digit, and not a reserved word); rename it."
        )


def _check_texts(codebook: Codebook, limits: _Limits) -> None:
    if limits.length(codebook.title) > limits.title:
        raise Refused(
            f"The codebook's title is longer than the {limits.title} {limits.unit} that "
            f"{limits.software} holds; shorten it."
        )
    for column in codebook:
        if limits.length(column.label) > limits.label:
            raise Refused(
                f"The label of column `{column.name}` is longer than the {limits.label} "
                f"{limits.unit} that {limits.software} holds; shorten it."
            )
        if any(limits.length(text) > limits.value_label for text in column.value_labels.values()):
            raise Refused(
                f"A value label of column `{column.name}` is longer than the "
                f"{limits.value_label} {limits.unit} that {limits.software} holds; shorten it."
            )
