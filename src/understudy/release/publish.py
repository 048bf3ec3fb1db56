"""publish(): from one recipe to a bundle of files and two reports.

    recipe -> inside -> [ledger] -> synthesis -> envelope        (has the confidential file)
    envelope -> outside: synthetic files, tables, public page    (has not)
    inside + envelope -> evidence -> internal report

Every stage is kept until the bundle is whole; a killed run goes on where it stopped.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import polars as pl

from understudy.chance import Chance, chance_of
from understudy.release.bundle import finished, write_manifest
from understudy.release.envelope import Envelope, kept_inside, open_envelope, seal
from understudy.release.inside import Inside, prepare
from understudy.release.kept import check_kept
from understudy.release.outside import KIND, public_facts, released_table, write_public
from understudy.release.recipe import Recipe, read_recipe
from understudy.release.spending import check_price, spend
from understudy.release.stages import Say, workspace
from understudy.release.verdict import check_verdict
from understudy.report.evidence import gather
from understudy.report.internal import internal_page
from understudy.report.material import Material, RiskSettings
from understudy.risk.measure import measure_of
from understudy.survey.engine import connection
from understudy.tables.tabulate import tabulate

__public__ = ("publish",)


def publish(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    say: Say = print,
    progress: bool | None = None,
    accept: str = "",
) -> Path:
    """Make the release that a recipe describes, and return its folder.

    A release whose verdict is red needs `accept`, the reason why it is released all the same,
    which goes into the internal manifest. The same recipe, file and version give the same bytes,
    except for noise from OpenDP.
    """
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe)
    folder = recipe.out if out is None else Path(out).expanduser()
    inside = prepare(recipe)
    if finished(folder, inside.identity):
        say(f"`{folder}` is complete and unchanged; nothing was done.")
        return folder
    if note := check_kept(inside):
        say(note)
    with one_thread():
        confidential = confidential_table(inside)  # what a table refuses is refused unpaid
        with workspace(folder, inside.identity, say) as work:
            drawn = work.stage("0-chance", "", draw_chance)
            chance = Chance((drawn / "seed").read_bytes(), "system")
            spend(inside, (drawn / "nonce").read_text(encoding="utf-8"))
            first = work.stage(
                "1-synthesis",
                f"Fitting {recipe.model} under {recipe.mechanism} ...",
                lambda at: run_synthesis(inside, chance, at, progress),
            )
            envelope = open_envelope(first)
            second = work.stage(
                "2-tables",
                "Tables ...",
                lambda at: released_table(envelope, inside.statistics, recipe).write_parquet(
                    at / "released.parquet"
                ),
            )
            released = pl.read_parquet(second / "released.parquet")
            third = work.stage(
                "3-evidence",
                "Risk and usefulness ...",
                lambda at: _write_evidence(inside, envelope, confidential, released, first, at),
            )
            verdict = check_verdict(third, accept)
            last = work.stage(
                "4-bundle",
                "Reports and files ...",
                lambda at: _write_bundle(
                    inside, envelope, released, chance, first, third, at, verdict
                ),
            )
            work.finish(last, folder)
    return folder


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order, so that their last digits do not depend on threads."""
    engines: list[Any] = [connection(), ibis.get_backend()]
    before = [e.raw_sql("SELECT current_setting('threads')").fetchone()[0] for e in engines]
    for engine in engines:
        engine.raw_sql("SET threads TO 1")
    try:
        yield
    finally:
        for engine, threads in zip(engines, before, strict=True):
            engine.raw_sql(f"SET threads TO {threads}")


def confidential_table(inside: Inside) -> pl.DataFrame:
    """The table of the confidential records, by the steward's whole design.

    Where the published design is another one, it is tried too: whatever the table of the
    synthetic files could refuse is refused before anything is spent.
    """
    asked = inside.recipe.tables
    if inside.comparable.design != inside.confidential.design:
        tabulate(inside.comparable, inside.statistics, asked.by, asked.margins)
    return tabulate(inside.confidential, inside.statistics, asked.by, asked.margins)


def run_synthesis(inside: Inside, chance: Chance, folder: Path, progress: bool | None) -> None:
    """Everything that looks at the records ends in the envelope."""
    result = inside.synthesize(chance, progress)
    check_price(inside, result.claim)
    seal(result, folder)


def draw_chance(folder: Path) -> None:
    """The seed, from the operating system; and a nonce, because a release with new chance is a
    new one for the ledger."""
    (folder / "seed").touch(0o600)
    (folder / "seed").write_bytes(chance_of(None).secret)
    (folder / "nonce").write_text(secrets.token_hex(8), encoding="utf-8")


def _write_evidence(
    inside: Inside,
    envelope: Envelope,
    confidential: pl.DataFrame,
    released: pl.DataFrame,
    first: Path,
    folder: Path,
) -> None:
    recipe = inside.recipe
    risk = None
    if recipe.risk is not None and inside.numeric:
        asked = recipe.risk
        measure = measure_of(asked.measure, recipe.folder)
        risk = RiskSettings(recipe.known, inside.numeric, asked.radius, asked.threshold, measure)
    material = Material(
        title=inside.title,
        model=str(recipe.model),
        mechanism=str(recipe.mechanism),
        kind=KIND,
        sensitive=inside.synthesized,
        confidential=inside.confidential,
        claim=envelope.claim,
        statistics=inside.statistics,
        by=recipe.tables.by,
        confidential_table=confidential,
        released_table=released,
        risk=risk,
        regression=recipe.utility.regression,
        fitness=recipe.fitness,
        **kept_inside(first),
    )
    text = json.dumps(gather(material), sort_keys=True, allow_nan=False)
    (folder / "evidence.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.html").write_text(internal_page(json.loads(text)), encoding="utf-8")


def _write_bundle(
    inside: Inside,
    envelope: Envelope,
    released: pl.DataFrame,
    chance: Chance,
    first: Path,
    evidence: Path,
    folder: Path,
    verdict: dict[str, str],
) -> None:
    facts = public_facts(
        envelope, released, inside.recipe, inside.title, inside.statistics, inside.synthesized
    )
    public = write_public(folder, envelope, facts)
    text = (evidence / "evidence.json").read_text(encoding="utf-8")
    (folder / "evidence.json").write_text(text, encoding="utf-8")
    shutil.copy(evidence / "report.html", folder / "report.html")
    write_manifest(folder, inside, chance, kept_inside(first)["chains"], public, verdict)
