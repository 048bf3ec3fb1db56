"""`understudy codebook`: draft the codebook of a survey file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.survey.codebook import FACTS
from understudy.survey.file_format import endings_read, listed

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook, Column

SHOWN_LEVELS = 8
SHOWN_COLUMNS = 200


def codebook(
    file: Annotated[Path, typer.Argument(help=f"Survey file ({listed(endings_read())}).")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write it; FILE.codebook.toml beside the file. As a spreadsheet if it "
            "ends in .xlsx or .csv."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Facts to take over: a spreadsheet that was written so, a DDI document (.xml), or "
            "a Stata, SPSS or SAS file with labels.",
        ),
    ] = None,
    design: Annotated[
        str, typer.Option(help="weight=w,strata=h,psu=p,fpc=f,nest=true,replicates=PREFIX:kind")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a codebook that exists.")] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Keep a codebook that exists, and draft what it lacks.")
    ] = False,
) -> None:
    """Draft a codebook: the role, type, levels or bounds, missing codes and rounding of every
    column.

    Whatever is read off the data is marked as drafted; a formal privacy claim rests only on
    facts that you have confirmed. Example: understudy codebook sdr.sav --design
    weight=w,strata=field
    """
    from understudy.cli.options import parse_design
    from understudy.errors import Refused
    from understudy.survey.codebook import Codebook, read_codebook
    from understudy.survey.codebook_import import described
    from understudy.survey.codebook_sheet import ENDINGS, write_sheet
    from understudy.survey.codebook_text import codebook_beside, codebook_to_toml, updated_toml
    from understudy.survey.draft import draft_codebook
    from understudy.survey.read import read_survey
    from understudy.survey.write import with_rename

    target = out or codebook_beside(file)
    as_sheet = target.suffix.lower() in ENDINGS
    if as_sheet and merge:
        raise Refused("A spreadsheet is not merged into; use --from to take its facts over.")
    if target.exists() and not (force or merge):
        raise Refused(
            f"`{target}` exists already; --merge keeps it and adds what it lacks, --force replaces "
            "it, --out writes elsewhere."
        )
    if out is not None and not target.parent.is_dir():
        raise Refused(f"There is no folder `{target.parent}` to write into; create it first.")
    # With an empty codebook the one beside a CSV file is not read: it is being replaced.
    kept = read_codebook(target) if merge and target.exists() else Codebook()
    survey = read_survey(file, parse_design(design), kept)
    declared = survey.codebook if source is None else described(survey, kept, source)
    rest = [name for name in survey.columns if name not in declared]
    drafted = draft_codebook(survey.raw.select(rest), survey.design) if rest else Codebook()
    columns = {**declared.columns, **drafted.columns}
    whole = replace(declared, columns={name: columns[name] for name in survey.columns})
    text = codebook_to_toml(whole)
    if merge and target.exists():
        text = updated_toml(target.read_text(encoding="utf-8-sig"), whole)
    if as_sheet:
        write_sheet(whole, target)
    else:
        with_rename(target, lambda part: _write(part, text))
    _show(whole, title=f"{file.name}: {survey.n:,} records, {len(survey.columns)} columns")
    to_check = sum(len(column.drafted) for column in whole)
    typer.echo(f"Written to {target}")
    use = f"--codebook {target}"
    if as_sheet:
        use = f"a codebook once `understudy codebook {file.name} --from {target}` has read it"
    typer.echo(
        f"Next: check the {to_check} drafted facts against public documents, set the role of what "
        "is public, and take every fact that you have confirmed off its column's `drafted` list. "
        f"Other commands take it as {use}."
    )


def _write(part: Path, text: str) -> None:
    part.write_text(text, encoding="utf-8")


def _show(codebook: Codebook, title: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    for heading in ("column", "role", "type", "levels or bounds", "drafted", "label"):
        table.add_column(heading)
    for column in list(codebook)[:SHOWN_COLUMNS]:
        drafted = ", ".join(fact for fact in FACTS if fact in column.drafted)
        cells = (column.name, column.role, column.type, _range(column), drafted or "-")
        # As plain texts: names and levels may contain what rich takes for markup.
        table.add_row(*map(Text, (*cells, column.label)))
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)
    if len(codebook.columns) > SHOWN_COLUMNS:
        console.print(f"... and {len(codebook.columns) - SHOWN_COLUMNS} more columns in the file.")


def _range(column: Column) -> str:
    if column.levels is not None:
        texts = [
            f"{level} {column.value_labels.get(level, '')}".strip()
            for level in column.levels[:SHOWN_LEVELS]
        ]
        # levels may have commas themselves
        between = "; " if any("," in text for text in texts) else ", "
        more = len(column.levels) - SHOWN_LEVELS
        return between.join([*texts, f"and {more} more"] if more > 0 else texts)
    if column.bounds is None:
        return "-"
    low, high = column.bounds
    parts = [f"{low:.10g} to {high:.10g}"]
    if column.rounding is not None:
        parts.append(f"in steps of {column.rounding:g}")
    if column.special:
        parts.append(f"special {', '.join(f'{value:g}' for value in column.special)}")
    if column.missing:
        parts.append(f"missing {', '.join(map(str, column.missing))}")
    return "; ".join(parts)
