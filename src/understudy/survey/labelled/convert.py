"""The conversion of a SAS, Stata or SPSS file to Parquet, chunk by chunk.

It runs as a process of its own (`python -m` with FORMAT, FILE and TARGET),
because the C library that parses these files can crash on a damaged one, and a crash must
not take the caller with it. The columns are written as c0, c1, ...; what the file declares
about them goes to the standard output as JSON. `format.py` reads both.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyreadstat

from understudy.declarations import OWN
from understudy.errors import Refused
from understudy.survey.labelled.format import Labelled, labelled_format
from understudy.survey.labelled.missing_tags import CODE_TAGS, tag_code

ValueKind = Literal["text", "whole", "number", "date", "datetime"]

CELLS = 5_000_000  # in one chunk: some 200 MB as Python values
EXACT = 2.0**53  # whole numbers up to here are exact in a float

_ARROW = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
}


@dataclass
class _Variable:
    """One variable of the file and what its chunks have shown so far."""

    name: str
    kind: ValueKind
    may_be_whole: bool
    nulls: list[Mapping[str, float]]  # missing ranges of a date, which cannot hold their codes
    tags: set[str] = field(default_factory=set)

    @property
    def is_date(self) -> bool:
        return self.kind in ("date", "datetime")


def convert(format: Labelled, path: Path, target: Path) -> dict[str, Any]:
    """Write the records to Parquet; return what the file declares, ready for JSON."""
    meta = _read(format, path, metadataonly=True)[1]
    variables = [_variable(format, name, meta) for name in meta.column_names]
    if not variables:
        raise Refused(f"`{path.name}` has no columns.")
    layout = format.layout(path)
    labels = format.value_labels(path, meta)
    schema = pa.schema([(f"c{i}", _ARROW[v.kind]) for i, v in enumerate(variables)])
    rows = 0
    with pq.ParquetWriter(target, schema) as writer:
        for data in _chunks(format, path, len(variables)):
            size = len(data[variables[0].name])
            tagged = {} if layout is None else layout.tags(rows, size)
            arrays = [
                _array(path, format, v, data[v.name], tagged.get(i))
                for i, v in enumerate(variables)
            ]
            writer.write_table(pa.table(arrays, schema=schema))
            rows += size
    if layout is not None:
        layout.check_whole(rows)
    elif meta.number_rows is not None and meta.number_rows != rows:
        raise damaged(format, path)
    return {
        "title": meta.file_label or "",
        "rows": rows,
        "variables": [
            {
                "name": v.name,
                "kind": "whole" if v.may_be_whole else v.kind,
                "label": meta.column_names_to_labels.get(v.name) or "",
                "value_labels": list(labels.get(v.name, {}).items()),
                "missing_ranges": [
                    [limits["lo"], limits["hi"]] for limits in meta.missing_ranges.get(v.name, [])
                ],
                "tags": sorted(v.tags),
            }
            for v in variables
        ],
    }


def damaged(format: Labelled, path: Path) -> Refused:
    return Refused(
        f"`{path.name}` cannot be read as a {format.name} file: it is damaged, was not copied "
        "completely, or is of another kind."
    )


def _read(format: Labelled, path: Path, **options: Any) -> tuple[dict[str, list[Any]], Any]:
    reader = getattr(pyreadstat, format.reader)
    if reader is not pyreadstat.read_xport:
        options["user_missing"] = True
    try:
        data, meta = reader(
            str(path), output_format="dict", disable_datetime_conversion=True, **options
        )
    except Exception as error:  # the library raises many kinds, and their texts may quote data
        if "convert string" in str(error):
            raise Refused(
                f"The text in `{path.name}` is not in the encoding that it declares; "
                "save it again as Unicode in the software that wrote it."
            ) from None
        raise damaged(format, path) from None
    return data, meta


def _chunks(format: Labelled, path: Path, width: int) -> Iterator[dict[str, list[Any]]]:
    limit = max(1, CELLS // width)
    offset = 0
    while True:
        data, _ = _read(format, path, row_limit=limit, row_offset=offset)
        size = len(next(iter(data.values()), ()))
        if size:
            yield data
        if size < limit:
            return
        offset += size


def _variable(format: Labelled, name: str, meta: Any) -> _Variable:
    stored = meta.readstat_variable_types[name]
    spelled = meta.original_variable_types.get(name) or ""
    kind: ValueKind
    if stored == "string":
        kind = "text"
    elif re.match(format.moment_format, spelled, re.IGNORECASE):
        kind = "datetime"
    elif re.match(format.day_format, spelled, re.IGNORECASE):
        kind = "date"
    else:
        kind = "whole" if stored.startswith("int") else "number"
    is_date = kind in ("date", "datetime")
    # Stata tells integers from floats; SAS and SPSS keep every number as a float.
    may_be_whole = kind == "number" and not format.tells_integers
    return _Variable(
        name, kind, may_be_whole, list(meta.missing_ranges.get(name, [])) if is_date else []
    )


def _array(
    path: Path, format: Labelled, variable: _Variable, values: list[Any], tagged: Any
) -> Any:
    """One column of a chunk; `tagged` (rows,) holds the codes that pyreadstat left out."""
    try:
        if variable.kind == "text":
            texts = pa.array(values, type=pa.string(), from_pandas=True)
            return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        numbers = _numbers(variable, values, tagged)
        if variable.kind == "date":
            days = pc.floor(pc.divide(numbers, float(format.ticks_in_a_day)))
            days = pc.subtract(days, float(format.days_to_1970))
            return pc.cast(pc.cast(days, pa.int32()), pa.date32())
        if variable.kind == "datetime":
            seconds = pc.divide(numbers, float(format.ticks_in_a_second))
            seconds = pc.subtract(seconds, float(format.days_to_1970 * 86400))
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


class _WithoutPandas(MetaPathFinder):
    """Arrow looks for pandas at its first array; to load it would take longer than the rest."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def answered(reference: str, path: Path, target: Path) -> str:
    """What the converter says of a file: facts about its variables, or a refusal; as JSON."""
    format = labelled_format(reference)
    try:
        answer = convert(format, path, target)
    except Refused as refusal:
        answer = {"refused": str(refusal)}
    except Exception:  # a damaged file can break any step; its values must not be repeated
        answer = {"refused": str(damaged(format, path))}
    return json.dumps(answer)


if __name__ == "__main__":
    if OWN not in sys.argv[1]:  # nobody's own format, which may need pandas
        sys.meta_path.insert(0, _WithoutPandas())
    sys.stdout.write(answered(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
