"""The command line: `understudy COMMAND`. Each command is a small file beside this one."""

from __future__ import annotations

import sys
import warnings

import typer
from typer.core import TyperCommand

from understudy.cli.audit import audit
from understudy.cli.check import check
from understudy.cli.codebook import codebook
from understudy.cli.compare import compare
from understudy.cli.demo import demo
from understudy.cli.draw import draw
from understudy.cli.ledger import ledger
from understudy.cli.plan import PlanCommand, plan
from understudy.cli.release import release
from understudy.cli.risk import risk
from understudy.cli.serve import serve
from understudy.cli.study import study
from understudy.cli.tabulate import tabulate
from understudy.cli.user import user
from understudy.cli.utility import utility
from understudy.cli.verify import verify
from understudy.errors import Refused

WHOLE = "check that the file is whole"
WORKERS = "check that Spark's workers run and that the files are whole"
ENGINES = {"duckdb": WHOLE, "_duckdb": WHOLE, "pyspark": WORKERS, "py4j": WORKERS}

app = typer.Typer(
    name="understudy",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Publish what you may not show: synthetic survey data, tables, and exact privacy claims.",
)
for command in (
    demo,
    codebook,
    check,
    release,
    compare,
    draw,
    tabulate,
    risk,
    utility,
    audit,
    serve,
    plan,
    verify,
):
    kind = PlanCommand if command is plan else TyperCommand
    app.command(cls=kind, no_args_is_help=command is not demo)(command)
app.add_typer(user, name="user")
app.add_typer(ledger, name="ledger")
app.add_typer(study, name="study")


def version(show: bool) -> None:
    if show:
        from understudy.version import __version__

        typer.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: bool = typer.Option(
        False, "--version", callback=version, is_eager=True, help="Show the version and stop."
    ),
) -> None:
    """Options before the command."""


def run() -> None:
    """Entry point: a refusal is one sentence on stderr and exit code 2; so is a warning, and the
    command goes on."""
    warnings.showwarning = lambda said, *_: typer.echo(f"understudy: {said}", err=True)
    try:
        app()
    except Refused as refusal:
        typer.echo(f"understudy: {refusal}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        # A database's message may quote records; only its kind may be shown.
        advice = ENGINES.get(type(error).__module__.split(".")[0])
        if advice is None:
            raise
        typer.echo(
            f"understudy: The database could not read the data ({type(error).__name__}); {advice}.",
            err=True,
        )
        sys.exit(2)
