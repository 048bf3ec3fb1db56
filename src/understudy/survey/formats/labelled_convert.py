"""The conversion of a SAS, Stata or SPSS file to Parquet, chunk by chunk.

It runs as a process of its own (`python -m` with FILE and TARGET),
because the C library that parses these files can crash on a damaged one, and a crash must
not take the caller with it. The columns are written as c0, c1, ...; what the file declares
about them goes to the standard output as JSON. `labelled_files` reads both.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyreadstat

from understudy.errors import Refused
from understudy.survey.formats.missing_tags import CODE_TAGS, tag_code
from understudy.survey.formats.xport import xport_layout

Kind = Literal["text", "whole", "number", "date", "datetime"]

CELLS = 5_000_000  # in one chunk: some 200 MB as Python values
EXACT = 2.0**53  # whole numbers up to here are exact in a float

READERS: dict[str, tuple[str, Callable[..., Any]]] = {
    ".dta": ("Stata", pyreadstat.read_dta),
    ".sav": ("SPSS", pyreadstat.read_sav),
    ".zsav": ("SPSS", pyreadstat.read_sav),
    ".sas7bdat": ("SAS", pyreadstat.read_sas7bdat),
    ".xpt": ("SAS", pyreadstat.read_xport),
}
_ARROW = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
}
# Formats of dates, and of dates with a time. Other clock formats stay numbers.
_DATE_FORMATS = {
    "Stata": (r"%-?(td|d)", r"%-?t[cC]"),
    "SPSS": (r"([AEJS]?DATE|MOYR|QYR|WKYR)\d", r"(DATETIME|YMDHMS)"),
    "SAS": (
        r"(DATE|DDMMYY|MMDDYY|YYMMDD|YYMM|YYQ|MONYY|JULIAN|WEEKDAT|WORDDAT|[EB]8601DA)",
        r"(DATETIME|[EB]8601DT|DATEAMPM)",
    ),
}
_DAYS_TO_1970 = {"Stata": 3653, "SPSS": 141428, "SAS": 3653}  # from the software's day 0
_TICKS_IN_A_DAY = {"Stata": 1, "SPSS": 86400, "SAS": 1}  # of a date
_TICKS_IN_A_SECOND = {"Stata": 1000, "SPSS": 1, "SAS": 1}  # of a date with a time


@dataclass
class _Variable:
    """One variable of the file and what its chunks have shown so far."""

    name: str
    kind: Kind
    may_be_whole: bool
    nulls: list[Mapping[str, float]]  # missing ranges of a date, which cannot hold their codes
    tags: set[str] = field(default_factory=set)

    @property
    def is_date(self) -> bool:
        return self.kind in ("date", "datetime")


def convert(path: Path, target: Path) -> dict[str, Any]:
    """Write the records to Parquet; return what the file declares, ready for JSON."""
    software = READERS[path.suffix.lower()][0]
    meta = _read(path, metadataonly=True)[1]
    variables = [_variable(software, name, meta) for name in meta.column_names]
    if not variables:
        raise Refused(f"`{path.name}` has no columns.")
    layout = xport_layout(path) if path.suffix.lower() == ".xpt" else None
    schema = pa.schema([(f"c{i}", _ARROW[v.kind]) for i, v in enumerate(variables)])
    rows = 0
    with pq.ParquetWriter(target, schema) as writer:
        for data in _chunks(path, len(variables)):
            size = len(data[variables[0].name])
            tagged = {} if layout is None else layout.tags(rows, size)
            arrays = [
                _array(path, software, v, data[v.name], tagged.get(i))
                for i, v in enumerate(variables)
            ]
            writer.write_table(pa.table(arrays, schema=schema))
            rows += size
    if layout is not None:
        layout.check_whole(rows)
    elif meta.number_rows is not None and meta.number_rows != rows:
        raise damaged(path)
    return {
        "title": meta.file_label or "",
        "rows": rows,
        "variables": [
            {
                "name": v.name,
                "kind": "whole" if v.may_be_whole else v.kind,
                "label": meta.column_names_to_labels.get(v.name) or "",
                "value_labels": list(meta.variable_value_labels.get(v.name, {}).items()),
                "missing_ranges": [
                    [limits["lo"], limits["hi"]] for limits in meta.missing_ranges.get(v.name, [])
                ],
                "tags": sorted(v.tags),
            }
            for v in variables
        ],
    }


def damaged(path: Path) -> Refused:
    software = READERS[path.suffix.lower()][0]
    return Refused(
        f"`{path.name}` cannot be read as a {software} file: it is damaged, was not copied "
        "completely, or is of another kind."
    )


def _read(path: Path, **options: Any) -> tuple[dict[str, list[Any]], Any]:
    reader = READERS[path.suffix.lower()][1]
    if reader is not pyreadstat.read_xport:
        options["user_missing"] = True
    try:
        data, meta = reader(
            str(path), output_format="dict", disable_datetime_conversion=True, **options
        )
    except Exception as error:  # the library raises many kinds, and their texts may quote data
        if "convert string" in str(error):
            raise Refused(
                f"The texts of `{path.name}` are not in the encoding that it declares; "
                "save it again as Unicode in the software that wrote it."
            ) from None
        raise damaged(path) from None
    return data, meta


def _chunks(path: Path, width: int) -> Iterator[dict[str, list[Any]]]:
    limit = max(1, CELLS // width)
    offset = 0
    while True:
        data, _ = _read(path, row_limit=limit, row_offset=offset)
        size = len(next(iter(data.values()), ()))
        if size:
            yield data
        if size < limit:
            return
        offset += size


def _variable(software: str, name: str, meta: Any) -> _Variable:
    stored = meta.readstat_variable_types[name]
    format_ = meta.original_variable_types.get(name) or ""
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
    is_date = kind in ("date", "datetime")
    # Stata tells integers from floats; SAS and SPSS keep every number as a float.
    may_be_whole = kind == "number" and software != "Stata"
    return _Variable(
        name, kind, may_be_whole, list(meta.missing_ranges.get(name, [])) if is_date else []
    )


def _array(path: Path, software: str, variable: _Variable, values: list[Any], tagged: Any) -> Any:
    """One column of a chunk; `tagged` (rows,) holds the codes that pyreadstat left out."""
    try:
        if variable.kind == "text":
            texts = pa.array(values, type=pa.string(), from_pandas=True)
            return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        numbers = _numbers(variable, values, tagged)
        if variable.kind == "date":
            days = pc.floor(pc.divide(numbers, float(_TICKS_IN_A_DAY[software])))
            days = pc.subtract(days, float(_DAYS_TO_1970[software]))
            return pc.cast(pc.cast(days, pa.int32()), pa.date32())
        if variable.kind == "datetime":
            seconds = pc.divide(numbers, float(_TICKS_IN_A_SECOND[software]))
            seconds = pc.subtract(seconds, float(_DAYS_TO_1970[software] * 86400))
            micros = pc.round(pc.multiply(seconds, 1e6))
            return pc.cast(pc.cast(micros, pa.int64()), pa.timestamp("us"))
        if variable.may_be_whole:
            variable.may_be_whole = _all_whole(numbers)
        return pc.cast(numbers, _ARROW[variable.kind])
    except pa.ArrowInvalid:
        raise Refused(
            f"Column `{variable.name}` of `{path.name}` holds a value outside the range of its "
            "type; the file may be damaged."
        ) from None


def _numbers(variable: _Variable, values: list[Any], tagged: Any) -> Any:
    """The numbers of a chunk with the codes of its tags; in a date a tag is plain missing."""
    tags = {value for value in values if isinstance(value, str)}
    if tagged is not None:
        tags |= {CODE_TAGS[int(code)] for code in np.unique(tagged[tagged != 0])}
    if not tags:
        numbers = pa.array(values, type=pa.float64(), from_pandas=True)
    elif variable.is_date:
        plain = [None if isinstance(value, str) else value for value in values]
        numbers = pa.array(plain, type=pa.float64(), from_pandas=True)
    else:
        if any(not isinstance(value, str) and value in CODE_TAGS for value in values):
            raise Refused(
                f"Column `{variable.name}` has tagged missing values and also numbers between "
                "2147483621 and 2147483647, which stand for the tags here; rescale the column."
            )
        variable.tags |= {tag.lower() for tag in tags}
        coded = [tag_code(value) if isinstance(value, str) else value for value in values]
        numbers = pa.array(coded, type=pa.float64(), from_pandas=True)
        if tagged is not None:
            numbers = pc.if_else(pa.array(tagged != 0), pa.array(tagged.astype(float)), numbers)
    for limits in variable.nulls:
        inside = pc.and_(
            pc.greater_equal(numbers, float(limits["lo"])),
            pc.less_equal(numbers, float(limits["hi"])),
        )
        numbers = pc.if_else(inside, pa.scalar(None, pa.float64()), numbers)
    return numbers


def _all_whole(numbers: Any) -> bool:
    values = numbers.to_numpy(zero_copy_only=False)
    values = values[~np.isnan(values)]
    return bool(np.all((values == np.floor(values)) & (np.abs(values) < EXACT)))


def main() -> None:
    path, target = map(Path, sys.argv[1:])
    try:
        answer = convert(path, target)
    except Refused as refusal:
        answer = {"refused": str(refusal)}
    except Exception:  # a damaged file can break any step; its values must not be repeated
        answer = {"refused": str(damaged(path))}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
