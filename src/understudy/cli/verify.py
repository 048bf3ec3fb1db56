"""`understudy verify`: ask a verification server, after seeing the price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

KEY_VARIABLE = "UNDERSTUDY_KEY"


def verify(
    question: Annotated[
        Path, typer.Argument(help="The question as JSON; `-` reads it from standard input.")
    ],
    server: Annotated[str, typer.Option(help="Address of the server.")] = "http://127.0.0.1:8080",
    key: Annotated[
        str, typer.Option(envvar=KEY_VARIABLE, help="Your key; better set as the variable.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Spend without asking again.")] = False,
    price_only: Annotated[bool, typer.Option("--price", help="Show the price and stop.")] = False,
    receipt: Annotated[Path | None, typer.Option(help="Write the receipt here (JSON).")] = None,
) -> None:
    """Check estimates against the confidential data, at a price that is shown first.

    The question has dataset, estimator, variable, tolerance and epsilon, such as
    {"dataset": "doctorates", "estimator": "mean", "variable": "salary",
    "tolerance": {"value": 2}, "epsilon": "0.5"}. With "by": ["field"] every cell of a table is
    asked for at the one price, and a regression without "coefficient" gives all of them; a "delta"
    makes the noise Gaussian.

    Example: understudy verify question.json --server http://127.0.0.1:8080
    """
    from understudy.errors import Refused
    from understudy.verify.client import Client

    if not key:
        raise Refused(f"Give your key in the environment variable {KEY_VARIABLE}.")
    asked = read_question(question)
    client = Client(server, key)
    quote = client.price(asked)
    typer.echo(
        f"Price: epsilon {'0 (asked before)' if quote['free'] else quote['epsilon']}. Left: "
        f"{quote['left']} of your budget."
    )
    if len(quote["synthetic"]["others"]):
        show_errors(client.plan(asked)["errors"])
    if price_only:
        return
    if not yes and not quote["free"]:
        typer.confirm("Spend it?", abort=True)
    answer = client.verify(asked)
    if receipt is not None:
        receipt.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    if answer["numbers"]:
        show_numbers(answer["numbers"])
    typer.echo(answer["sentence"])
    typer.echo(f"What it cannot say: {answer['cannot']}")
    typer.echo(f"Receipt {answer['receipt']}.")


def show_errors(rows: list[dict[str, Any]]) -> None:
    """Error against epsilon, in standard errors of each number."""
    import polars as pl

    from understudy.cli.show import show_table

    ratio = (pl.col("error") / pl.col("sampling_se")).alias("off")
    table = pl.DataFrame(rows).select("statistic", "released", "sampling_se", "epsilon", ratio)
    wide = table.pivot(on="epsilon", index=["statistic", "released", "sampling_se"], values="off")
    show_table(wide, title="Expected error of each difference, in standard errors, by epsilon")


def show_numbers(rows: list[dict[str, Any]]) -> None:
    """Every number of an answer about several."""
    import polars as pl

    from understudy.cli.show import show_table

    columns = ["name", "released", "difference", "probability_within", "corrected", "corrected_se"]
    show_table(pl.DataFrame(rows).select(columns), title="The corrected ones are to publish")


def read_question(path: Path) -> dict[str, Any]:
    """The question in a file; the server, which knows its estimators and measures, checks it."""
    import sys

    from understudy.errors import Refused

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Refused(f"There is no question at `{path}`; check the path.") from None
    except (OSError, UnicodeDecodeError):
        raise Refused(f"The question `{path}` cannot be read as text.") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Refused(
            f"The question `{path}` is not a JSON object; write it in braces, such as "
            '{"dataset": "doctorates", ...}.'
        )
    return document
