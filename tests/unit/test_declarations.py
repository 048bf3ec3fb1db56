"""Declarations: a class that leaves a fact out cannot be defined; fields say its settings."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from understudy.declarations import Declared, Undeclared, alternatives, declared_in, settings_of


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
    assert not Cow.is_contract()
    assert Ruminant.is_contract()


def test_a_missing_fact_fails_when_the_class_is_defined() -> None:
    with pytest.raises(Undeclared, match="`Snake` does not declare `feet`: How many feet it"):

        class Snake(Animal):
            food = "meat"

            def noise(self) -> str:
                return "hiss"


def test_a_missing_function_fails_when_the_class_is_defined() -> None:
    with pytest.raises(Undeclared, match="`Fish` does not declare `noise`"):

        class Fish(Animal):
            feet = 0
            food = "meat"


def test_a_wrong_value_fails_when_the_class_is_defined() -> None:
    with pytest.raises(Undeclared, match="`food` of `Sheep` must be 'grass' or 'meat'"):

        class Sheep(Ruminant):
            food = "gras"  # type: ignore[assignment]

            def noise(self) -> str:
                return "baa"

    with pytest.raises(Undeclared, match="`feet` of `Goat` must be int"):

        class Goat(Ruminant):
            feet = True  # a truth value is not a number

            def noise(self) -> str:
                return "meh"


def test_constants_are_not_inherited_from_a_whole_class() -> None:
    with pytest.raises(Undeclared, match="`Puppy` takes `feet` from `Dog`; say it in its own body"):

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


def test_classes_are_found_in_their_package() -> None:
    from understudy.survey.formats import __name__ as package

    assert declared_in(package, Animal) == {}


def test_alternatives_of_a_union() -> None:
    assert alternatives(int | None) == (int,)
    assert alternatives(str) == (str,)
    assert alternatives(Literal["a"] | float | None) == (Literal["a"], float)
