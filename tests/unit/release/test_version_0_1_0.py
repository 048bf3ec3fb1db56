"""A recipe, a release and a ledger of version 0.1.0 open as before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import understudy as us
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*names a seed, and it is not used"),
    pytest.mark.usefixtures("outside_here"),
]
OLD = Path(__file__).parent / "v010"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(OLD, tmp_path / "old")


def test_the_release_opens(folder: Path) -> None:
    release = us.open_release(folder / "release")
    assert release.title == "A small survey"
    assert (release.claim.kind, release.claim.epsilon) == ("formal", 2.0)
    assert release.claim.relation == "replace"
    counted = us.tabulate(release, "count", by="sex")
    assert counted["estimate"].sum() == 300
    assert len(release) == 2


def test_the_recipe_reads_and_prepares(folder: Path) -> None:
    inside = prepare(read_recipe(folder / "release.toml"))
    assert inside.synthesized == ("sex", "region")
    assert inside.mechanism == us.Modips(2, "public", "replace")
    assert inside.model == us.Multinomial(["sex", "region"])


@pytest.mark.any_noise
def test_the_ledger_knows_the_file_and_goes_on(folder: Path) -> None:
    """The records' fingerprint is the one that 0.1.0 charged: its cap still holds."""
    inside = prepare(read_recipe(folder / "release.toml"))
    with Ledger(folder / "ledger.db") as ledger:
        spent = [entry.micro for entry in ledger.entries() if entry.kind == "spend"]
        assert [entry.dataset for entry in ledger.entries() if entry.kind == "spend"] == [
            inside.file.typed
        ]
    assert spent == [2_000_000]
    us.publish(folder / "release.toml", folder / "second", say=lambda _: None)
    with pytest.raises(Refused, match="1 is left for this data set"):
        us.publish(folder / "release.toml", folder / "third", say=lambda _: None)
