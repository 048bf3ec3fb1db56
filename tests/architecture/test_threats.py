"""docs/threats.md: its tests exist, on their databases, and every `threat N` leads there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
BOTH = {"ledger_place", "new_place", "ledger", "open_ledger", "site"}
SECTION = re.compile(r"^## (\d+)\. .*?(?=^## )", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^- Tests: (.*)\. Databases: (\w+)", re.MULTILINE)
REFERENCE = re.compile(r"[Tt]hreats? (\d+(?:(?:,| and) \d+)*)")

SECTIONS = {int(match[1]): match[0] for match in SECTION.finditer(PAGE)}


def test_the_threats_are_numbered_in_order() -> None:
    """1 to 30 are the server's, 31 to 34 those of releases; a number never changes its meaning."""
    assert list(SECTIONS) == sorted(SECTIONS)
    assert set(range(1, 19)) | {33} <= set(SECTIONS) <= set(range(1, 35))


def sources() -> str:
    """All tests of the server, of its promise, and of releases."""
    names = ("ledger", "verify", "web", "release", "mechanisms", "fitting")
    rooms = [ROOT / "tests" / "unit" / room for room in names]
    rooms += [ROOT / "tests" / "unit", ROOT / "tests" / "noninterference"]
    files = [file for room in rooms for file in room.glob("test_*.py")]
    files += (ROOT / "tests" / "statistical").glob("test_verification_*.py")
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("number", SECTIONS)
def test_every_threat_has_tests_that_exist_on_the_databases_that_are_named(number: int) -> None:
    rows = ROW.findall(SECTIONS[number])
    assert rows
    for tests, databases in rows:
        names = re.findall(r"`(\w+)`", tests)
        assert names
        for name in names:
            definition = re.search(rf"def {name}\((.*?)\) -> None:", sources(), re.DOTALL)
            assert definition, name
            if databases == "both":
                assert BOTH & set(re.findall(r"(\w+):", definition[1])), name


def test_every_reference_to_a_threat_leads_to_one() -> None:
    folders = [ROOT / "src", ROOT / "tests", ROOT / "docs"]
    files = [f for folder in folders for f in folder.rglob("*") if f.suffix in (".py", ".md")]
    numbers = {
        int(number): file.name
        for file in files
        for match in REFERENCE.finditer(file.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+", match[1])
    }
    assert len(numbers) >= 15
    assert not set(numbers) - set(SECTIONS), numbers
