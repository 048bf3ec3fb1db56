"""A model, mechanism, statistic, measure, estimator or format is known from its own file alone.

No other file of the package names one of them in its code: neither in a table, nor in a comparison
of names, nor by `isinstance`. Texts that speak of several (docstrings, refusals) do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "understudy"
FOLDERS = (
    "models",
    "mechanisms",
    "survey/formats",
    "tables/statistics",
    "risk/measures",
    "verify/measures",
    "verify/estimators",
)
BASES = {"contract.py", "__init__.py"}
SHARED = "outputs"  # what mechanisms hand out: a closed set, which they share
# Parts that use one of them for what it is, and would not have to know of another one.
USES = {
    "demo": "the demonstration makes releases with the mechanisms that it chose",
    "audit": "an attack is written for the mechanism that it attacks",
    "mechanisms/laplace_table.py": "noise on counts and means, as its sensitivities are proved",
    "survey/file_format.py": "every release has Parquet files",
    "survey/labelled/write.py": "its refusals say what the format cannot hold",
    "release/model_part.py": "a NumPyro function of the steward's own is wrapped in this model",
}


def classes() -> dict[str, str]:
    """{class: its file} of the complete classes with their base in the same kind."""
    homes = {}
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            if path.name in BASES or path.parent.name == SHARED:
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and node.bases and not _abstract(node):
                    homes[node.name] = str(path.relative_to(SOURCE))
    return homes


def _abstract(node: ast.ClassDef) -> bool:
    return node.name.startswith("_") or any(word.arg == "abstract" for word in node.keywords)


def named_in(text: str) -> Iterator[tuple[int, str]]:
    """Names in the code, imports and texts that are nothing but a name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_nothing_is_listed_a_second_time() -> None:
    homes = classes()
    assert {"FBS", "Modips", "Stata", "Quantile", "MeanEstimator", "Agreement"} <= set(homes)
    listed = []
    for path in sorted(SOURCE.rglob("*.py")):
        where = str(path.relative_to(SOURCE))
        if any(where.startswith(part) for part in USES):
            continue
        for line, name in named_in(path.read_text(encoding="utf-8")):
            home = homes.get(name)
            if home is not None and Path(home).parent != Path(where).parent:
                listed.append(f"{where}:{line} {name}")
    assert not listed, listed


def test_a_second_list_is_seen() -> None:
    text = 'from a import Modips\nPRICES = {"Weighted": 1}\nisinstance(x, Marginals)\n'
    assert {"Modips", "Weighted", "Marginals"} <= {name for _, name in named_in(text)}
