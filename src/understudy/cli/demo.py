"""`understudy demo`: the whole story on a simulated survey."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("demo-out"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the formal release.")] = 3.0,
    datasets: Annotated[int, typer.Option(help="Number of synthetic data sets.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the simulated survey.")] = 1,
) -> None:
    """Publish a simulated survey twice, compare, and check a result on a server of its own.

    Example: understudy demo --out demo-out --epsilon 3
    """
    from understudy.cli.show import show_table
    from understudy.demo.demonstration import demonstrate

    made = demonstrate(out, epsilon, datasets, seed, typer.echo)
    show_table(made.compared, title="\nConfidential and released, by margin (internal)")
    show_table(made.comparison, title="The two releases (internal)")
    errors = made.comparison["error"].to_list()
    typer.echo(
        f"\n{made.claim}\n\n"
        f"{out}/formal, {out}/asymptotic: the releases; open report.html (internal) and "
        "public.html in each.\n"
        f"{out}/formal/public.zip: what may be published.\n"
        f"{out}/internal: the confidential files, the ledger and comparison.svg.\n"
        f"{out}/plan.svg: what the verification could have said.\n\n"
        f"What it shows: the formal release at epsilon {epsilon:g} keeps the tables within "
        f"{errors[0]:.1f} standard errors (root mean square), the asymptotic one at 10.8 within "
        f"{errors[1]:.1f}.\n"
        "An analyst who never saw a confidential record learned from the server, for epsilon 1, "
        "what the sentence above says; averaged over the results that the plan assumes, such an "
        f"answer is right with probability {made.says_right:.2f}.\n"
        f"One ledger holds epsilon {made.spent} spent on these records: both releases, counted "
        "under `replace`, and the verification."
    )
