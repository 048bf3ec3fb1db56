"""Codebooks of archives (DDI Codebook, the XML beside files of IPUMS and national archives).

A variable's label, the labels of its values, the values that are not answers, and where it stands
in a line of a fixed-width file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, Value


@dataclass(frozen=True)
class Variable:
    """What the document says of one variable; positions count from 1, 0 where it says nothing."""

    name: str
    label: str = ""
    numeric: bool = False
    value_labels: dict[Value, str] = field(default_factory=dict)
    missing: tuple[Value, ...] = ()
    start: int = 0
    width: int = 0
    decimals: int = 0


def read_ddi(path: Path) -> Codebook:
    """A codebook of labels, value labels and missing codes; types and roles are left open."""
    columns = {
        variable.name: Column(
            variable.name,
            label=variable.label,
            value_labels=variable.value_labels,
            missing=variable.missing,
        )
        for variable in ddi_variables(path)
    }
    return Codebook(columns)


def ddi_variables(path: Path) -> list[Variable]:
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError, UnicodeDecodeError, ValueError):
        raise Refused(f"`{path.name}` cannot be read as an XML file.") from None
    variables = [_variable(path, element) for element in _inside(root, "var")]
    if not variables:
        raise Refused(f"`{path.name}` describes no variables; it is not a DDI codebook.")
    return variables


def _variable(path: Path, element: ElementTree.Element) -> Variable:
    name = (element.get("name") or element.get("ID") or "").strip()
    if not name:
        raise Refused(f"A variable in `{path.name}` has no name.")
    numeric = any(form.get("type") == "numeric" for form in _children(element, "varFormat"))
    labels: dict[Value, str] = {}
    missing: list[Value] = []
    for category in _children(element, "catgry"):
        text = next((_text(child) for child in _children(category, "catValu")), "")
        if not text:
            continue
        value = _value(text, numeric)
        if label := next((_text(child) for child in _children(category, "labl")), ""):
            labels[value] = label
        if (category.get("missing") or "").upper() == "Y":
            missing.append(value)
    for invalid in _children(element, "invalrng"):
        missing += [
            _value(item.get("VALUE") or "", numeric)
            for item in _children(invalid, "item")
            if item.get("VALUE")
        ]
    start = width = 0
    for location in _children(element, "location"):
        start, end = _whole(location.get("StartPos")), _whole(location.get("EndPos"))
        width = _whole(location.get("width")) or (end - start + 1 if end else 0)
    label = next((_text(child) for child in _children(element, "labl")), "")
    decimals = _whole(element.get("dcml"))
    codes = tuple(dict.fromkeys(missing))
    return Variable(name, label, numeric, labels, codes, start, width, decimals)


def _inside(element: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (inner for inner in element.iter() if _plain(inner) == name)


def _children(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [child for child in element if _plain(child) == name]


def _plain(element: ElementTree.Element) -> str:
    """The name of an element without its namespace; comments have none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: ElementTree.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _value(text: str, numeric: bool) -> Value:
    try:
        number = float(text) if numeric else None
    except ValueError:
        return text
    if number is None:
        return text
    return int(number) if number.is_integer() else number


def _whole(text: str | None) -> int:
    return int(text) if text and text.strip().isdigit() else 0
