"""Write what derives from the code: docs/recipe.md, docs/commands.md, docs/server.md, and as stubs
the public names with their types and the names of families of regressions; and in docs/papers.md
and docs/studies.md the figures that they cite from docs/results.
Run `python scripts/write_reference.py`.

A test compares the files with what this script would write.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from pathlib import Path
from typing import Any

import typer.main
from pydantic.fields import FieldInfo

from understudy.cli.main import app
from understudy.cli.plan import PlanCommand
from understudy.declarations import Setting, settings_of
from understudy.release.model_part import all_models, model_settings
from understudy.release.parts import all_mechanisms
from understudy.release.recipe_sections import REQUIRED, SECTIONS
from understudy.release.recipe_values import kind_of
from understudy.survey.engine_setting import Engine
from understudy.tables.family import Family, LinkFamily, families
from understudy.verify.config import DatasetConfig, ServerConfig

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "understudy"
CITED = re.compile(r'\[([^]]*)\]\((results/[^ )]+) "([^":]+):(\d) where ([^"]+)"\)')
WRITTEN = "# Written from the code by scripts/write_reference.py."


def recipe_page() -> str:
    lines = [
        "# The recipe: release.toml",
        "",
        "Written from the code by `scripts/write_reference.py`. Paths are relative to the recipe;",
        "all mistakes are reported at once, with their lines. [Examples](../examples) are in the",
        "repository; `understudy release release.toml --dry-run` says what a recipe will do.",
        "",
    ]
    for section, keys in SECTIONS.items():
        needed = section in REQUIRED
        heading = f"## [{section}]{'' if needed else ' (optional)'}"
        lines += [heading, "", *_keys(settings_of(keys)), ""]
        if section == "synthesis":
            lines += ["Further keys, by model:", ""]
            models = all_models().items()
            lines += _owners({name: model_settings(cls) for name, cls in models})
        if section == "privacy":
            lines += ["Further keys, by mechanism:", ""]
            mechanisms = all_mechanisms().items()
            lines += _owners({name: settings_of(cls) for name, cls in mechanisms})
    lines += [
        '## [[given]] (optional, after model = "Multinomial")',
        "",
        "A regression of numbers on the synthetic categories: `model`, `sensitive`, `predictors`,",
        "the model's further keys, and `privacy = { mechanism = ..., epsilon = ... }`.",
        "",
    ]
    return "\n".join(lines)


def commands_page() -> str:
    lines = [
        "# Commands",
        "",
        "Written from the code by `scripts/write_reference.py`. Every command ends with exit 0, or",
        "with one clear sentence and exit 2.",
        "",
    ]
    group: Any = typer.main.get_command(app)
    for name, command in _commands("understudy", group):
        if isinstance(command, PlanCommand):
            command.fill_in_help()
        lines += [f"## {name}", "", *_paragraphs(command.help or ""), ""]
        rows = [_parameter(p) for p in command.params if p.name != "help"]
        if rows:
            lines += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def server_page() -> str:
    lines = [
        "# The configuration of a server: server.toml",
        "",
        "Written from the code by `scripts/write_reference.py`. Paths are relative to the file;",
        "all mistakes are reported at once, with their lines. The [tutorial](tutorials/server.md)",
        "has an example.",
        "",
        *_keys(settings_of(ServerConfig)),
        "",
        "## [engine]",
        "",
        *_keys(settings_of(Engine)),
        "",
        "## [datasets.NAME], for each data set",
        "",
        *_keys(settings_of(DatasetConfig)),
        "",
    ]
    return "\n".join(lines)


def _commands(prefix: str, group: Any) -> list[tuple[str, Any]]:
    listed = []
    for name, command in _named(group):
        full = f"{prefix} {name}"
        listed += _commands(full, command) if hasattr(command, "commands") else [(full, command)]
    return listed


def _named(group: Any) -> list[tuple[str, Any]]:
    """Commands in the order of their definition; of `study`, those that are installed."""
    names = list(group.commands) or group.list_commands(None)
    return [(name, group.get_command(None, name)) for name in names]


def _paragraphs(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{(parameter.name or '').upper()}`"
    else:
        name = ", ".join(f"`{option}`" for option in parameter.opts)
    default = parameter.default
    shown = "" if default in (None, False, "", ()) or callable(default) else f" Default: {default}."
    return f"| {name} | {_cell(getattr(parameter, 'help', '') or '')}{_cell(shown)} |"


def _keys(keys: dict[str, Setting]) -> list[str]:
    rows = ["| key | kind | meaning |", "|---|---|---|"]
    for name, key in keys.items():
        words = key.meaning + (" Required." if key.required else "")
        if key.default not in (None, (), "") and not isinstance(key.default, FieldInfo):
            default = str(key.default).lower() if isinstance(key.default, bool) else key.default
            default = f"{default:.3g}" if isinstance(default, float) else default
            words += f" Default: {default}."
        rows.append(f"| `{name}` | {kind_of(key)} | {_cell(words)} |")
    return rows


def _owners(table: dict[str, dict[str, Setting]]) -> list[str]:
    lines = []
    for owner, keys in table.items():
        lines += [f"### {owner}", ""]
        lines += [*_keys(keys), ""] if keys else ["No further keys.", ""]
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def public_names() -> str:
    """The stub of the package: every public name, from where it lives, under its public name."""
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(("understudy", *path.relative_to(SOURCE).with_suffix("").parts))
        for entry in _public_names_of(path):
            own_name, _, public = entry.partition(" as ")
            names[public or own_name] = (module, own_name)
    for cls in (*all_models().values(), *all_mechanisms().values()):
        names[cls.__name__] = (cls.__module__, cls.__name__)
    lines = [f"from {home} import {own} as {name}" for name, (home, own) in names.items()]
    heading = f"{WRITTEN}\n# ruff: noqa: RUF022"
    listed = [f'    "{name}",' for name in sorted(names)]
    return "\n".join([heading, *sorted(lines), "", "__all__ = [", *listed, "]", ""])


def family_names() -> str:
    """The stub of the families of regressions: their names, as types."""
    names = {"FamilyName": families(Family), "LinkFamilyName": families(LinkFamily)}
    lines = [f"{name} = Literal[{json.dumps(list(known))[1:-1]}]" for name, known in names.items()]
    return "\n".join([WRITTEN, "from typing import Literal", "", *lines, ""])


def _public_names_of(path: Path) -> tuple[str, ...]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__public__" for target in targets):
            return tuple(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return ()


def papers_page() -> str:
    """docs/papers.md with every cited figure as docs/results has it."""
    return _with_figures("papers.md")


def studies_page() -> str:
    """docs/studies.md, in the same way."""
    return _with_figures("studies.md")


def _with_figures(name: str) -> str:
    """A figure of ours is a link, `[.948](results/STUDY/FILE.csv "COLUMN:DIGITS where KEY=VALUE;
    ...")`; a dash stands for it until the run is kept."""
    return CITED.sub(_figure, (ROOT / "docs" / name).read_text(encoding="utf-8"))


def _figure(link: re.Match[str]) -> str:
    text, file, column, digits, where = link.groups()
    path = ROOT / "docs" / file
    figure = "–"
    if path.exists():
        with path.open(encoding="utf-8", newline="") as opened:
            rows = list(csv.DictReader(opened))
        keys = dict(part.split("=", 1) for part in where.split("; "))
        values = [row[column] for row in rows if all(_same(row[k], v) for k, v in keys.items())]
        if len(values) != 1:
            raise ValueError(f"{len(values)} lines of {file} have {where}")
        figure = f"{float(values[0]):.{digits}f}"
        figure = figure.removeprefix("0") if digits != "0" else figure
    return link.group().replace(f"[{text}]", f"[{figure}]", 1)


def _same(cell: str, wanted: str) -> bool:
    try:
        return float(cell) == float(wanted)
    except ValueError:
        return cell == wanted


PAGES = {
    "docs/papers.md": papers_page,
    "docs/studies.md": studies_page,
    "docs/recipe.md": recipe_page,
    "docs/commands.md": commands_page,
    "docs/server.md": server_page,
    "src/understudy/__init__.pyi": public_names,
    "src/understudy/tables/families/__init__.pyi": family_names,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
