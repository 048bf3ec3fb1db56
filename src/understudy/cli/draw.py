"""`understudy draw`: further records from the published tables of a release, at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def draw(
    release: Annotated[
        Path, typer.Argument(help="Folder of a release of whole files, or its public.zip.")
    ],
    size: Annotated[int, typer.Option(help="Records in each further file.")],
    out: Annotated[Path, typer.Option(help="A new folder for the files.")],
    where: Annotated[str, typer.Option(help='All records meet this condition: "age > 64".')] = "",
) -> None:
    """Further files of a release of whole files, from the noisy tables that it published.

    This costs nothing in privacy: no confidential record is read. There is one file from each set
    of tables; `us.open_release` opens the folder, and tables of it have the right errors.

    Example: understudy draw public.zip --size 100000 --where "age > 64" --out older
    """
    from understudy.release.further import write_further
    from understudy.release.open import open_release

    opened = open_release(release)
    files = write_further(opened, opened.draw(size, where or None), out, where)
    noun = "file" if len(files) == 1 else "files"
    typer.echo(
        f"{len(files)} {noun} of {size:,} records, one from each set of tables: {out}/synthetic.\n"
        f'Open them with us.open_release("{out}"): tables average the files of a set before they '
        "combine the sets. The claim of the release holds for them too; nothing was spent."
    )
