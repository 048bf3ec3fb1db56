"""docs/papers.md leaves nothing of the papers out, and names only what exists."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
SOURCES = {
    DOCS.parent / "src" / "understudy",
    DOCS.parent / "studies" / "src" / "understudy_studies",
}
STUDIES = tomllib.loads((DOCS.parent / "studies" / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (DOCS / "papers.md").read_text(encoding="utf-8")

# What each paper numbers, supplements included, as counted in its text; in brackets the place of
# the last one. S is R's supplement, whose numbers start again.
PUBLISHED = {
    "T": {"Eq.": 19, "Def.": 3, "Table": 5, "Fig.": 17},  # (Figure 17, end of supplement F)
    "C": {"Eq.": 6, "Def.": 3, "Table": 3, "Fig.": 24},  # (Figure 24, end of supplement 4)
    "R": {
        **{"Eq.": 10, "Alg.": 1, "Table": 7, "Fig.": 10},  # (Table 7, §3.2.2)
        **{"S eq.": 10, "S alg.": 1, "S table": 3, "S fig.": 7},  # (S Figure 7, end of §7.2)
    },
    "V": {"Eq.": 8, "Def.": 1, "Fig.": 5},  # (Figure 5, §5)
    "M": {"Eq.": 3, "Table": 1, "Fig.": 3},  # (Figure 3.2, end of chapter 3, before page 19)
}
# Numbers that do not run 1, 2, 3, ...
OWN_NUMBERS = {
    ("C", "Eq."): ["1.1", "1.2", "2.3", "2.4", "3.5", "3.6"],
    ("M", "Eq."): ["3.1", "3.2", "3.3"],
    ("M", "Table"): ["3.1"],
    ("M", "Fig."): ["2.1", "3.1", "3.2"],
}
UNNUMBERED = ("§", "App. ", "Supp. ")
STATE = re.compile(r"reproduced|(differs|not attempted): \S.*\.")
LINK = re.compile(r'\[([^\]]+)\]\(([^) ]+)(?: "[^"]*")?\)')

Row = tuple[str, str, str, str, str]  # where, what, code, check, state


def sections() -> dict[str, str]:
    parts = re.split(r"^## (\w): .*$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(section: str) -> list[Row]:
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    table = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]
    assert {len(row) for row in table} == {5}, [row for row in table if len(row) != 5]
    return [(where, what, code, check, state) for where, what, code, check, state in table]


ROWS = {paper: rows(section) for paper, section in sections().items()}


@lru_cache
def names_of(path: Path) -> frozenset[str]:
    """Functions, classes, methods as `Class.method`, and module constants of one file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    defined = {node.name for node in named}
    for node in named:
        if isinstance(node, ast.ClassDef):
            inside = (n for n in node.body if isinstance(n, ast.FunctionDef))
            defined |= {f"{node.name}.{n.name}" for n in inside}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(defined)


def cited(cell: str) -> list[tuple[str, str, list[str]]]:
    """(text, address, names behind it) of every link in a cell."""
    parts = LINK.split(cell)  # text, then a link's text, its address, what follows it, ...
    return [
        (text, address, re.findall(r"`([\w.]+)`", after))
        for text, address, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    ]


@pytest.mark.parametrize("paper", PUBLISHED)
def test_every_numbered_thing_has_one_row(paper: str) -> None:
    numbers = [row[0] for row in ROWS[paper] if not row[0].startswith(UNNUMBERED)]
    expected = [
        f"{kind} {number}"
        for kind, count in PUBLISHED[paper].items()
        for number in OWN_NUMBERS.get((paper, kind), range(1, count + 1))
    ]
    assert len(expected) == sum(PUBLISHED[paper].values())
    assert Counter(numbers) == Counter(expected)


def test_the_page_has_the_five_papers() -> None:
    assert list(ROWS) == list(PUBLISHED)


@pytest.mark.parametrize("paper", PUBLISHED)
def test_files_and_functions_exist(paper: str) -> None:
    for where, _, code, check, state in ROWS[paper]:
        tried = state.startswith("not attempted")
        assert tried or LINK.search(code), f"{paper} {where} names no code"
        assert tried or check == "study" or LINK.search(check), f"{paper} {where} has no check"
        for text, address, names in [*cited(code), *cited(check)]:
            path = (DOCS / address).resolve()
            assert path.is_file(), f"{paper} {where}: {address}"
            assert path.as_posix().endswith(f"/{text}"), f"{paper} {where}: {text} is not {address}"
            missing = [name for name in names if name not in names_of(path)]
            assert not missing, f"{paper} {where}: {text} has no {missing}"
        for _, address, names in cited(code):
            parents = set((DOCS / address).resolve().parents)
            assert SOURCES & parents, f"{paper} {where}: {address}"
            assert names, f"{paper} {where} names no function of {address}"


@pytest.mark.parametrize("paper", PUBLISHED)
def test_states_are_one_of_three(paper: str) -> None:
    for where, _, _, _, state in ROWS[paper]:
        assert STATE.fullmatch(state), f"{paper} {where}: {state}"
        assert not re.search(r"\. [A-Z]", state), f"{paper} {where}: one sentence is enough"


def test_studies_are_commands() -> None:
    commands = STUDIES["project"]["entry-points"]["understudy.studies"]
    for paper, section in sections().items():
        named = re.findall(r"^Study: `understudy study (.+)`\.$", section, re.MULTILINE)
        assert len(named) == 1, f"{paper} names no study"
        assert named[0] in commands


@pytest.mark.parametrize("page", ["papers.md", "studies.md"])
def test_links_lead_somewhere(page: str) -> None:
    for text, address in LINK.findall((DOCS / page).read_text(encoding="utf-8")):
        not_run = text == "–" and address.startswith("results/")  # scripts/write_reference.py
        assert not_run or (DOCS / address.partition("#")[0]).exists(), address
