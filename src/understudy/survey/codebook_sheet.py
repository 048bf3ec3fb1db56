"""A codebook as a spreadsheet, one line for each column: hundreds are declared in one sitting.

The headings are the keys of the TOML file. Several values stand in one cell with `;` between them
(`1; 2; 9`), value labels as `1 = Yes; 2 = No`. A value that would be read as something else (a
text of digits, one with `;` or `=`) is in double quotes. What is said of the whole file, such as
totals, stays in the TOML file.
"""

from __future__ import annotations

import csv
import datetime
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from understudy.errors import Refused
from understudy.survey.codebook import GRIDS, Codebook, Column, Role, Type
from understudy.survey.codebook_text import codebook_to_toml
from understudy.toml_mistakes import Mistake, TomlRefused

ENDINGS = (".xlsx", ".csv")
KEYS = tuple(field.name for field in fields(Column) if field.name != "name")
SEVERAL = tuple(f.name for f in fields(Column) if re.match(r"tuple|frozenset", str(f.type)))
SINGLE = (
    "blanks",
    "rounding",
    "skip",
    "typical",
    "spread",
)  # values; the other keys are texts as they stand
PAIRS = "value_labels"
_PAIR = re.compile(r'\s*("(?:[^"]|"")*"|[^="]+?)\s*=\s*(.*)', re.DOTALL)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def write_sheet(codebook: Codebook, path: Path) -> None:
    """Write the columns as .xlsx or .csv."""
    written = tomllib.loads(codebook_to_toml(codebook)).get("columns", {})
    rows = [["name", *KEYS]]
    for name, facts in written.items():
        rows.append([name, *(_cell(facts.get(key)) for key in KEYS)])
    if path.suffix.lower() == ".xlsx":
        _write_workbook(rows, path)
        return
    with path.open("w", encoding="utf-8-sig", newline="") as text:
        csv.writer(text).writerows(rows)


def read_sheet(path: Path) -> Codebook:
    """The columns of a spreadsheet; every mistake is named at once, by its line."""
    from understudy.survey.codebook_check import checked_codebook

    rows = _read_workbook(path) if path.suffix.lower() == ".xlsx" else _read_text(path)
    heading = [name.strip().lower() for name in rows[0]] if rows else []
    if "name" not in heading:
        raise Refused(f"The first line of `{path.name}` must have a heading `name`.")
    written: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    mistakes: list[tuple[int, str]] = []
    for number, row in enumerate(rows[1:], start=2):
        cells = dict(zip(heading, row, strict=False))
        name = cells.pop("name", "")
        if not any(row):
            continue
        if not name or name in written:
            mistakes.append((number, "Each line needs a `name`, and a name of its own."))
            continue
        lines[name] = number
        try:
            written[name] = {key: _fact(key, cells[key]) for key in cells if key and cells[key]}
        except ValueError as error:
            mistakes.append((number, str(error)))
    codebook, wrong = checked_codebook({"columns": written})
    for location, message in wrong:
        mistakes.append((lines.get(location[1] if len(location) > 1 else "", 1), message))
    if mistakes:
        raise TomlRefused(path.name, [Mistake(line, message) for line, message in mistakes])
    return codebook


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return "; ".join(f"{_text(key)} = {_text(label)}" for key, label in value.items())
    if isinstance(value, list):
        return "; ".join(map(_item, value))
    return str(value) if isinstance(value, str) else _item(value)


def _item(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value) if _value(value) == value and value else _quoted(value)
    return value.isoformat() if isinstance(value, datetime.date) else repr(value)


def _text(text: str) -> str:
    plain = text == text.strip() and not re.search(r'[;="]', text) and text
    return text if plain else _quoted(text)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('""', '"') if quoted else text


def _value(text: str) -> Any:
    """A value as it is written without quotes: a number, true or false, a date, a text."""
    if text in ("true", "false"):
        return text == "true"
    if _DATE.fullmatch(text):
        return datetime.date.fromisoformat(text)
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    try:
        return float(text) if re.search(r"[0-9]", text) and "_" not in text else text
    except ValueError:
        return text


def _fact(key: str, cell: str) -> Any:
    """What a cell says, as it would stand in TOML."""
    if key == PAIRS:
        pairs = {}
        for item in _items(cell):
            match = _PAIR.fullmatch(item)
            if match is None:
                raise ValueError(f"`{key}` is written 1 = Yes; 2 = No.")
            pairs[_unquoted(match[1])] = _unquoted(match[2])
        return pairs
    if key in SEVERAL or (key == "grid" and cell not in GRIDS):
        return [_read(item) for item in _items(cell)]
    return _read(cell) if key in SINGLE else cell


def _read(item: str) -> Any:
    return _unquoted(item) if item.startswith('"') else _value(item)


def _items(cell: str) -> list[str]:
    """What stands between the semicolons outside of quotes."""
    items, inside = [""], False
    for character in cell:
        inside ^= character == '"'
        if character == ";" and not inside:
            items.append("")
        else:
            items[-1] += character
    return [item.strip() for item in items if item.strip()]


def _read_text(path: Path) -> list[list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise Refused(f"`{path.name}` cannot be read as a CSV file in UTF-8.") from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)  # spreadsheets write the one of their language
    try:
        rows = list(csv.reader(text.splitlines(keepends=True), delimiter=delimiter))
    except csv.Error:
        raise Refused(f"`{path.name}` is not a CSV file; save the sheet again as one.") from None
    return [[cell.strip() for cell in row] for row in rows]


def _read_workbook(path: Path) -> list[list[str]]:
    openpyxl = _library()
    try:
        with path.open("rb") as file:
            sheet = openpyxl.load_workbook(file, data_only=True).worksheets[0]
        return [[_shown(value) for value in row] for row in sheet.iter_rows(values_only=True)]
    except Exception:  # a damaged file can break any step of the library
        raise Refused(f"`{path.name}` cannot be read as an Excel file; save it again.") from None


def _shown(value: Any) -> str:
    """The value of a cell that software may have turned into a number or a date."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    return "" if value is None else _item(value) if not isinstance(value, str) else value.strip()


def _write_workbook(rows: Sequence[Sequence[str]], path: Path) -> None:
    openpyxl = _library()
    from openpyxl.styles import Font
    from openpyxl.worksheet.datavalidation import DataValidation

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "columns"
    for number, row in enumerate(rows, start=1):
        for position, text in enumerate(row, start=1):
            cell = sheet.cell(number, position, text or None)
            cell.number_format = "@"
            if text:
                cell.data_type = "s"  # a text, whatever it looks like
            if number == 1:
                cell.font = Font(bold=True)
    for key, choices in (("role", get_args(Role)), ("type", get_args(Type))):
        letter = openpyxl.utils.get_column_letter(KEYS.index(key) + 2)
        listed = DataValidation(type="list", formula1=f'"{",".join(choices)}"')
        listed.add(f"{letter}2:{letter}{len(rows) + 1}")
        sheet.add_data_validation(listed)
    sheet.freeze_panes = "B2"
    book.save(path)


def _library() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise Refused(
            "Excel files need openpyxl: pip install 'understudy[excel]'; or use a .csv sheet."
        ) from None
    return openpyxl
