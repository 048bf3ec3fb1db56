"""`understudy release`: one recipe in, a whole release out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def release(
    recipe: Annotated[Path, typer.Argument(help="The recipe, such as release.toml.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the release, instead of the recipe's own.")
    ] = None,
    accept: Annotated[
        str, typer.Option(help="Why a release is made although its verdict is red.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and claimed, and stop.")
    ] = False,
) -> None:
    """Make a release: synthetic files, table, claim, reports.

    If it is killed, running it again resumes it.

    Example: understudy release release.toml --dry-run
    """
    from understudy.release.recipe import read_recipe

    asked = read_recipe(recipe)
    if dry_run:
        from understudy.release.check import check_records
        from understudy.release.forecast import forecast
        from understudy.release.inside import prepare

        inside = prepare(asked)
        check_records(inside)
        for line in forecast(inside, out):
            typer.echo(line)
        return
    from understudy.claim import Claim
    from understudy.drawing import INTERNAL
    from understudy.release.publish import publish

    folder = publish(asked, out, say=typer.echo, accept=accept)
    evidence = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    claim = Claim.from_json((folder / "claim.json").read_text(encoding="utf-8"))
    typer.echo(f"\n{claim}\n\n{evidence['summary'][0]} ({INTERNAL})\n")
    typer.echo(
        f"{folder}/public.zip: what may be published (public.html says how to use it).\n"
        f"{folder}/report.html: for the review board, not for the public.\n"
        f"{folder}/manifest.json: seed, versions and checksums; keep it secret."
    )
