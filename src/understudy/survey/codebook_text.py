"""Codebooks as TOML text: written from scratch, or into a file whose comments stay.

`codebook_to_toml` is the same text for the same codebook. `updated_toml` changes only what
differs in a text that somebody has edited by hand: its order, comments and spelling stay.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Comment, Null, Table

from understudy.errors import Refused
from understudy.survey.codebook import (
    EPOCH,
    FACTS,
    Codebook,
    Column,
    Value,
    read_key,
    spelled_values,
)

__public__ = ("write_codebook",)

_DRAFTED = "# Drafted from the data, to be checked: "
_CONFIRMED = "# confirmed from public documents, remove it from `drafted`."


def write_codebook(codebook: Codebook, path: str | Path) -> None:
    """Write TOML that `read_codebook` reads back to an equal codebook.

    Comments in a file that already exists stay where they are.
    """
    path = Path(path)
    text = codebook_to_toml(codebook)
    if path.is_file():
        text = updated_toml(path.read_text(encoding="utf-8-sig"), codebook)
    path.write_text(text, encoding="utf-8")


def codebook_beside(path: Path) -> Path:
    """Where the codebook of a file that cannot hold it is kept: `sdr.codebook.toml`."""
    return path.with_suffix(".codebook.toml")


def updated_toml(text: str, codebook: Codebook) -> str:
    """The text with the codebook's facts; what is equal already is not touched."""
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, ValueError):
        raise Refused("The codebook to be updated is not valid TOML; correct it first.") from None
    _update(document, tomlkit.parse(codebook_to_toml(codebook)))
    columns = document.get("columns", {})
    for column in codebook:
        _renew_comment(columns[column.name], column)
    return tomlkit.dumps(document)


def _update(old: MutableMapping[str, Any], new: Mapping[str, Any]) -> None:
    for key in [key for key in old if key not in new]:
        del old[key]
    for key, value in new.items():
        if key not in old:
            old[key] = value
        elif isinstance(value, Mapping) and isinstance(old[key], MutableMapping):
            _update(old[key], value)
        elif _plain(old[key]) != _plain(value):
            if key == "drafted" and isinstance(value, list) and set(old[key]) == set(value):
                continue  # in another order
            old[key] = value


def _plain(value: Any) -> Any:
    """A value with its types: 1, 1.0 and true are different facts."""
    plain = value.unwrap() if hasattr(value, "unwrap") else value
    return (
        [(type(item), item) for item in plain] if isinstance(plain, list) else (type(plain), plain)
    )


def _renew_comment(table: Any, column: Column) -> None:
    """Our own comment on a column's drafted facts lists those that are left."""
    if not isinstance(table, Table):
        return
    for position, (_, item) in enumerate(table.value.body):
        if not isinstance(item, Comment):
            continue
        comment = item.trivia.comment
        if comment.startswith(_DRAFTED) and column.drafted:
            item.trivia.comment = _drafted_comment(column)
        elif not column.drafted and (comment.startswith(_DRAFTED) or comment == _CONFIRMED):
            table.value.body[position] = (None, Null())


def _drafted_comment(column: Column) -> str:
    facts = ", ".join(fact for fact in FACTS if fact in column.drafted)
    return f"{_DRAFTED}{facts}. Once a fact is"


