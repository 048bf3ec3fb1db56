"""`understudy serve`: the verification server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    config: Annotated[
        Path | None, typer.Argument(help="Configuration (TOML): ledger, data sets, caps.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve simulated data with two new users.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Where --demo keeps its files; a new folder by default.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", min=0, max=65535)] = None,
) -> None:
    """Serve data sets to analysts, who check their results against them.

    Put a proxy that speaks TLS in front before anyone else can reach it, and set https = true.
    SIGHUP reads the data sets of the configuration anew: what is new or changed is opened, what is
    no longer named is retired, and questions under way end with what they began.

    Example: understudy serve server.toml
    """
    from dataclasses import replace

    from rich.console import Console

    from understudy.errors import Refused
    from understudy.verify.config import read_config
    from understudy.web.run import run_server

    if demo == (config is not None):
        raise Refused("Name a configuration or use --demo, one of the two.")
    console = Console(stderr=True)
    notice = ""
    if demo:
        config, notice = _demonstration(folder)
    settings = read_config(config or Path())
    settings = replace(
        settings, host=host or settings.host, port=settings.port if port is None else port
    )
    with console.status("Opening") as status:
        server = run_server(settings, notice, status.update, lambda: read_config(config or Path()))
    typer.echo(f"Serving {', '.join(settings.datasets)} at {server.url} (Ctrl+C ends it)")
    server.serve()


def _demonstration(folder: Path | None) -> tuple[Path, str]:
    import tempfile

    from rich.console import Console

    from understudy.demo.server import NOTICE, demonstration

    files = folder or Path(tempfile.mkdtemp(prefix="understudy-demo-")) / "server"
    with Console(stderr=True).status("Preparing") as status:
        made = demonstration(files, say=status.update)
    typer.echo(NOTICE)
    typer.echo(f"Files:       {files}")
    typer.echo(f"Analyst key: {made.analyst_key}")
    typer.echo(f"Steward key: {made.steward_key}")
    return made.config, NOTICE
