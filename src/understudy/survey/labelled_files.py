"""SAS, Stata and SPSS files, converted in chunks, with their labels and missing codes.

The values stay as they are stored: a code 1 with the label "Yes" is the number 1. Numbers
that SAS and SPSS keep as floats are read as integers where every one of them is whole.
Tagged missing values (Stata's .a, SAS's .A) become the numbers of `missing_tags`, and an
empty text, which is how these files say missing, becomes null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyreadstat

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, Value
from understudy.survey.engine import (
    connection,
    identifier,
    literal_path,
    new_scratch_file,
    parquet_table,
    quoted,
)
from understudy.survey.missing_tags import CODE_TAGS, tag_code
from understudy.survey.xport import XportLayout, xport_layout

Kind = Literal["text", "whole", "number", "date", "datetime"]

CELLS = 5_000_000  # in one chunk: some 200 MB as Python values
CODES_IN_RANGE = 1000  # most codes that a declared range of missing values may turn into
EXACT = 2.0**53  # whole numbers up to here are exact in a float

READERS: dict[str, tuple[str, Callable[..., Any]]] = {
    ".dta": ("Stata", pyreadstat.read_dta),
    ".sav": ("SPSS", pyreadstat.read_sav),
    ".zsav": ("SPSS", pyreadstat.read_sav),
    ".sas7bdat": ("SAS", pyreadstat.read_sas7bdat),
    ".xpt": ("SAS transport", pyreadstat.read_xport),
}
_ARROW = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
}
_DATE_FORMATS = {
    "Stata": (r"%-?(td|d)", r"%-?t[cC]"),
    "SPSS": (r"([AEJS]?DATE|MOYR|QYR|WKYR)\d", r"(DATETIME|YMDHMS)"),
    "SAS": (
        r"(DATE|DDMMYY|MMDDYY|YYMMDD|YYMM|YYQ|MONYY|JULIAN|WEEKDAT|WORDDAT|[EB]8601DA)(?!TIME)",
        r"(DATETIME|[EB]8601DT|DATEAMPM)",
    ),
}
# Days from the file's day 0 to 1970-01-01, and its clock ticks in a second (dates, times).
_DAY_ZERO = {"Stata": 3653, "SPSS": 141428, "SAS": 3653}
_TICKS = {"Stata": 1000, "SPSS": 1, "SAS": 1}


@dataclass
class _Variable:
    """One variable of the file and what its chunks have shown so far."""

    source: str
    name: str
    kind: Kind
    may_be_whole: bool
    tags: set[str] = field(default_factory=set)


def labelled_names(path: Path) -> list[str]:
    """The names of the variables, in the file's order."""
    return list(_read(path, metadataonly=True)[1].column_names)


def labelled_table(path: Path, names: list[str]) -> tuple[ir.Table, Codebook]:
    """The records under these names, and a codebook of what the file itself declares."""
    software = READERS[path.suffix.lower()][0].split()[0]
    meta = _read(path, metadataonly=True)[1]
    variables = [
        _variable(software, source, name, meta)
        for source, name in zip(meta.column_names, names, strict=True)
    ]
    layout = xport_layout(path) if path.suffix.lower() == ".xpt" else None
    converted = new_scratch_file(".parquet")
    schema = pa.schema([(v.name, _ARROW[v.kind]) for v in variables])
    rows = 0
    with pq.ParquetWriter(converted, schema) as writer:
        for data, chunk_meta in _chunks(path, len(variables)):
            size = len(next(iter(data.values())))
            tagged = layout.tags(rows, size) if layout is not None else {}
            arrays = []
            for place, v in enumerate(variables):
                nulls = _nulls(v, chunk_meta)
                try:
                    arrays.append(_array(software, v, data[v.source], tagged.get(place), nulls))
                except pa.ArrowInvalid:
                    raise Refused(
                        f"Column `{v.source}` of `{path.name}` holds a value that is outside the "
                        "range of its type; the file may be damaged."
                    ) from None
            writer.write_table(pa.table(arrays, schema=schema))
            rows += size
    if layout is not None:
        layout.check_whole(rows)
    elif meta.number_rows is not None and meta.number_rows != rows:
        raise _damaged(path)
    table = _with_whole_numbers(converted, variables)
    return table, _declared(path, table, variables, meta)


