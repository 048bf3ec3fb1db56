"""A class of a kind states every fact when it is defined, and a file outside is as good."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest

from understudy.declarations import (
    Declared,
    alternatives,
    is_complete,
    own_class,
    required_facts,
    settings_of,
)
from understudy.errors import Refused


class Kind(Declared, abstract=True):
    colour: ClassVar[str]
    size: int  # of an object, not of the class

    @abstractmethod
    def area(self) -> int: ...


class Round(Kind, abstract=True):
    def area(self) -> int:
        return 3 * self.size**2


def test_a_missing_fact_is_an_error_when_the_class_is_defined() -> None:
    assert required_facts(Round) == ["colour"]
    with pytest.raises(TypeError, match=r"Red does not declare area, colour$"):

        class Red(Kind):
            pass

    with pytest.raises(TypeError, match=r"Plain does not declare colour$"):

        class Plain(Round):
            pass

    class Blue(Round):
        colour = "blue"

    assert is_complete(Blue, Kind)
    assert not is_complete(Round, Kind)
    assert not is_complete(Kind, Kind)
    assert not is_complete(Path, Kind)


OWN = """
from tests_kind import Round

class Green(Round):
    colour = "green"
"""


def test_a_class_in_a_file_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tests_kind", sys.modules[__name__])
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    mine = own_class("mine.py:Green", Kind, "shape", tmp_path)
    assert mine.colour == "green"
    assert own_class("mine.py:Green", Kind, "shape", tmp_path) is mine
    assert own_class(f"{tmp_path}/mine.py:Green", Kind, "shape") is mine
    with pytest.raises(Refused, match=r"Unknown shape in `mine.py` `Gren`; did you mean `Green`"):
        own_class("mine.py:Gren", Kind, "shape", tmp_path)
    with pytest.raises(Refused, match=r"no file `other.py` with the shape"):
        own_class("other.py:Green", Kind, "shape", tmp_path)
    (tmp_path / "mine.py").write_text(OWN.replace("colour", "color"), encoding="utf-8")
    with pytest.raises(Refused, match="TypeError: Green does not declare colour"):
        own_class("mine.py:Green", Kind, "shape", tmp_path)


def test_a_file_that_is_saved_again_within_a_second_is_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it has the same size: bytecode that Python keeps would pass for it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setitem(sys.modules, "tests_kind", sys.modules[__name__])
    file = tmp_path / "mine.py"
    for colour in ("green", "black"):
        file.write_text(OWN.replace("green", colour), encoding="utf-8")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        assert own_class("mine.py:Green", Kind, "shape", tmp_path).colour == colour
    (tmp_path / "notes.txt").write_text(OWN, encoding="utf-8")
    with pytest.raises(Refused, match=r"`notes.txt` with the shape is not a Python file"):
        own_class("notes.txt:Green", Kind, "shape", tmp_path)


class Animal(Declared, abstract=True):
    @property
    @abstractmethod
    def feet(self) -> int:
        """How many feet it has."""

    @property
    @abstractmethod
    def food(self) -> Literal["grass", "meat"]:
        """What it eats."""

    @abstractmethod
    def noise(self) -> str:
        """The sound it makes."""


class Ruminant(Animal, abstract=True):
    feet = 4
    food = "grass"


class Cow(Ruminant):
    """Takes what its family says."""

    def noise(self) -> str:
        return "moo"


@dataclass(frozen=True)
class Dog(Animal):
    feet = 4
    food: Annotated[Literal["grass", "meat"], "What this dog is fed."]
    name: Annotated[str, "What it answers to."] = "Rex"
    chip: str | None = None

    def noise(self) -> str:
        return "woof"


def test_facts_come_from_the_body_the_family_or_a_field() -> None:
    assert (Cow().feet, Cow().food) == (4, "grass")
    assert Dog("meat").food == "meat"


def test_a_missing_fact_fails_when_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Snake does not declare feet \(How many feet it"):

        class Snake(Animal):
            food = "meat"

            def noise(self) -> str:
                return "hiss"


def test_a_missing_function_fails_when_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match="Fish does not declare noise"):

        class Fish(Animal):
            feet = 0
            food = "meat"


def test_a_wrong_value_fails_when_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match="food of Sheep must be 'grass' or 'meat'"):

        class Sheep(Ruminant):
            food = "gras"  # type: ignore[assignment]

            def noise(self) -> str:
                return "baa"

    with pytest.raises(TypeError, match="feet of Goat must be int"):

        class Goat(Ruminant):
            feet = True  # a truth value is not a number

            def noise(self) -> str:
                return "meh"


def test_constants_are_not_inherited_from_a_whole_class() -> None:
    with pytest.raises(TypeError, match="Puppy takes feet from Dog; say it in its own body"):

        class Puppy(Dog):
            pass

    class Pup(Dog):  # its food is a field, and fields are inherited
        feet = 4

    assert Pup("meat").feet == 4


def test_settings_are_the_fields_with_a_meaning() -> None:
    settings = settings_of(Dog)
    assert list(settings) == ["food", "name"]
    assert settings["food"].required
    assert settings["name"].default == "Rex"
    assert settings["name"].meaning == "What it answers to."


def test_alternatives_of_a_union() -> None:
    assert alternatives(int | None) == (int,)
    assert alternatives(str) == (str,)
    assert alternatives(Literal["a"] | float | None) == (Literal["a"], float)
