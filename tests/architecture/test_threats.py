"""The map of threats in docs/proofs/verification.md names tests that exist, on their databases."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOTH = {"place", "new_place", "ledger", "open_ledger", "site"}


def rows() -> list[tuple[str, list[str], str]]:
    text = (ROOT / "docs" / "proofs" / "verification.md").read_text(encoding="utf-8")
    table = text.split("## Threats and their tests")[1]
    cells = [line.strip("|").split("|") for line in table.splitlines() if re.match(r"\| \d", line)]
    return [(a.strip(), re.findall(r"`(\w+)`", b), c.strip()) for a, b, c in cells]


def test_every_threat_has_tests_that_exist_on_the_databases_that_are_named() -> None:
    rooms = [ROOT / "tests" / "unit" / room for room in ("ledger", "verify", "web")]
    files = [file for room in rooms for file in room.glob("test_*.py")]
    files += (ROOT / "tests" / "statistical").glob("test_verification_*.py")
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert {int(threat.split()[0]) for threat, _, _ in rows()} == set(range(1, 19))
    for threat, names, databases in rows():
        assert names, threat
        for name in names:
            found = re.search(rf"def {name}\((.*?)\) -> None:", source, re.DOTALL)
            assert found, name
            if databases == "both":
                assert BOTH & set(re.findall(r"(\w+):", found[1])), name
