"""A model, mechanism, statistic, measure, estimator or format is known from its own file alone.

No other file of the package names one of their classes in its code: neither in a table, nor in a
comparison of names, nor by `isinstance`. Nor does it list, or compare one after the other, the
names by which users call them (`name`, endings). Texts that speak of several (docstrings, refusals)
do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from parsed_source import nodes_of, tree_of

SOURCE = Path(__file__).resolve().parents[2] / "src" / "understudy"
FOLDERS = (
    "models",
    "mechanisms",
    "survey/formats",
    "tables/statistics",
    "tables/families",
    "tables/influence/equations",
    "risk/measures",
    "verify/measures",
    "verify/estimators",
    "audit/attacks",
)
BASES = {"contract.py", "__init__.py"}
SHARED = "outputs"  # what mechanisms hand out: a closed set, which they share
# Parts that use one of them for what it is, and would not have to know of another one.
USES = {
    "demo": "the demonstration makes releases with the mechanisms that it chose",
    "audit": "an attack is written for the mechanism that it attacks, on cells of `Multinomial`",
    "verify/estimators": "an estimator of a regression names its family",
    "tables/statistic": "a statistic names its estimating equation",
    "tables/influence/ask.py": "a formula asks for the one equation of all families",
    "verify/regression_fields.py": "as the server's regressions do",
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
            for node in tree_of(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and node.bases and not _abstract(node):
                    homes[node.name] = str(path.relative_to(SOURCE))
    return homes


def _abstract(node: ast.ClassDef) -> bool:
    return node.name.startswith("_") or any(word.arg == "abstract" for word in node.keywords)


def named_in(text: str) -> Iterator[tuple[int, str]]:
    """Names in the code, imports and texts that are nothing but a name."""
    for node in nodes_of(text):
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


# Words that happen to be names of two things of a kind.
WORDS = {
    "cli/show.py": "a table on the terminal is written by Polars, not by a survey's format",
    "utility/bootstrap.py": "means and medians of arrays, not of a survey",
    "utility/estimates.py": "the same",
    "utility/summary.py": "the same",
    "risk/assessment.py": "columns of a table of risks",
    "report/internal_protection.py": "the same",
}


def called(folder: str) -> set[str]:
    """The names by which users call the things of a kind: `name`, endings, classes."""
    names = set()
    for path in sorted((SOURCE / folder).rglob("*.py")):
        for node in nodes_of(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.ClassDef) and node.bases:
                names.add(node.name)
                for line in node.body:
                    targets = line.targets if isinstance(line, ast.Assign) else []
                    if any(getattr(t, "id", "") in ("name", "endings", "written") for t in targets):
                        names |= set(_texts(ast.walk(line)))
    return {_plain(name) for name in names}


def listed_in(text: str) -> Iterator[tuple[int, set[str]]]:
    """What stands in one table, or is compared with one after the other, by line."""
    compared: dict[str, tuple[int, set[str]]] = {}
    for node in nodes_of(text):
        if isinstance(node, ast.Dict):
            yield node.lineno, set(_texts(node.keys))
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield node.lineno, set(_texts(node.elts))
        elif isinstance(node, ast.Match):
            patterns = (part for case in node.cases for part in ast.walk(case.pattern))
            yield node.lineno, set(_texts(patterns))
        elif isinstance(node, ast.Compare):
            _, names = compared.setdefault(ast.unparse(node.left), (node.lineno, set()))
            names |= set(_texts(node.comparators))
    yield from compared.values()


def _texts(nodes: Iterable[ast.AST | None]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _plain(node.value)


def _plain(name: str) -> str:
    return name.removeprefix(".").lower()


def test_names_that_users_call_are_not_listed_either() -> None:
    kinds = {folder: called(folder) for folder in FOLDERS}
    assert {"perturbed-histogram"} < kinds["audit/attacks"]
    assert {"dta", "parquet"} < kinds["survey/formats"]
    seen, excused = [], set()
    for path in sorted(SOURCE.rglob("*.py")):
        where = str(path.relative_to(SOURCE))
        for line, texts in listed_in(path.read_text(encoding="utf-8")):
            for folder, names in kinds.items():
                if len(texts & names) < 2 or where.startswith(folder):
                    continue
                if where in WORDS:
                    excused.add(where)
                else:
                    seen.append(f"{where}:{line} {sorted(texts & names)}")
    assert not seen, seen
    assert excused == set(WORDS), "an excuse that nobody needs"


def test_every_use_is_needed() -> None:
    homes = classes()
    for part in USES:
        paths = [p for p in SOURCE.rglob("*.py") if str(p.relative_to(SOURCE)).startswith(part)]
        assert any(
            Path(homes[name]).parent != path.relative_to(SOURCE).parent
            for path in paths
            for _, name in named_in(path.read_text(encoding="utf-8"))
            if name in homes
        ), part


def test_a_second_list_is_seen() -> None:
    text = 'from a import Modips\nPRICES = {"Weighted": 1}\nisinstance(x, Marginals)\n'
    assert {"Modips", "Weighted", "Marginals"} <= {name for _, name in named_in(text)}
    text = (
        'AUDITED = ("censored", "marginals")\n'
        'if kind == "csv":\n    x = 1\nelif kind == "dta":\n    x = 2\n'
        'PRICES = {"agreement": 1, "influence": 2}\n'
    )
    lists = [names for _, names in listed_in(text)]
    for folder in ("audit/attacks", "survey/formats", "verify/measures"):
        assert any(len(names & called(folder)) == 2 for names in lists), folder
