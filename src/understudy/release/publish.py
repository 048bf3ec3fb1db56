"""publish(): from one recipe to a bundle of files and two reports.

    recipe -> inside -> [ledger] -> synthesis -> envelope        (has the confidential file)
    envelope -> outside, in a process of its own: every public file    (never had it)
    inside + envelope -> evidence -> internal report

Every stage is kept until the bundle is whole; a killed run goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl

from understudy.chance import Chance, chance_of
from understudy.internal_mark import marked
from understudy.models.contract import FileModel
from understudy.one_blas_thread import one_blas_thread
from understudy.release.bundle import finished, write_manifest
from understudy.release.check import check_records
from understudy.release.correct import correct, with_corrections
from understudy.release.envelope import kept_diagnostics, made_in, open_kept, seal
from understudy.release.inside import Inside, prepare
from understudy.release.kept import check_kept
from understudy.release.outside import PUBLIC, RELEASED, RULES, files_in, one_thread, run_outside
from understudy.release.recipe import Recipe, read_recipe
from understudy.release.records_made import records_made
from understudy.release.sampled_evidence import evidence_of
from understudy.release.spending import check_price, paid_synthesis
from understudy.release.stages import Say, workspace
from understudy.release.totals import totals_said
from understudy.release.verdict import check_verdict
from understudy.report.evidence import gather
from understudy.report.internal import internal_page

__public__ = ("publish",)


def publish(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    say: Say = print,
    progress: bool | None = None,
    accept: str = "",
) -> Path:
    """Make the release that a recipe describes, and return its folder.

    A release of whole files, or of a recipe with a section [fitness], whose verdict is red needs
    `accept`, the reason why it is released all the same, which goes into the internal manifest. The
    same recipe, file and version give the same bytes, except for noise from OpenDP.
    """
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe)
    folder = recipe.out if out is None else Path(out).expanduser()
    inside = prepare(recipe)
    if finished(folder, inside.identity):
        say(f"`{folder}` is complete and unchanged; nothing was done.")
        return folder
    kept = check_kept(inside)
    with one_thread():
        check_records(inside)  # what can be refused is refused unpaid
        with workspace(folder, inside.identity, say) as work:
            for note in filter(None, [totals_said(inside.whole), kept]):
                say(note)
            drawn = work.stage("0-chance", "", draw_chance)
            chance = Chance((drawn / "seed").read_bytes(), "system")
            first = paid_synthesis(
                inside,
                work,
                (drawn / "nonce").read_text(encoding="utf-8"),
                f"Fitting {recipe.model} under {recipe.mechanism} ...",
                lambda at: run_synthesis(inside, chance, at, progress),
            )
            second = work.stage(
                "2-outside",
                "Public files ...",
                lambda at: run_outside(first, at, records_made(say)),
            )
            third = work.stage(
                "3-evidence",
                "Risk and usefulness ...",
                lambda at: _write_evidence(inside, first, second, at),
            )
            with marked():
                verdict = check_verdict(third, accept, binding=_binds(inside))
            last = work.stage(
                "4-bundle",
                "Reports ...",
                lambda at: _write_bundle(inside, chance, first, second, third, at, verdict),
            )
            work.finish(last, folder)
    return folder


def _binds(inside: Inside) -> bool:
    """Whether a red verdict stops the release; older recipes of single columns are told of it."""
    return inside.fitness is not None or isinstance(inside.model, FileModel)


def run_synthesis(inside: Inside, chance: Chance, folder: Path, progress: bool | None) -> None:
    """Everything that looks at the records ends in the envelope."""
    with marked(), one_blas_thread():
        result = inside.synthesize(chance, progress)
        if inside.corrections is not None:
            result = replace(result, claim=with_corrections(result.claim, inside.corrections))
        check_price(inside, result.claim)
        seal(result, inside, folder)
        if inside.corrections is not None:
            correct(inside.corrected_records, folder)


def draw_chance(folder: Path) -> None:
    """The seed, from the operating system; and a nonce, because a release with new chance is a
    new one for the ledger."""
    (folder / "seed").touch(0o600)
    (folder / "seed").write_bytes(chance_of(None).secret)
    (folder / "nonce").write_text(secrets.token_hex(8), encoding="utf-8")


def _write_evidence(inside: Inside, first: Path, second: Path, folder: Path) -> None:
    released, result = pl.read_parquet(second / RELEASED), open_kept(first, second)
    rules = (made_in(first, second) / RULES).read_text(encoding="utf-8")
    with one_blas_thread():
        document = evidence_of(inside, lambda seen: gather(seen, result, released, rules))
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    (folder / "evidence.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.html").write_text(internal_page(json.loads(text)), encoding="utf-8")


def _write_bundle(
    inside: Inside,
    chance: Chance,
    first: Path,
    second: Path,
    third: Path,
    folder: Path,
    verdict: dict[str, str],
) -> None:
    """The public files as the outside made them, and the internal ones beside them."""
    shutil.copytree(second / PUBLIC, folder, copy_function=_linked, dirs_exist_ok=True)
    text = (third / "evidence.json").read_text(encoding="utf-8")
    (folder / "evidence.json").write_text(text, encoding="utf-8")
    shutil.copy(third / "report.html", folder / "report.html")
    public = files_in(second / PUBLIC)
    write_manifest(folder, inside, chance, kept_diagnostics(first), public, verdict)


def _linked(source: str, target: str) -> None:
    """The same file under a second name, where the file system has such; the first goes soon."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
