"""`understudy ledger`: populations, the files that hold their records, and their caps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from understudy.errors import Refused
    from understudy.ledger.epsilon import show_epsilon
    from understudy.ledger.views import find_population
    from understudy.verify.config import read_config

    if _is_server(source) and read_config(source).limit is not None:
        raise Refused("Here two stewards raise a cap; ask them with `understudy user cap`.")
    with _open(source) as opened:
        key = find_population(opened, name).key
        opened.raise_cap(key, epsilon, BY, own_delta)
        budget = opened.budget("dataset", key)
    typer.echo(
        f"{name} has a cap of epsilon {show_epsilon(budget.allowed)}, "
        f"{show_epsilon(budget.left)} of it left."
    )


@ledger.command("key", no_args_is_help=True)
def make_key(
    path: Annotated[Path, typer.Argument(help="The file of the new private key.")],
) -> None:
    """Make a key that signs heads; keep it on another disk or host than the ledger.

    Its public half is written beside it and printed: give that to your auditors.

    Example: understudy ledger key /media/keys/heads.pem
    """
    from understudy.ledger.signing import make_head_key

    typer.echo(make_head_key(path))


@ledger.command(no_args_is_help=True)
def sign(source: RecipeOrConfig) -> None:
    """Begin with a `head_key` or with new `witnesses` that the configuration names.

    One place of heads at least must know the ledger as it is.

    Example: understudy ledger sign server.toml
    """
    with _open(source, begin=True) as opened:
        signer, places = opened.journal.tally.signer, opened.journal.places
    signed = f"signed with {signer}" if signer else "not signed"
    typer.echo(f"Heads are {signed} and kept in {len(places)} places.")


@ledger.command(no_args_is_help=True)
def verify(
    source: Annotated[
        Path, typer.Argument(help="A recipe, a configuration, or an auditor's copy (.jsonl).")
    ],
    public: Annotated[str, typer.Option(help="The public key that a copy's head must have.")] = "",
) -> None:
    """Check every entry, hash, head and signature from the first on, and all that follows.

    Example: understudy ledger verify server.toml
    """
    if source.suffix == ".jsonl":
        from understudy.ledger.auditors_copy import check_copy

        tally = check_copy(source, public)
    else:
        with _open(source, whole=True) as opened:
            tally = opened.journal.tally
    signed = f", signed with {tally.signer}" if tally.signer else ", not signed"
    typer.echo(f"All {tally.head.number} entries hold; the head is {tally.head.hash}{signed}.")
    if tally.unseen:
        typer.echo(f"Of {tally.unseen} of an earlier version only their order was checked.")


@ledger.command("export", no_args_is_help=True)
def export_copy(
    source: RecipeOrConfig,
    out: Annotated[Path, typer.Argument(help="The file to write, such as ledger.jsonl.")],
) -> None:
    """Write every entry for an auditor: no questions, no answers, no keys.

    `understudy ledger verify FILE.jsonl` checks it, anywhere.

    Example: understudy ledger export server.toml ledger.jsonl
    """
    from understudy.errors import Refused
    from understudy.ledger.auditors_copy import auditors_lines

    try:
        with _open(source) as opened, out.open("w", encoding="utf-8") as file:
            file.writelines(auditors_lines(opened))
    except OSError as error:
        raise Refused(f"`{out.name}` cannot be written: {error.strerror}.") from None
    typer.echo(f"{out.name} is written.")


@ledger.command(no_args_is_help=True)
def recover(
    source: RecipeOrConfig,
    reason: Reason = "",
    key_file: Annotated[
        list[Path] | None, typer.Option(help="A file with a steward's key; give two.")
    ] = None,
) -> None:
    """Go on with a copy that lacks entries: all that is left of every cap is written off.

    Two stewards sign with their keys. A cap can be raised afterwards, on record.

    Example: understudy ledger recover server.toml --reason "disk lost" --key-file a --key-file b
    """
    from understudy.errors import Refused
    from understudy.ledger.recovery import recover as write_off

    try:
        keys = [path.read_text(encoding="utf-8").strip() for path in key_file or ()]
    except (OSError, ValueError):
        raise Refused("A file of a steward's key cannot be read; check the paths.") from None
    lost = write_off(_location(source), keys, reason)
    typer.echo(f"{lost} lost entries are written off, and all that was left of every cap.")
    typer.echo("Look through the users: who was shut out or had a new key since the copy was made?")


@dataclass(frozen=True)
class _Asked:
    """The file that a recipe or a configuration names, and its population."""

    file: FileIdentity
    declared: Declaration


def _is_server(source: Path) -> bool:
    from understudy.toml_mistakes import parse_toml, read_toml_text

    return "datasets" in parse_toml(read_toml_text(source, "recipe or configuration"), source.name)


def _location(source: Path) -> tuple[Any, ...]:
    """Where the ledger is that a recipe or a configuration names, with all that opens it."""
    if _is_server(source):
        from understudy.verify.config import read_config

        return read_config(source).location
    from understudy.errors import Refused
    from understudy.release.recipe import read_recipe

    location = read_recipe(source).ledger_location
    if location is None:
        raise Refused(f"`{source.name}` names no ledger; add [ledger] with `place` and `cap`.")
    return location


def _open(source: Path, **opening: Any) -> Ledger:
    from understudy.ledger.ledger import Ledger

    return Ledger(*_location(source), **opening)


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