def codebook_to_toml(codebook: Codebook) -> str:
    lines = []
    if codebook.title:
        lines += [f"title = {_toml(codebook.title)}", ""]
    for key, rules in (("impossible", codebook.impossible), ("order", codebook.order)):
        if rules:
            lines += [f"{key} = {_toml(list(rules))}", ""]
    if codebook.design_effect is not None:
        lines += [f"design_effect = {_toml(codebook.design_effect)}", ""]
    if codebook.psu_records is not None:
        lines += [f"psu_records = {_toml(codebook.psu_records)}", ""]
    if codebook.unit in codebook:
        lines += [f"unit = {_toml(codebook.unit)}", ""]
    if codebook.records_per_unit is not None and codebook.unit_column in codebook:
        lines += [f"records_per_unit = {codebook.records_per_unit}", ""]
    if codebook.population_size is not None or codebook.population_where:
        lines.append("[population]")
        if codebook.population_size is not None:
            lines.append(f"size = {_toml(codebook.population_size)}")
        if codebook.population_where:
            lines.append(f"where = {_toml(codebook.population_where)}")
        lines.append("")
    for name, totals in codebook.population_by.items():
        lines.append(f"[population.by.{_toml(name)}]")
        spelled = spelled_values((codebook[name].levels if name in codebook else None) or ())
        lines += [f"{_key(level, spelled)} = {_toml(count)}" for level, count in totals.items()]
        lines.append("")
    if codebook.misfit is not None:
        lines.append("[misfit]")
        facts = asdict(codebook.misfit).items()
        lines += [f"{name} = {_toml(values)}" for name, values in facts]
        lines.append("")
    if codebook.design_effects:
        lines.append("[design_effects]")
        effects = codebook.design_effects.items()
        lines += [f"{_toml(name)} = {_toml(effect)}" for name, effect in effects]
        lines.append("")
    for column in codebook:
        lines.append(f"[columns.{_toml(column.name)}]")
        if column.drafted:
            lines += [_drafted_comment(column), _CONFIRMED]
        lines.append(f"role = {_toml(column.role)}")
        lines.append(f"type = {_toml(column.type)}")
        if column.label:
            lines.append(f"label = {_toml(column.label)}")
        if column.levels is not None:
            lines.append(f"levels = {_toml(list(column.levels))}")
        if column.value_labels:
            spelled = spelled_values((*(column.levels or ()), *column.missing))
            pairs = ", ".join(
                f"{_key(v, spelled)} = {_toml(t)}" for v, t in column.value_labels.items()
            )
            lines.append(f"value_labels = {{ {pairs} }}")
        days = column.type == "date"
        if column.bounds is not None:
            lines.append(f"bounds = {_toml(_dated(column.bounds, days))}")
        if column.transform is not None:
            lines.append(f"transform = {_toml(column.transform)}")
        if column.missing:
            lines.append(f"missing = {_toml(list(column.missing))}")
        if column.grid is not None:
            edges = not isinstance(column.grid, str)
            lines.append(f"grid = {_toml(_dated(column.grid, days) if edges else column.grid)}")
        if column.special:
            lines.append(f"special = {_toml(_dated(column.special, days))}")
        for fact in ("blanks", "rounding", "skip", "typical", "spread"):
            if getattr(column, fact) is not None:
                lines.append(f"{fact} = {_toml(getattr(column, fact))}")
        for fact in ("applies_when", "derived"):
            if getattr(column, fact):
                lines.append(f"{fact} = {_toml(getattr(column, fact))}")
        if column.drafted:
            lines.append(f"drafted = {_toml(sorted(column.drafted))}")
        lines.append("")
    return "\n".join(lines)


def _dated(numbers: Iterable[Any], days: bool) -> list[Any]:
    """The numbers, or the dates that they stand for, where there are such dates."""
    numbers = list(numbers)
    try:
        dates = [EPOCH + datetime.timedelta(days=int(number)) for number in numbers]
    except OverflowError:
        return numbers
    whole = all(float(number).is_integer() for number in numbers)
    return list(dates) if days and whole else numbers


def _key(value: Value, spelled: Mapping[str, Value]) -> str:
    """The TOML key that is read back as this value."""
    text = str(value)
    if read_key(text, spelled) != value:
        text = f'"{text}"'
    return _toml(text)


def _toml(value: Any) -> str:
    """A TOML literal; strings with their escapes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    escaped = "".join(_escape(character) for character in str(value))
    return f'"{escaped}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if ord(character) < 32 or ord(character) == 127:
        return f"\\u{ord(character):04x}"
    return character
