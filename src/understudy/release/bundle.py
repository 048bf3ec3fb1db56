"""The bundle: every file of a release in one folder, with checksums.

    synthetic/1.parquet ...  codebook.toml  tables.csv  claim.json  draws.json    public
    corrections.json (where the table was corrected)                              public
    public.html  release.json  public.zip (all of these in one file)              public
    report.html  evidence.json  manifest.json (recipe, versions, seed, checksums) internal

The same identity gives the same bytes: no time, no machine and no path is written anywhere.
"""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.fitting.diagnostics import Diagnostics
from understudy.release.inside import Inside
from understudy.release.outside import files_in, write_json
from understudy.release.release_facts import checksum
from understudy.version import __version__

INTERNAL = ("report.html", "evidence.json", "manifest.json")
MANIFEST = "manifest.json"
LIBRARIES = (
    "jax",
    "numpyro",
    "blackjax",
    "opendp",
    "numpy",
    "scipy",
    "polars",
    "duckdb",
    "pyarrow",
)


def write_manifest(
    folder: Path,
    inside: Inside,
    chance: Chance,
    chains: Diagnostics | None,
    public: list[str],
    verdict: dict[str, str],
) -> None:
    """manifest.json: everything needed to make or check the release again."""
    recipe = {part: keys for part, keys in inside.recipe.written.items() if part != "ledger"}
    diagnostics = {}
    if chains is not None:
        diagnostics = {
            "chains": chains.chains,
            "draws": chains.draws,
            "divergences": chains.divergences,
            "largest_rhat": chains.largest_rhat,
            "least_ess_bulk": chains.least_ess_bulk,
            "least_ess_tail": chains.least_ess_tail,
        }
    write_json(
        folder / MANIFEST,
        {
            "schema": "understudy-manifest-1",
            "warning": "internal: holds the seed, which must stay secret",
            "identity": inside.identity,
            "data": inside.file.fingerprint,
            "version": __version__,
            "python": platform.python_version(),
            "libraries": {name: version(name) for name in LIBRARIES},
            "recipe": recipe,  # without the ledger's address, which may hold a password
            "seed": chance.secret.hex(),
            "corrected": inside.corrected,
            "unseeded": [f"noise of {name} (OpenDP)" for name in inside.unseeded],
            "diagnostics": diagnostics,
            "fitness": verdict,
            "public": sorted(public),
            "checksums": {name: checksum(folder / name) for name in files_in(folder)},
        },
    )
    for name in INTERNAL:
        (folder / name).chmod(0o600)


def finished(out: Path, identity: str) -> bool:
    """Whether `out` holds exactly this release, whole; refused if it holds anything else."""
    if not out.exists():
        return False
    manifest = out / MANIFEST
    if not out.is_dir() or not manifest.is_file():
        if out.is_dir() and not out.is_symlink() and not any(out.iterdir()):
            try:
                out.rmdir()
            except OSError:
                raise Refused(
                    f"`{out}` cannot be used; name a new folder for the release."
                ) from None
            return False
        raise Refused(f"`{out}` exists and is not a release; name another folder or move it away.")
    try:
        facts = json.loads(manifest.read_text(encoding="utf-8"))
        same, sums = facts["identity"] == identity, dict(facts["checksums"])
    except (ValueError, KeyError, TypeError):
        raise Refused(f"The manifest in `{out}` is damaged; move the folder away.") from None
    if not same:
        raise Refused(
            f"`{out}` holds a release of another recipe, file or version; name another folder or "
            "move it away."
        )
    for name, digest in sums.items():
        if not (out / name).is_file() or checksum(out / name) != digest:
            raise Refused(
                f"`{name}` in `{out}` was changed after its release; move the folder away and "
                "run again."
            )
    return True