def _read(path: Path, **options: Any) -> tuple[dict[str, list[Any]], Any]:
    reader = READERS[path.suffix.lower()][1]
    if reader is not pyreadstat.read_xport:
        options["user_missing"] = True
    try:
        data, meta = reader(
            str(path), output_format="dict", disable_datetime_conversion=True, **options
        )
    except MemoryError:
        raise _damaged(path) from None
    except Exception as error:  # the library raises many kinds, and their texts may quote data
        if "convert string" in str(error):
            raise Refused(
                f"The texts of `{path.name}` are not in the encoding that it declares; "
                "save it again as Unicode in the software that wrote it."
            ) from None
        raise _damaged(path) from None
    return data, meta


def _damaged(path: Path) -> Refused:
    software = READERS[path.suffix.lower()][0]
    return Refused(
        f"`{path.name}` cannot be read as a {software} file: it is damaged, was not copied "
        "completely, or is of another kind."
    )


def _chunks(path: Path, width: int) -> Iterator[tuple[dict[str, list[Any]], Any]]:
    limit = max(1, CELLS // max(1, width))
    offset = 0
    while True:
        data, meta = _read(path, row_limit=limit, row_offset=offset)
        size = len(next(iter(data.values()), ()))
        if size:
            yield data, meta
        if size < limit:
            return
        offset += size


def _variable(software: str, source: str, name: str, meta: Any) -> _Variable:
    stored = meta.readstat_variable_types[source]
    format_ = meta.original_variable_types.get(source) or ""
    day, moment = _DATE_FORMATS[software]
    kind: Kind
    if stored == "string":
        kind = "text"
    elif re.match(moment, format_, re.IGNORECASE):
        kind = "datetime"
    elif re.match(day, format_, re.IGNORECASE):
        kind = "date"
    else:
        kind = "whole" if stored.startswith("int") else "number"
    # Stata tells integers from floats; SAS and SPSS keep every number as a float.
    return _Variable(source, name, kind, kind == "number" and software != "Stata")


def _nulls(variable: _Variable, meta: Any) -> list[Mapping[str, Any]]:
    """The declared missing ranges of a date: a date column cannot hold their codes."""
    ranges = meta.missing_ranges.get(variable.source, [])
    return list(ranges) if variable.kind in ("date", "datetime") else []


def _array(
    software: str,
    variable: _Variable,
    values: list[Any],
    tagged: np.ndarray[Any, np.dtype[np.int64]] | None,
    nulls: list[Mapping[str, Any]],
) -> pa.Array:
    if variable.kind == "text":
        texts = pa.array(values, type=pa.string(), from_pandas=True)
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    is_date = variable.kind in ("date", "datetime")
    tags = {value for value in values if isinstance(value, str)} if _mixed(values) else set()
    if tagged is not None:
        codes = np.unique(tagged[tagged != 0])
        tags |= {CODE_TAGS[int(code)] for code in codes}
    if tags and not is_date:
        _check_free(variable, values)
        variable.tags |= tags
    filled = [_code(value, is_date) for value in values] if tags else values
    numbers = pa.array(filled, type=pa.float64(), from_pandas=True)
    if tagged is not None and not is_date:
        numbers = pc.if_else(pa.array(tagged != 0), pa.array(tagged.astype(float)), numbers)
    for limits in nulls:
        inside = pc.and_(
            pc.greater_equal(numbers, float(limits["lo"])),
            pc.less_equal(numbers, float(limits["hi"])),
        )
        numbers = pc.if_else(inside, pa.scalar(None, pa.float64()), numbers)
    if variable.kind == "date":
        ticks = 86400 if software == "SPSS" else 1
        days = pc.floor(pc.divide(numbers, float(ticks)))
        shifted = pc.subtract(days, float(_DAY_ZERO[software]))
        return pc.cast(pc.cast(shifted, pa.int32()), pa.date32())
    if variable.kind == "datetime":
        seconds = pc.divide(numbers, float(_TICKS[software]))
        shifted = pc.subtract(seconds, float(_DAY_ZERO[software] * 86400))
        micros = pc.round(pc.multiply(shifted, 1e6))
        return pc.cast(pc.cast(micros, pa.int64()), pa.timestamp("us"))
    if variable.may_be_whole:
        variable.may_be_whole = _all_whole(numbers)
    return pc.cast(numbers, _ARROW[variable.kind])


def _mixed(values: list[Any]) -> bool:
    return any(isinstance(value, str) for value in values)


def _code(value: Any, is_date: bool) -> Any:
    if isinstance(value, str):
        return None if is_date else tag_code(value)
    return value


def _check_free(variable: _Variable, values: list[Any]) -> None:
    if any(not isinstance(value, str) and value in CODE_TAGS for value in values):
        raise Refused(
            f"Column `{variable.name}` has tagged missing values and also numbers between "
            "2147483621 and 2147483647, which stand for the tags here; rescale the column."
        )


def _all_whole(numbers: pa.Array) -> bool:
    values = numbers.to_numpy(zero_copy_only=False)
    values = values[~np.isnan(values)]
    return bool(np.all((values == np.floor(values)) & (np.abs(values) < EXACT)))


def _with_whole_numbers(path: Path, variables: list[_Variable]) -> ir.Table:
    """The same table with the float columns that hold only whole numbers as integers."""
    if not any(v.may_be_whole for v in variables):
        return parquet_table(path)
    columns = ", ".join(
        f"CAST({identifier(v.name)} AS BIGINT) AS {identifier(v.name)}"
        if v.may_be_whole
        else identifier(v.name)
        for v in variables
    )
    final = new_scratch_file(".parquet")
    connection().con.cursor().execute(
        f"COPY (SELECT {columns} FROM read_parquet({quoted(literal_path(path))})) "
        f"TO {quoted(str(final))} (FORMAT parquet)"
    )
    path.unlink()
    return parquet_table(final)


def _declared(path: Path, table: ir.Table, variables: list[_Variable], meta: Any) -> Codebook:
    columns = {}
    for v in variables:
        labels = {
            _plain(tag_code(code) if _is_tag(v, code) else code): str(label)
            for code, label in meta.variable_value_labels.get(v.source, {}).items()
            if v.kind not in ("date", "datetime")
        }
        tags = {tag_code(tag) for tag in v.tags} | {code for code in labels if code in CODE_TAGS}
        codes = [*_range_codes(path, table, v, meta, labels), *sorted(map(int, tags))]
        label = meta.column_names_to_labels.get(v.source) or ""
        if label or labels or codes:
            columns[v.name] = Column(
                v.name, label=label, value_labels=labels, missing=tuple(dict.fromkeys(codes))
            )
    return Codebook(columns, title=meta.file_label or "")


def _is_tag(variable: _Variable, code: object) -> bool:
    return variable.kind != "text" and isinstance(code, str)


def _plain(value: Any) -> Value:
    """A whole float as an integer, so that it is spelled as the codes are."""
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return int(value)
    return value  # type: ignore[no-any-return]


def _range_codes(
    path: Path, table: ir.Table, variable: _Variable, meta: Any, labels: Mapping[Value, str]
) -> list[Value]:
    """SPSS declares missing codes one by one or as a range; a range becomes its codes.

    A short range of whole numbers gives all of them; of any range the codes with a label
    and the values that occur in the file are listed too.
    """
    codes: list[Value] = []
    if variable.kind in ("date", "datetime"):
        return codes
    for limits in meta.missing_ranges.get(variable.source, []):
        low, high = limits["lo"], limits["hi"]
        if low == high:
            codes.append(_plain(low))
            continue
        if math.isfinite(low) and math.isfinite(high) and high - low <= 100:
            codes += range(math.ceil(low), math.floor(high) + 1)
        codes += [c for c in labels if not isinstance(c, str) and low <= c <= high]
        values = table[variable.name]
        inside = table.filter(values.between(low, high)).select(variable.name).distinct()
        found = inside.order_by(variable.name).limit(CODES_IN_RANGE + 1).to_polars()
        if len(found) > CODES_IN_RANGE:
            raise Refused(
                f"Column `{variable.name}` of `{path.name}` declares a range of missing values "
                f"that holds more than {CODES_IN_RANGE} different ones; recode them to one code."
            )
        codes += [_plain(value) for value in found[variable.name]]
    return codes
