"""`understudy check`: whether the records are ready for a release; for the data holder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    recipe: Annotated[Path, typer.Argument(help="The recipe, such as release.toml.")],
) -> None:
    """Check a recipe and its records, without spending: what `release` would refuse.

    The answer looks at confidential values and is for the data holder alone.

    Example: understudy check release.toml
    """
    from understudy.drawing import INTERNAL
    from understudy.release.check import check_records
    from understudy.release.inside import prepare
    from understudy.release.recipe import read_recipe

    check_records(prepare(read_recipe(recipe)))
    typer.echo(f"The records are ready for the release that the recipe asks for ({INTERNAL}).")
