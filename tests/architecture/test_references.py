"""What code and docs refer to exists: sections of methods.md and of the papers, threats, files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
READ = [
    path
    for folder in ("src", "studies", "tests", "docs", "scripts", "bench", "deploy", "examples")
    for suffix in ("py", "md", "j2", "html", "toml", "R", "sh")
    for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
    if path.name != "test_references.py"
] + [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile"]
NUMBER = r"(\d+(?:\.\d+)*)"


def cited(pattern: str) -> dict[str, set[str]]:
    """{what is cited: where} over all files."""
    places: dict[str, set[str]] = {}
    for name, text in texts().items():
        for reference in re.findall(pattern, text):
            places.setdefault(reference, set()).add(name)
    return places


@cache
def texts() -> dict[str, str]:
    """All files in one line each: a comment or docstring may break anywhere, also with a # or a
    quote between."""
    broken = re.compile(r"\s*\n\s*(?:#\s*|\"\s*f?\")?")
    return {
        str(path.relative_to(ROOT)): broken.sub(" ", path.read_text(encoding="utf-8"))
        for path in READ
    }


def numbered(page: Path) -> set[str]:
    """The numbers of a page's sections and of its numbered list."""
    text = page.read_text(encoding="utf-8")
    return set(re.findall(rf"^#+ {NUMBER}\.? ", text, re.MULTILINE)) | set(
        re.findall(rf"^{NUMBER}\. ", text, re.MULTILINE)
    )


def test_sections_of_methods_exist() -> None:
    places = cited(rf"[Mm]ethods §{NUMBER}")
    assert len(places) >= 8
    missing = {
        name: where for name, where in places.items() if name not in numbered(DOCS / "methods.md")
    }
    assert not missing, missing


def test_threats_exist() -> None:
    places = cited(rf"\b[Tt]hreat {NUMBER}\b")
    known = numbered(DOCS / "threats.md")
    missing = {name: where for name, where in places.items() if name not in known}
    assert not missing, missing


# The numbered sections of each paper, from its headings; S is R's supplement.
SECTIONS = {
    "T": "1 1.1 1.2 1.3 1.4 1.4.1 1.4.2 2 2.1 2.2 2.3 2.4 3 3.1 3.2 3.3 4 4.1 4.2 4.3 4.4 5",
    "C": "1 2 2.1 2.2 2.3 3 4 4.1 4.2 4.3 4.4 4.5 5 6",
    "R": "1 1.1 2 2.1 2.2 2.3 2.3.1 2.3.2 2.4 2.4.1 2.4.2 2.4.3 2.4.4 3 3.1 3.2 3.2.1 3.2.2 4",
    "R supplement": "1 2 3 4 5 6 7 7.1 7.2",
    "V": "1 2 2.1 2.2 3 3.1 3.2 3.3 3.4 4 4.1 4.2 4.3 5",
    "M": "1 1.1 1.1.1 1.2 1.2.1 1.2.2 1.2.3 2 2.1 2.2 2.2.1 2.2.2 2.2.3 2.2.4 2.2.5 2.2.6 3 3.1 "
    "3.2 3.3 3.4 3.5 3.6 3.7",
}


@pytest.mark.parametrize("paper", SECTIONS)
def test_sections_of_the_papers_exist(paper: str) -> None:
    places = cited(rf"(?<![\w§])\b{paper} §{NUMBER}")
    assert places
    known = SECTIONS[paper].split()
    missing = {name: where for name, where in places.items() if name not in known}
    assert not missing, missing


def test_named_documents_exist() -> None:
    places = cited(r"\bdocs/([A-Za-z0-9_/-]+(?:\.(?:md|svg|png|html|csv))?)")
    assert len(places) > 10
    decisions = {path.name[:3] for path in (DOCS / "decisions").glob("*.md")}
    missing = {}
    for name, where in places.items():
        folder, _, last = name.partition("/")
        if folder == "decisions" and re.match(r"\d{3}", last):
            known = last[:3] in decisions
        else:
            known = (DOCS / name).exists() or (DOCS / f"{name}.md").exists()
        if not known:
            missing[name] = where
    assert not missing, missing


def test_links_of_the_docs_lead_somewhere() -> None:
    for path in [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for address in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in address and not address.startswith("mailto:"):
                assert (path.parent / address).exists(), f"{path.relative_to(ROOT)}: {address}"
