"""CSV files: the dialect from the header line, the types from every record.

DuckDB parses the records, but we do not let it guess: its sniffer reads a column of F as
false and of Yes as true, drops records that start with #, and rounds ids of 20 digits. Here
a column is whole numbers, numbers, ISO dates or true/false only if every record says so,
and numbers that start with a zero (ids, postal codes) stay texts. An empty field and an
unquoted NA or NaN are missing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa

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
from understudy.survey.regular_text import RegularText

DELIMITERS = (",", ";", "\t", "|")
MISSING = ("", "NA", "NaN")
FIRST_RECORDS = 500  # a look at these spares most columns the tests of types they cannot have
BLOCK = 100  # columns in one query: the planner's time grows faster than their number

_DIGITS = "[+-]?(0|[1-9][0-9]*)"
_EXPONENT = "([eE][+-]?[0-9]+)?"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NO_ZEROS = "NOT regexp_matches({t}, '^\\s*[+-]?0[0-9]') AND NOT contains({t}, '_')"
_IS_DAY = "regexp_matches({t}, '^\\s*[0-9]{{4}}-')"


@dataclass(frozen=True)
class _Type:
    """A type that a column of texts may have, in the order in which it is preferred."""

    name: str
    pattern: str  # of the first records
    value: str  # how a text {t} becomes a value
    also: str  # what else must hold for it

    def may_be(self, text: str) -> bool:
        return re.fullmatch(self.pattern, text) is not None


_TYPES = (
    _Type("BOOLEAN", "(?i:true|false)", "TRY_CAST({t} AS BOOLEAN)", "length(trim({t})) > 3"),
    _Type(
        "BIGINT",
        _DIGITS,
        "TRY_CAST({t} AS BIGINT)",
        _NO_ZEROS + " AND NOT contains({t}, '.') AND NOT contains(lower({t}), 'e')",
    ),
    _Type(
        "DOUBLE",
        rf"[+-]?(0|[1-9][0-9]*|)(\.[0-9]*)?{_EXPONENT}",
        "TRY_CAST({t} AS DOUBLE)",
        _NO_ZEROS + " AND isfinite(TRY_CAST({t} AS DOUBLE))",
    ),
    _Type(
        "DECIMAL COMMA",
        f"[+-]?(0|[1-9][0-9]*|)(,[0-9]*)?{_EXPONENT}",
        "TRY_CAST(replace({t}, ',', '.') AS DOUBLE)",
        _NO_ZEROS + " AND NOT contains({t}, '.')",
    ),
    _Type("DATE", _DAY, "TRY_CAST({t} AS DATE)", _IS_DAY + " AND length(trim({t})) = 10"),
    _Type(
        "TIMESTAMP",
        _DAY + r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?",
        "TRY_CAST({t} AS TIMESTAMP)",
        _IS_DAY + " AND length(trim({t})) > 10 AND NOT regexp_matches({t}, '[Zz+]|-[0-9:]+$')",
    ),
)
_BY_NAME = {type_.name: type_ for type_ in _TYPES}
_ARROW = {"BIGINT": pa.int64(), "DOUBLE": pa.float64()}  # numbers that it reads as DuckDB does
_DECIMALS = ("DOUBLE", "DECIMAL COMMA")
_NUMBERS = ("BIGINT", *_DECIMALS)


def csv_header(path: Path) -> tuple[list[str], str]:
    """The column names and the delimiter, both from the first line."""
    with path.open("rb") as file:
        start = file.read(65536)
    if not start.removeprefix(b"\xef\xbb\xbf").strip():
        raise Refused(f"`{path.name}` is empty; check that it was written completely.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _not_utf8(path)
    if b"\0" in start:
        raise Refused(f"`{path.name}` is not a text file; a .csv must be plain UTF-8 text.")
    candidates = []
    for delimiter in DELIMITERS:
        try:
            with path.open(encoding="utf-8-sig", newline="") as text:
                names = next(csv.reader(text, delimiter=delimiter))
        except UnicodeDecodeError:
            raise _not_utf8(path) from None
        except csv.Error:
            continue
        candidates.append((len(names), -DELIMITERS.index(delimiter), names))
    if not candidates:
        raise Refused(f"The first line of `{path.name}` cannot be read as column names.")
    _, preference, names = max(candidates)
    names = [name.strip() for name in names]
    _check_names(path, names)
    return [name or f"column{i + 1}" for i, name in enumerate(names)], DELIMITERS[-preference]


def csv_table(
    path: Path, names: list[str], delimiter: str, declared: Iterable[Column] = ()
) -> ir.Table:
    """The records as an Ibis table: in memory if they are regular text of moderate size, else over
    a Parquet copy in the scratch folder.

    `declared` columns keep the kind of value that the codebook gives them; their missing
    codes that are texts in a column of numbers are read as missing.
    """
    known = {column.name: column for column in declared}
    nulls = {
        name: (*MISSING, *(c for c in known[name].missing if isinstance(c, str)))
        if name in known
        else MISSING
        for name in names
    }
    records = _Records(path, len(names), delimiter)
    try:
        types = _infer(records, names, nulls, known)
        _check_declared(path, records, names, nulls, types, known)
        return records.typed(types, nulls)
    except duckdb.Error as error:
        raise _explained(path, error) from None


class _Records:
    """The fields of all records in SQL, as columns c0, c1, ...; those of a regular file are in
    memory, and plain numbers among them are numbers already."""

    def __init__(self, path: Path, width: int, delimiter: str) -> None:
        self.delimiter = delimiter
        self.source = _parsed(path, width, delimiter)
        self._regular = RegularText.of(path, width, delimiter)
        self._fields: pa.Table | None = None
        self._cursor = connection().con.cursor()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return list(self._cursor.execute(query).fetchall())

    def first(self, count: int) -> Sequence[Sequence[object]]:
        """The fields of the first records."""
        regular = None if self._regular is None else self._regular.first(count)
        if regular is not None:
            return regular
        self._regular = None
        return self.rows(f"SELECT * FROM {self.source} LIMIT {count}")

    def numbers(self, likely: Mapping[int, str]) -> set[int]:
        """Which of the columns are the plain numbers that they are `likely` to be."""
        if self._regular is None:
            return set()
        kinds = {i: _ARROW[type_] for i, type_ in likely.items()}
        self._fields, self._regular = self._regular.columns(kinds, MISSING), None
        if self._fields is None:
            return set()
        self.source = "fields"
        self._cursor.register(self.source, self._fields)
        return {i for i in likely if self._fields.schema.field(i).type != pa.string()}

    def typed(self, types: Mapping[str, str], nulls: Mapping[str, tuple[str, ...]]) -> ir.Table:
        """The records with values of these types; in memory where the fields are, else over a
        Parquet copy in the scratch folder."""
        values = {
            i: f"{_value(i, type_, nulls[name])} AS {identifier(name)}"
            for i, (name, type_) in enumerate(types.items())
        }
        if self._fields is None:
            typed = new_scratch_file(".parquet")
            selected = f"SELECT {', '.join(values.values())} FROM {self.source}"
            self.rows(f"COPY ({selected}) TO {quoted(str(typed))} (FORMAT parquet)")
            return parquet_table(typed)
        columns = {
            i: self._fields.column(i).cast(_ARROW[type_], safe=False)
            for i, type_ in enumerate(types.values())
            if self._fields.schema.field(i).type != pa.string()
        }
        if texts := [i for i in values if i not in columns]:
            selected = ", ".join(values[i] for i in texts)
            made = self._cursor.execute(f"SELECT {selected} FROM {self.source}").to_arrow_table()
            columns |= dict(zip(texts, made.columns, strict=True))
        return ibis.memtable(pa.table([columns[i] for i in values], names=list(types)))


def csv_texts(path: Path, names: list[str], delimiter: str) -> ir.Table:
    """The records as the texts that they are, read when they are asked for."""
    fields = ", ".join(f"c{i} AS {identifier(name)}" for i, name in enumerate(names))
    query = f"SELECT {fields} FROM {_parsed(path, len(names), delimiter)}"
    return connection().sql(query, schema=ibis.schema(dict.fromkeys(names, "string")))


def fitting_codes(table: ir.Table, codebook: Codebook) -> Codebook:
    """The codebook without text missing codes of numeric columns: reading made them null."""
    for column in codebook:
        if column.name in table.columns and table[column.name].type().is_numeric():
            codes = tuple(code for code in column.missing if not isinstance(code, str))
            if codes != column.missing:
                labels: dict[Value, str] = {
                    v: t for v, t in column.value_labels.items() if not isinstance(v, str)
                }
                codebook = codebook.with_column(replace(column, missing=codes, value_labels=labels))
    return codebook


def _parsed(path: Path, width: int, delimiter: str) -> str:
    """The file as DuckDB parses it, in SQL."""
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(width))
    return (
        f"read_csv({quoted(literal_path(path))}, auto_detect=false, header=true, "
        f"columns={{{columns}}}, delim={quoted(delimiter)}, quote='\"', escape='\"', comment='', "
        "strict_mode=true, null_padding=false, nullstr=['', 'NA', 'NaN'], allow_quoted_nulls=false)"
    )


def _text(index: int, nulls: tuple[str, ...]) -> str:
    """The text of a field, null if it says missing."""
    return f"(CASE WHEN c{index} IN ({', '.join(map(quoted, nulls))}) THEN NULL ELSE c{index} END)"


def _value(index: int, type_: str, nulls: tuple[str, ...]) -> str:
    if type_ == "VARCHAR":
        return f"nullif(c{index}, '')"
    return _BY_NAME[type_].value.format(t=_text(index, nulls))


def _fits(text: str, type_: str) -> str:
    candidate = _BY_NAME[type_]
    return f"({candidate.value} IS NOT NULL AND {candidate.also})".format(t=text)


def _infer(
    records: _Records, names: list[str], nulls: dict[str, tuple[str, ...]], known: dict[str, Column]
) -> dict[str, str]:
    """The first type that every record of a column fits; VARCHAR if there is none."""
    first = records.first(FIRST_RECORDS)
    open_types = [t for t in _TYPES if t.name != "DECIMAL COMMA" or records.delimiter != ","]
    types = dict.fromkeys(names, "VARCHAR")
    left: dict[int, list[str]] = {}
    likely: dict[int, str] = {}
    for i, name in enumerate(names):
        if name in known and _is_text(known[name]):
            continue
        texts = {str(row[i]).strip() for row in first if row[i] is not None} - {*nulls[name]}
        left[i] = [t.name for t in open_types if all(map(t.may_be, texts))]
        if texts and left[i] and left[i][0] in _ARROW:
            likely[i] = left[i][0]
    for i in records.numbers(likely):
        types[names[i]], left[i] = likely[i], []
    while left := {i: candidates for i, candidates in left.items() if candidates}:
        for block in _blocks(left, BLOCK):
            fields = ", ".join(f"{_text(i, nulls[names[i]])} AS t{i}" for i in block)
            tests = ", ".join(_passes(f"t{i}", left[i][0]) for i in block)
            (passes,) = records.rows(f"SELECT {tests} FROM (SELECT {fields} FROM {records.source})")
            for i, passed in zip(block, passes, strict=True):
                types[names[i]] = left[i][0] if passed else "VARCHAR"
                left[i] = [] if passed else left[i][1:]
    for name, column in known.items():
        if types.get(name) == "BIGINT" and column.type == "continuous" and column.levels is None:
            types[name] = "DOUBLE"
    return types


def _passes(text: str, type_: str) -> str:
    test = f"bool_and({_fits(text, type_)}) FILTER (WHERE {text} IS NOT NULL)"
    if type_ in _DECIMALS:
        # Whole numbers beyond 64 bits would fit too, and lose digits: they are ids.
        test += f" AND bool_or(regexp_matches({text}, '[.,eE]'))"
    return test


def _blocks(items: Iterable[int], size: int) -> list[tuple[int, ...]]:
    """The items in blocks of at most `size`."""
    ordered = tuple(items)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _is_text(column: Column) -> bool:
    levels = column.levels or ()
    return column.type == "text" or any(isinstance(level, str) for level in levels)


def _is_number(column: Column) -> bool:
    if column.levels is not None:
        return any(isinstance(v, (int, float)) and not isinstance(v, bool) for v in column.levels)
    return column.type in ("continuous", "integer")


def _check_declared(
    path: Path,
    records: _Records,
    names: list[str],
    nulls: dict[str, tuple[str, ...]],
    types: dict[str, str],
    known: dict[str, Column],
) -> None:
    """A column that the codebook declares as numbers must be numbers; say where it is not."""
    for i, name in enumerate(names):
        column = known.get(name)
        if column is None or types[name] in _NUMBERS or not _is_number(column):
            continue
        text = _text(i, nulls[name])
        broken = f"{text} IS NOT NULL AND NOT {_fits(text, 'DOUBLE')}"
        numbered = f"SELECT *, row_number() OVER () AS record FROM {records.source}"
        ((first,),) = records.rows(f"SELECT min(record) FROM ({numbered}) WHERE {broken}")
        if isinstance(first, int):
            raise Refused(
                f"Column `{name}` of `{path.name}` should hold numbers but record {first:,} "
                "does not; correct it, declare its text as a missing code, or change the codebook."
            )


def _check_names(path: Path, names: list[str]) -> None:
    # The first line of a file without a header is a record: never repeat it in a message.
    if not names or not any(names):
        raise Refused(f"The first line of `{path.name}` must hold the column names.")
    if all(re.fullmatch(r"[+-]?[\d.,]*", name) for name in names):
        raise Refused(
            f"The first line of `{path.name}` holds numbers, but it must hold the column names."
        )
    number_of: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if name and name in number_of:
            raise Refused(
                f"Columns {number_of[name]} and {number} of `{path.name}` have the same name; "
                "rename one of them."
            )
        number_of[name] = number


def _not_utf8(path: Path) -> Refused:
    return Refused(
        f"`{path.name}` is not UTF-8 text; if it is Latin-1, convert it first: "
        f"`iconv -f LATIN1 -t UTF-8 {path.name} > utf8.csv`."
    )


def _explained(path: Path, error: duckdb.Error) -> Refused:
    """One sentence for a parser's error; its own text quotes the record, so it is not used."""
    message = str(error)
    match = re.search(r"CSV Error on Line: (\d+)", message)
    line = f"line {int(match[1]):,}" if match else "one of the lines"
    if "unicode" in message.lower() or "utf-8" in message.lower():
        return _not_utf8(path)
    if "unterminated quote" in message:
        return Refused(f"In `{path.name}`, {line} has a quote that is not closed; correct it.")
    if "Expected Number of Columns" in message:
        return Refused(
            f"In `{path.name}`, {line} has a different number of fields from the header; correct "
            "it, or quote the field that contains the delimiter."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return Refused(f"There is too little memory to convert `{path.name}`; write it as Parquet.")
    return Refused(
        f"`{path.name}` cannot be read as CSV; it may be damaged or mix different line endings."
    )
