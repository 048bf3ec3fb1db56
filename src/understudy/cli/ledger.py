"""`understudy ledger`: populations, the files that hold their records, and their caps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from understudy.ledger.fingerprint import FileIdentity
    from understudy.ledger.ledger import Ledger
    from understudy.ledger.populations import Declaration

ledger = typer.Typer(
    no_args_is_help=True, help="Populations in a ledger, corrected files, and caps."
)

BY = "command line"
RecipeOrConfig = Annotated[
    Path, typer.Argument(help="A recipe, or the configuration of a server: it names the ledger.")
]
DatasetName = Annotated[
    str, typer.Argument(help="The data set's name in the configuration of a server.")
]
Reason = Annotated[str, typer.Option(help="Why; it stays on record.")]


@ledger.command("list", no_args_is_help=True)
def list_populations(source: RecipeOrConfig) -> None:
    """All populations with their caps, what was spent, and what is left.

    Example: understudy ledger list release.toml
    """
    import polars as pl

    from understudy.cli.show import show_table
    from understudy.ledger.views import caps

    with _open(source) as opened:
        rows = [vars(cap) for cap in caps(opened)]
    names = ("name", "allowed", "delta", "spent", "left", "counted")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Object)).select(names)
    show_table(frame, title="Populations")


@ledger.command(no_args_is_help=True)
def successor(source: RecipeOrConfig, dataset: DatasetName = "", reason: Reason = "") -> None:
    """Record a corrected file as the successor of the one that the ledger knows.

    It belongs to the same population: what was spent on the old file counts, and the cap is shared.

    Example: understudy ledger successor release.toml --reason "two incomes were corrected"
    """
    asked = _asked(source, dataset)
    with _open(source) as opened:
        population = opened.succeed(asked.declared.name, asked.file, reason, BY)
    typer.echo(f"The file is now one of `{population.name}` and shares its cap.")


@ledger.command(no_args_is_help=True)
def population(source: RecipeOrConfig, dataset: DatasetName = "", reason: Reason = "") -> None:
    """Record a file as that of another population, with a cap of its own.

    Only for other people: the same ones in another year, or after corrections, are a successor.
    Name the population first, as `population` in the recipe or the configuration.

    Example: understudy ledger population release.toml --reason "the 2025 sample, drawn afresh"
    """
    asked = _asked(source, dataset)
    with _open(source) as opened:
        opened.separate(asked.file, asked.declared, reason, BY)
    typer.echo(
        f"`{asked.declared.name}` is a population of its own, with a cap of {asked.declared.cap}."
    )


@ledger.command(no_args_is_help=True)
def merge(
    source: RecipeOrConfig,
    name: Annotated[str, typer.Argument(help="The population that goes, or a fingerprint.")],
    into: Annotated[str, typer.Argument(help="The population that stays, or a fingerprint.")],
    reason: Reason = "",
) -> None:
    """Make two populations one, for good: what was spent on either counts, under the larger cap.

    Example: understudy ledger merge server.toml pay-v2 pay --reason "the same people"
    """
    with _open(source) as opened:
        merged = opened.merge(name, into, reason, BY)
    typer.echo(f"`{merged.name}` is one population now.")


@ledger.command(no_args_is_help=True)
def cap(
    source: RecipeOrConfig,
    name: Annotated[str, typer.Argument(help="The population, or a file's fingerprint.")],
    epsilon: Annotated[str, typer.Argument(help='Epsilon to add to the cap, such as "5".')],
    own_delta: Annotated[str, typer.Option(help="More for deltas of releases, such as 1e-9.")] = "",
) -> None:
    """Allow more on a population; it stays on record and cannot be taken back.

    Example: understudy ledger cap release.toml "doctorates 2023" 5
    """
    from understudy.ledger.epsilon import show_epsilon
    from understudy.ledger.views import find_population

    with _open(source) as opened:
        key = find_population(opened, name).key
        opened.raise_cap(key, epsilon, BY, own_delta)
        budget = opened.budget("dataset", key)
    typer.echo(
        f"{name} has a cap of epsilon {show_epsilon(budget.allowed)}, "
        f"{show_epsilon(budget.left)} of it left."
    )


@dataclass(frozen=True)
class _Asked:
    """The file that a recipe or a configuration names, and its population."""

    file: FileIdentity
    declared: Declaration


def _is_server(source: Path) -> bool:
    from understudy.toml_mistakes import parse_toml, read_toml_text

    return "datasets" in parse_toml(read_toml_text(source, "recipe or configuration"), source.name)


def _open(source: Path) -> Ledger:
    from understudy.errors import Refused
    from understudy.ledger.ledger import Ledger

    if _is_server(source):
        from understudy.verify.config import read_config

        settings = read_config(source)
        return Ledger(settings.ledger, settings.head)
    from understudy.release.recipe import read_recipe

    recipe = read_recipe(source)
    if recipe.ledger_place is None:
        raise Refused(f"`{source.name}` names no ledger; add [ledger] with `place` and `cap`.")
    return Ledger(recipe.ledger_place, recipe.ledger_head)


def _asked(source: Path, dataset: str) -> _Asked:
    if _is_server(source):
        return _served(source, dataset)
    from understudy.release.inside import prepare
    from understudy.release.recipe import read_recipe
    from understudy.release.spending import declaration

    inside = prepare(read_recipe(source))
    return _Asked(inside.file, declaration(inside))


def _served(source: Path, dataset: str) -> _Asked:
    from understudy.errors import UnknownName
    from understudy.ledger.fingerprint import identify
    from understudy.survey.read import read_survey
    from understudy.verify.config import declaration, read_config

    settings = read_config(source)
    name = dataset or next(iter(settings.datasets))
    if name not in settings.datasets or (not dataset and len(settings.datasets) > 1):
        raise UnknownName("data set", dataset, settings.datasets)
    config = settings.datasets[name]
    survey = read_survey(config.path, config.design, config.codebook)
    return _Asked(identify(survey.untyped, survey.raw)[0], declaration(name, config))
