"""`understudy user`: who uses the verification server, and what may be spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from understudy.ledger.ledger import Ledger

user = typer.Typer(
    no_args_is_help=True, help="Users of the verification server, grants, and caps of data sets."
)

Config = Annotated[Path, typer.Argument(help="Configuration of the server (TOML).")]
UserArgument = Annotated[str, typer.Argument(help="The user's name.")]


@user.command(no_args_is_help=True)
def add(
    config: Config,
    name: UserArgument,
    role: Annotated[str, typer.Option(help="analyst, steward, auditor or operator.")] = "analyst",
    epsilon: Annotated[str, typer.Option(help='A first grant, such as "2.5".')] = "",
) -> None:
    """Add a user and print the key, which is shown only once.

    Example: understudy user add server.toml ann --epsilon 2.5
    """
    from understudy.ledger.accounts import add_user
    from understudy.ledger.epsilon import parse_epsilon

    if epsilon:
        parse_epsilon(epsilon)
    with _ledger(config) as ledger:
        key = add_user(ledger, name, role, BY)
        if epsilon:
            ledger.grant(name, epsilon, BY)
    typer.echo(key)


@user.command(no_args_is_help=True)
def grant(
    config: Config,
    name: UserArgument,
    epsilon: Annotated[str, typer.Argument(help='Epsilon to add, such as "0.5".')],
    dataset: Annotated[str, typer.Option(help="The population's name; all, if left out.")] = "",
    until: Annotated[str, typer.Option(help="The last day, such as 2027-06-30.")] = "",
) -> None:
    """Give a user more epsilon; it stays on record and cannot be taken back.

    An analyst sees the data sets that were granted. Above `second_steward_above` it waits for the
    approval of two stewards.

    Example: understudy user grant server.toml ann 0.5 --dataset survey --until 2027-06-30
    """
    from understudy.ledger.epsilon import show_epsilon
    from understudy.ledger.requests import grant_or_ask
    from understudy.ledger.views import find_population
    from understudy.verify.config import read_config

    with _ledger(config) as ledger:
        waits = grant_or_ask(ledger, read_config(config).limit, BY, name, epsilon, dataset, until)
        if dataset:
            budget = ledger.account(name, find_population(ledger, dataset).key).budget
        else:
            budget = ledger.budget("user", name)
    if waits is not None:
        typer.echo(f"Request {waits} waits for the stewards.")
    typer.echo(f"{name} has epsilon {show_epsilon(budget.left)} left.")


@user.command("key", no_args_is_help=True)
def replace_key(config: Config, name: UserArgument) -> None:
    """Replace a user's key and print the new one; the old one and its sessions end at once.

    No server need run, and one that does follows. Answers from before are not shown to the new key.

    Example: understudy user key server.toml ann
    """
    from understudy.ledger.accounts import new_key

    with _ledger(config) as ledger:
        typer.echo(new_key(ledger, name, BY))


@user.command(no_args_is_help=True)
def revoke(config: Config, name: UserArgument) -> None:
    """End a user's key and sessions at once without a new key; `understudy user key` makes one.

    No server need run, and one that does follows.

    Example: understudy user revoke server.toml ann
    """
    from understudy.ledger.accounts import new_key

    with _ledger(config) as ledger:
        new_key(ledger, name, BY)  # which nobody gets to see
    typer.echo(f"The key of {name} has ended.")


@user.command(no_args_is_help=True)
def disable(config: Config, name: UserArgument) -> None:
    """Shut a user out, at once and for questions that wait as well; what was spent stays spent.

    Example: understudy user disable server.toml ann
    """
    _set_active(config, name, active=False)


@user.command(no_args_is_help=True)
def enable(config: Config, name: UserArgument) -> None:
    """Let a user in again.

    Example: understudy user enable server.toml ann
    """
    _set_active(config, name, active=True)


@user.command(no_args_is_help=True)
def cap(
    config: Config,
    dataset: Annotated[str, typer.Argument(help="The population's name, or a file's fingerprint.")],
    epsilon: Annotated[str, typer.Argument(help='Epsilon to add to the cap, such as "5".')],
) -> None:
    """Allow more epsilon on a data set; it stays on record and cannot be taken back.

    The configuration's `cap` counts when a data set is first served; later this command does.

    Example: understudy user cap server.toml survey 5
    """
    from understudy.ledger.epsilon import parse_epsilon, show_epsilon
    from understudy.ledger.requests import raise_or_ask
    from understudy.ledger.views import find_population
    from understudy.verify.config import read_config

    parse_epsilon(epsilon)
    with _ledger(config) as ledger:
        key = find_population(ledger, dataset).key
        waits = raise_or_ask(ledger, read_config(config).limit, BY, key, epsilon)
        budget = ledger.budget("dataset", key)
    if waits is not None:
        typer.echo(f"Request {waits} waits for the stewards.")
    typer.echo(
        f"{dataset} has a cap of epsilon {show_epsilon(budget.allowed)}, "
        f"{show_epsilon(budget.left)} of it left."
    )


@user.command("list", no_args_is_help=True)
def list_users(config: Config) -> None:
    """All users with what they were granted, spent, and have left.

    Example: understudy user list server.toml
    """
    import polars as pl

    from understudy.cli.show import show_table
    from understudy.ledger.views import accounts

    with _ledger(config) as ledger:
        rows = [vars(account) for account in accounts(ledger)]
    names = ("name", "role", "active", "allowed", "spent", "left")
    show_table(pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Object)), title="Users")


BY = "command line"


def _set_active(config: Path, name: str, active: bool) -> None:
    from understudy.ledger.accounts import set_active

    with _ledger(config) as ledger:
        set_active(ledger, name, active, BY)
    typer.echo(f"{name} is {'let in again' if active else 'shut out'}.")


def _ledger(config: Path) -> Ledger:
    from understudy.ledger.ledger import Ledger
    from understudy.verify.config import read_config

    return Ledger(*read_config(config).location)
