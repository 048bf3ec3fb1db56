"""A class of a kind states every fact when it is defined, and a file outside is as good."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import pytest

from understudy.declarations import Declared, is_complete, own_class, required_facts
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
    import sys

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
