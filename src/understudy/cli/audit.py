"""`understudy audit MECHANISM`: does the promise hold, and would we notice if it did not?"""

from __future__ import annotations

from typing import Annotated

import typer


def audit(
    mechanism: Annotated[
        str,
        typer.Argument(
            help="censored, censored-weighted, censored-units, reference-censored, "
            "perturbed-histogram, "
            "modips-public, modips-threshold, modips-observed, marginals, and for households "
            "modips-public-units, modips-threshold-units, marginals-units, histogram-units, "
            "laplace-table-units; or all."
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
) -> None:
    """Lower bounds on epsilon from simulations on worst-case neighbouring databases.

    A sound mechanism stays at or below its claim and above 0.9 of it. Exit 2 otherwise, or
    when a planted mutant is not caught. modips-observed is there to be seen broken: it leaks who
    is alone in a cell, and its claim says so.

    Example: understudy audit censored --mutant clip-missing
    """
    from rich.console import Console

    from understudy.audit.audit import audit as run_audit
    from understudy.audit.audit import audit_table
    from understudy.audit.counts import COUNT_MUTANTS, LEAKING, audit_count_mechanism
    from understudy.audit.household_counts import HOUSEHOLD_MUTANTS, audit_household_mechanism
    from understudy.audit.problems import MUTANTS
    from understudy.errors import Refused, UnknownName

    mutants = MUTANTS | COUNT_MUTANTS | HOUSEHOLD_MUTANTS
    names = tuple(mutants) if mechanism == "all" else (mechanism,)
    if mechanism == "all" and mutant not in (None, "every"):
        names = tuple(name for name in mutants if mutant in mutants[name]) or names
    results = []
    try:
        with Console(stderr=True).status("Auditing") as status:
            for name in names:
                if name not in mutants:
                    raise UnknownName("mechanism to audit", name, tuple(mutants))
                every = mutants[name] if mutant == "every" else (mutant,)
                for planted in every:
                    status.update(f"Auditing {name}" + (f" with {planted}" if planted else ""))
                    if name in COUNT_MUTANTS:
                        results += audit_count_mechanism(name, epsilon, trials, planted)
                    elif name in HOUSEHOLD_MUTANTS:
                        results += audit_household_mechanism(name, epsilon, trials, planted)
                    else:
                        results += run_audit(name, epsilon, trials, planted, seed)
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(audit_table(results))
    failed = []
    for result in results:
        leaks = mutant is not None or result.mechanism in LEAKING
        if result.verdict != ("broken" if leaks else "holds"):
            failed.append(result)
    if failed:
        first = failed[0]
        what = "does not hold up"
        if mutant is not None:
            what = f"did not catch the mutant {first.mutant}"
        elif first.mechanism in LEAKING:
            what = "did not show its leak"
        typer.echo(
            f"The audit of {first.mechanism} under `{first.relation}` {what} (verdict: "
            f"{first.verdict}); try more --trials if it is asleep, and do not publish with a "
            "broken mechanism.",
            err=True,
        )
        raise typer.Exit(2)
