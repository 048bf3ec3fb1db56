"""publish(): from one recipe to a bundle of files and two reports.

recipe -> prepare -> [ledger] -> synthesis -> tables -> evidence -> pages -> bundle

Every stage is kept until the bundle is whole; a killed run goes on where it stopped.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import polars as pl

from understudy.fitting.fitter import without_missing
from understudy.release.bundle import (
    dataset_names,
    finished,
    unseeded,
    write_facts,
    write_manifest,
    write_public,
)
from understudy.release.checkpoints import Say, workspace
from understudy.release.parts import mechanism_words, model_words
from understudy.release.prepare import Prepared, prepare
from understudy.release.recipe import Recipe, read_recipe
from understudy.release.spending import spend
from understudy.release.synthesize import Stored, run_synthesis, stored
from understudy.report.evidence import gather
from understudy.report.internal import internal_page
from understudy.report.material import Kind, Material, PublicFacts, RiskSettings
from understudy.report.public import public_page
from understudy.survey.engine import connection
from understudy.survey.file_format import released_formats
from understudy.survey.survey import Survey
from understudy.tables.statistic import Statistic, parse_statistic
from understudy.tables.tabulate import tabulate
from understudy.version import __version__

KIND: Kind = (
    "partial"  # m files of one sample's size, made given that sample (methods §2, M eq. 3.2)
)


def publish(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    say: Say = print,
    progress: bool | None = None,
) -> Path:
    """Make the release that a recipe describes; the folder it lies in.

    The same recipe, file and version give the same bytes, except for noise from OpenDP.
    """
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe)
    folder = recipe.out if out is None else Path(out).expanduser()
    prepared = prepare(recipe)
    if finished(folder, prepared.identity):
        say(f"`{folder}` is complete and unchanged; nothing was done.")
        return folder
    _try_tables(prepared)
    with workspace(folder, prepared.identity, say) as work, one_thread():
        chance = work.stage("0-chance", "", lambda at: _draw_seed(prepared, at))
        seed = int((chance / "seed").read_text(encoding="utf-8"))
        nonce = (chance / "nonce").read_text(encoding="utf-8")
        spend(prepared, nonce)
        first = work.stage(
            "1-synthesis",
            f"Fitting {model_words(recipe.model)} under {mechanism_words(recipe.mechanism)} ...",
            lambda at: run_synthesis(prepared, seed, at, progress),
        )
        made = stored(first)
        second = work.stage("2-tables", "Tables ...", lambda at: _write_tables(prepared, made, at))
        third = work.stage(
            "3-evidence",
            "Risk and usefulness ...",
            lambda at: _write_evidence(prepared, made, second, at),
        )
        last = work.stage(
            "4-bundle",
            "Reports and files ...",
            lambda at: _write_bundle(prepared, made, seed, first, second, third, at),
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


def confidential_of(prepared: Prepared) -> Survey:
    """The records that the synthetic files stand for, with the steward's whole design."""
    if prepared.recipe.missing == "drop":
        return without_missing(prepared.whole, prepared.recipe.model.sensitive)[0]
    return prepared.whole


def statistics_of(prepared: Prepared) -> tuple[Statistic, ...]:
    """The statistics that were asked for, or means of what was synthesized."""
    recipe, columns = prepared.recipe, prepared.narrowed.columns
    texts = recipe.statistics or _means(prepared)
    return tuple(parse_statistic(text, columns, recipe.folder) for text in texts)


def _means(prepared: Prepared) -> tuple[str, ...]:
    recipe = prepared.recipe
    named = [*recipe.model.sensitive, *(n for one in recipe.given for n in one.model.sensitive)]
    raw = prepared.narrowed.raw
    return ("count", *(f"mean(`{name}`)" for name in named if raw[name].type().is_numeric()))


def _try_tables(prepared: Prepared) -> None:
    """Whatever a table can refuse is refused before anything is spent."""
    recipe, statistics = prepared.recipe, statistics_of(prepared)
    tabulate(confidential_of(prepared), statistics, recipe.by, recipe.margins)
    narrowed = prepared.narrowed
    if recipe.missing == "drop":
        narrowed = without_missing(narrowed, recipe.model.sensitive)[0]
    tabulate(narrowed, statistics, recipe.by, recipe.margins)


