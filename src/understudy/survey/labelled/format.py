"""SAS, Stata and SPSS files with their labels and missing codes.

The values stay as they are stored: a code 1 with the label "Yes" is the number 1. Numbers
that SAS and SPSS keep as floats are read as integers where every one of them is whole.
Tagged missing values (Stata's .a, SAS's .A) become the numbers of `missing_tags`, and an
empty text, which is how these files say missing, becomes null.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from understudy.declarations import OWN, own_class
from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, Value
from understudy.survey.file_format import Format, Opened
from understudy.survey.labelled.missing_tags import is_tag_code, tag_code

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from understudy.survey.labelled.xport import XportLayout

CODES_IN_RANGE = 1000  # most codes that a declared range of missing values may turn into


class Labelled(Format, abstract=True):
    """A format that pyreadstat reads; dates are numbers of ticks since the software's day 0."""

    carries = "labels"
    folders = False
    reader: ClassVar[str]  # of pyreadstat
    day_format: ClassVar[str]  # pattern of the formats of dates
    moment_format: ClassVar[str]  # of dates with a time; other clock formats stay numbers
    days_to_1970: ClassVar[int]  # from the software's day 0
    ticks_in_a_day: ClassVar[int]  # of a date
    ticks_in_a_second: ClassVar[int]  # of a date with a time
    tells_integers: ClassVar[bool]  # whether integers and floats are stored apart

    def open(
        self,
        path: Path,
        naming: Callable[[list[str]], list[str]],
        declared: Codebook | None,  # noqa: ARG002
    ) -> Opened:
        return Opened(*_table(self, path, naming))

    def value_labels(self, path: Path, meta: Any) -> Mapping[str, Mapping[Any, str]]:  # noqa: ARG002
        """{column: {value: label}}; `meta` is what pyreadstat says of the file."""
        labels: Mapping[str, Mapping[Any, str]] = meta.variable_value_labels
        return labels

    def layout(self, path: Path) -> XportLayout | None:  # noqa: ARG002
        """What pyreadstat does not tell about a file, if anything."""
        return None


def labelled_format(reference: str) -> Labelled:
    """The format that `Format.reference` names, in the process that converts."""
    module, _, name = reference.rpartition(":")
    if OWN in reference:
        return own_class(reference, Labelled, "file format")()
    chosen: Labelled = getattr(import_module(module), name)()
    return chosen


def _table(
    format: Labelled, path: Path, naming: Callable[[list[str]], list[str]]
) -> tuple[ir.Table, Codebook]:
    """The records, and a codebook of what the file itself declares about its columns."""
    from understudy.survey.engine import (
        connection,
        identifier,
        literal_path,
        new_scratch_file,
        parquet_table,
        quoted,
    )

    converted, final = new_scratch_file(".parquet"), new_scratch_file(".parquet")
    try:
        facts = _convert(format, path, converted)
        variables = facts["variables"]
        names = naming([variable["name"] for variable in variables])
        columns = ", ".join(
            f"{f'CAST(c{i} AS BIGINT)' if variable['kind'] == 'whole' else f'c{i}'} "
            f"AS {identifier(name)}"
            for i, (name, variable) in enumerate(zip(names, variables, strict=True))
        )
        connection().con.cursor().execute(
            f"COPY (SELECT {columns} FROM read_parquet({quoted(literal_path(converted))})) "
            f"TO {quoted(str(final))} (FORMAT parquet)"
        )
    finally:
        converted.unlink(missing_ok=True)
    table = parquet_table(final)
    declared = {
        name: column
        for name, variable in zip(names, variables, strict=True)
        if (column := _declared(table, name, variable)) is not None
    }
    return table, Codebook(declared, title=facts["title"])


def _convert(format: Labelled, path: Path, target: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_answered(format, path, target))
    if "refused" in answer:
        raise Refused(answer["refused"])
    return answer


def _answered(format: Labelled, path: Path, target: Path) -> str:
    """What the converter says, in a process of its own."""
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "understudy.survey.labelled.convert",
            format.reference,
            str(path),
            str(target),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if process.returncode < 0:  # a signal: the parser crashed, or the memory was too small
        raise Refused(
            f"`{path.name}` cannot be read as a {format.name} file: it is "
            "damaged, or too large to convert in the memory of this machine."
        )
    if process.returncode > 0:
        raise Refused(
            "The converter of SAS, Stata and SPSS files does not start; check that pyreadstat "
            "and pyarrow are installed."
        )
    return process.stdout.decode()


def _declared(table: ir.Table, name: str, variable: Mapping[str, Any]) -> Column | None:
    """The label, value labels and missing codes of one column, if it has any."""
    if variable["kind"] in ("date", "datetime"):
        return Column(name, label=variable["label"]) if variable["label"] else None
    is_text = variable["kind"] == "text"
    labels: dict[Value, str] = {
        tag_code(code) if isinstance(code, str) and not is_text else _plain(code): str(label)
        for code, label in variable["value_labels"]
    }
    tags = {tag_code(tag) for tag in variable["tags"]}
    if not is_text:
        tags |= {int(code) for code in labels if is_tag_code(code)}
    codes: list[Value] = []
    for low, high in variable["missing_ranges"]:
        codes += [_plain(low)] if low == high else _codes_between(table, name, low, high, labels)
    missing = tuple(dict.fromkeys([*codes, *sorted(tags)]))
    if not (variable["label"] or labels or missing):
        return None
    return Column(name, label=variable["label"], value_labels=labels, missing=missing)


def _plain(value: Any) -> Value:
    """A whole float as an integer, so that it is spelled as the codes are."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value  # type: ignore[no-any-return]


def _codes_between(
    table: ir.Table, name: str, low: float, high: float, labels: Mapping[Value, str]
) -> list[Value]:
    """The codes of a range of missing values (SPSS: LOWEST THRU -1, or 90 THRU 99).

    A short range of whole numbers gives all of them; of any range the codes with a label
    and the values that occur in the file are listed too.
    """
    codes: list[Value] = []
    if math.isfinite(low) and math.isfinite(high) and high - low <= 100:
        codes += range(math.ceil(low), math.floor(high) + 1)
    codes += [code for code in labels if not isinstance(code, str) and low <= code <= high]
    values = table[name].cast("float64")
    inside = table.filter((values >= low) & (values <= high)).select(name).distinct()
    occurring = inside.order_by(name).limit(CODES_IN_RANGE + 1).to_polars()
    if len(occurring) > CODES_IN_RANGE:
        raise Refused(
            f"Column `{name}` declares a range of missing values that holds more than "
            f"{CODES_IN_RANGE} different ones; recode them to a few codes."
        )
    return codes + [_plain(value) for value in occurring[name]]
