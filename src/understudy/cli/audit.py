"""`understudy audit MECHANISM`: does the promise hold, and would we notice if it did not?"""

from __future__ import annotations

from typing import Annotated

import typer


def audit(
    mechanism: Annotated[
        str,
        typer.Argument(
            help="The attack: censored, modips-public, marginals-units or another that --list "
            "names; or all."
        ),
    ] = "all",
    epsilon: Annotated[float, typer.Option(help="The epsilon that is asked for.")] = 1.0,
    trials: Annotated[
        int | None, typer.Option(help="Simulations on each database; a fast number by default.")
    ] = None,
    mutant: Annotated[
        str | None, typer.Option(help="Plant this error, or `every` error, and see it caught.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws; noise from OpenDP has none.")] = 1,
    show: Annotated[
        bool, typer.Option("--list", help="Name the attacks and the errors that can be planted.")
    ] = False,
) -> None:
    """Lower bounds on epsilon from simulations on worst-case neighbouring databases.

    A sound mechanism stays at or below its claim and above 0.9 of it. Exit 2 otherwise, or
    when a planted mutant is not caught. modips-observed is there to be seen broken: it leaks who
    is alone in a cell, and its claim says so.

    Example: understudy audit censored --mutant clip-missing
    """
    from rich.console import Console

    from understudy.audit.attack import attack_named, attacks
    from understudy.audit.audit import audit as run_audit
    from understudy.audit.audit import audit_table
    from understudy.errors import Refused

    if show:
        for known in attacks().values():
            typer.echo(f"{known.name}: {', '.join(known.mutants) or 'leaks as it is'}")
        return
    names = tuple(attacks()) if mechanism == "all" else (mechanism,)
    if mechanism == "all" and mutant not in (None, "every"):
        names = tuple(name for name in names if mutant in attacks()[name].mutants) or names
    results = []
    try:
        with Console(stderr=True).status("Auditing") as status:
            for name in names:
                every = attack_named(name).mutants if mutant == "every" else (mutant,)
                for planted in every:
                    status.update(f"Auditing {name}" + (f" with {planted}" if planted else ""))
                    results += run_audit(name, epsilon, trials, planted, seed)
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(audit_table(results))
    failed = []
    for result in results:
        leaks = mutant is not None or attacks()[result.mechanism].leaks
        if result.verdict != ("broken" if leaks else "holds"):
            failed.append(result)
    if failed:
        first = failed[0]
        what = "does not hold up"
        if mutant is not None:
            what = f"did not catch the mutant {first.mutant}"
        elif attacks()[first.mechanism].leaks:
            what = "did not show its leak"
        typer.echo(
            f"The audit of {first.mechanism} under `{first.relation}` {what} (verdict: "
            f"{first.verdict}); try more --trials if it is asleep, and do not publish with a "
            "broken mechanism.",
            err=True,
        )
        raise typer.Exit(2)