def _draw_seed(prepared: Prepared, folder: Path) -> None:
    """The seed; and a nonce, because a release with new chance is a new one for the ledger."""
    given = prepared.recipe.seed
    seed = secrets.randbits(62) if given is None else given
    same_bytes = given is not None and not unseeded(prepared.recipe)
    (folder / "seed").write_text(str(seed), encoding="utf-8")
    nonce = "" if same_bytes else secrets.token_hex(8)
    (folder / "nonce").write_text(nonce, encoding="utf-8")


def _write_tables(prepared: Prepared, made: Stored, folder: Path) -> None:
    recipe, statistics = prepared.recipe, statistics_of(prepared)
    hidden = tabulate(confidential_of(prepared), statistics, recipe.by, recipe.margins)
    shown = tabulate(made.datasets, statistics, recipe.by, recipe.margins, combine=KIND)
    hidden.write_parquet(folder / "confidential.parquet")
    shown.write_parquet(folder / "released.parquet")


def _write_evidence(prepared: Prepared, made: Stored, tables: Path, folder: Path) -> None:
    recipe = prepared.recipe
    sensitive = [*recipe.model.sensitive, *(n for g in recipe.given for n in g.model.sensitive)]
    numeric = tuple(n for n in sensitive if prepared.narrowed.raw[n].type().is_numeric())
    risk = None
    if recipe.known and numeric:
        risk = RiskSettings(recipe.known, numeric, recipe.radius, recipe.threshold)
    material = Material(
        title=prepared.title,
        model=model_words(recipe.model),
        mechanism=mechanism_words(recipe.mechanism),
        kind=KIND,
        sensitive=prepared.synthesized,
        confidential=confidential_of(prepared),
        datasets=made.in_order,
        claim=made.claim,
        statistics=statistics_of(prepared),
        by=recipe.by,
        confidential_table=pl.read_parquet(tables / "confidential.parquet"),
        released_table=pl.read_parquet(tables / "released.parquet"),
        records=made.records,
        chains=made.chains,
        risk=risk,
        regression=recipe.regression,
        dropped=made.dropped,
        rows_correspond=made.rows_correspond,
    )
    text = json.dumps(gather(material), sort_keys=True, allow_nan=False)
    (folder / "evidence.json").write_text(text + "\n", encoding="utf-8")


def _write_bundle(
    prepared: Prepared,
    made: Stored,
    seed: int,
    synthesis: Path,
    tables: Path,
    evidence: Path,
    folder: Path,
) -> None:
    recipe = prepared.recipe
    facts = PublicFacts(
        title=prepared.title,
        claim=made.claim,
        kind=KIND,
        files=dataset_names(len(made.datasets)),
        formats=released_formats(recipe.formats, recipe.folder),
        records=made.datasets[0].n,
        design=made.datasets[0].design,
        codebook=made.datasets[0].codebook,
        statistics=statistics_of(prepared),
        by=recipe.by,
        margins=recipe.margins,
        table=pl.read_parquet(tables / "released.parquet"),
        draws=made.draws is not None,
        version=__version__,
        synthetic=prepared.synthesized,
    )
    write_public(folder, synthesis, facts, public_page(facts))
    text = (evidence / "evidence.json").read_text(encoding="utf-8")
    (folder / "evidence.json").write_text(text, encoding="utf-8")
    (folder / "report.html").write_text(internal_page(json.loads(text)), encoding="utf-8")
    public = write_facts(folder, facts)
    write_manifest(folder, prepared, seed, _diagnostics(made), public)


def _diagnostics(made: Stored) -> dict[str, Any]:
    if made.chains is None:
        return {}
    found = made.chains
    return {
        "chains": found.chains,
        "draws": found.draws,
        "divergences": found.divergences,
        "largest_rhat": float(found.rhat.max()),
        "least_ess_bulk": float(found.ess_bulk.min()),
        "least_ess_tail": float(found.ess_tail.min()),
    }
