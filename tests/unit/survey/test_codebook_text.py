"""A codebook that somebody edited keeps its comments, order and spelling when it is rewritten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from test_codebook import codebooks

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, parse_codebook, read_codebook
from understudy.survey.codebook_text import codebook_to_toml, updated_toml, write_codebook

EDITED = """\
# Checked against the public documentation of 2024.
title = "Pay"  # as published

[columns.pay]  # the outcome
# Drafted from the data, to be checked: role, bounds. Once a fact is
# confirmed from public documents, remove it from `drafted`.
type = 'continuous'
role = "sensitive"
bounds = [0.0, 500_000.0]  # topcode of the public file
drafted = ["role", "bounds"]

[columns.sex]
role = "public"
type = "categorical"
levels = [1, 2]  # codes of page 12
value_labels = { 1 = "Male", 2 = "Female" }
"""


def test_only_what_differs_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "codebook.toml"
    path.write_text(EDITED, encoding="utf-8")
    book = read_codebook(path)
    write_codebook(book, path)
    assert path.read_text(encoding="utf-8") == EDITED
    pay = replace(book["pay"], bounds=(0.0, 600_000.0), drafted=frozenset({"role"}))
    changed = replace(book.with_column(pay).with_column(Column("age", label="Age")), title="Wages")
    write_codebook(changed, path)
    text = path.read_text(encoding="utf-8")
    assert read_codebook(path) == changed
    assert text.startswith("# Checked against the public documentation of 2024.\n")
    assert 'title = "Wages"  # as published' in text
    assert "bounds = [0.0, 600000.0]  # topcode of the public file" in text
    assert "[columns.pay]  # the outcome" in text
    assert "type = 'continuous'" in text
    assert "levels = [1, 2]  # codes of page 12" in text
    assert "# Drafted from the data, to be checked: role. Once a fact is" in text
    write_codebook(changed.with_column(replace(pay, drafted=frozenset())), path)
    assert "Drafted from the data" not in path.read_text(encoding="utf-8")
    assert "topcode of the public file" in path.read_text(encoding="utf-8")
    write_codebook(changed.only(["sex"]), path)
    assert list(read_codebook(path).columns) == ["sex"]
    assert "codes of page 12" in path.read_text(encoding="utf-8")


def test_types_of_levels_are_facts() -> None:
    ones = Codebook({"x": Column("x", type="categorical", levels=(1, 2))})
    for levels in ((1.0, 2.0), ("1", "2"), (True, False)):
        other = ones.with_column(replace(ones["x"], levels=levels))
        again = parse_codebook(updated_toml(codebook_to_toml(ones), other))
        assert [type(level) for level in again["x"].levels or ()] == [
            type(level) for level in levels
        ]


@settings(max_examples=100, deadline=None)
@given(codebooks(), codebooks())
def test_any_codebook_over_any_other(old: Codebook, new: Codebook) -> None:
    text = updated_toml(codebook_to_toml(old), new)
    assert parse_codebook(text) == new


def test_what_is_not_toml_is_refused() -> None:
    with pytest.raises(Refused, match="not valid TOML"):
        updated_toml("title = ", Codebook())


HOMES = """\
unit = "home"
records_per_unit = 9

[columns."home"]
role = "unit"
type = "integer"

[columns."age"]
role = "public"
type = "integer"
"""


def test_the_unit_and_its_limit_come_back_from_the_file() -> None:
    book = parse_codebook(HOMES)
    assert (book.unit_column, book.records_per_unit) == ("home", 9)
    assert codebook_to_toml(book).split() == HOMES.split()
    by_role = parse_codebook(HOMES.replace('unit = "home"\n', "", 1))
    assert by_role.unit == ""
    assert by_role.unit_column == "home"
    assert by_role.only(["age"]).unit_column == "home"
    assert parse_codebook(codebook_to_toml(by_role)) == by_role
    assert "unit" not in codebook_to_toml(book.only(["age"]))  # the column is not there


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unit = "home"', 'unit = "hoem"', "did you mean `home`"),
        ("= 9", "= 0", "whole number of at least 1"),
        ("= 9", "= 2.5", "whole number of at least 1"),
        ('unit = "home"', "unit = 3", "name of a column"),
        ('"unit"\n', '"public"\n', ""),
    ],
)
def test_mistakes_about_units_are_named(old: str, new: str, message: str) -> None:
    text = HOMES.replace(old, new, 1)
    if not message:  # a unit may have another role
        assert parse_codebook(text).unit_column == "home"
        return
    with pytest.raises(Refused, match=message):
        parse_codebook(text)


def test_a_limit_needs_one_unit() -> None:
    without = HOMES.replace('unit = "home"\n', "", 1)
    with pytest.raises(Refused, match="name its column with `unit`"):
        parse_codebook(without.replace('"unit"\n', '"public"\n'))
    with pytest.raises(Refused, match="two unit columns"):
        parse_codebook(without.replace('"public"\n', '"unit"\n'))
