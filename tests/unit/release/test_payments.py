"""One payment, one value: kills, other draws, changed noise (threat 32); one cap for one file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.dp import noise
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.release import publish as publishing
from understudy.release.inside import Inside, prepare
from understudy.release.outside import ENVELOPE
from understudy.release.recipe import read_recipe
from understudy.release.spending import paid_synthesis, price
from understudy.release.stages import Leavings, workspace

pytestmark = pytest.mark.usefixtures("outside_here")

RECIPE = """\
[data]
path = "file.csv"
codebook = "codebook.toml"

[synthesis]
model = "Multinomial"
sensitive = ["sex", "region"]
datasets = 2

[privacy]
mechanism = "Modips"
epsilon = 0.5
support = "public"
relation = "replace"

[tables]
statistics = ["count"]

[ledger]
place = "ledger.db"
cap = "40"
"""
CODEBOOK = """\
[columns.sex]
role = "sensitive"
type = "categorical"
levels = [1, 2]

[columns.region]
role = "sensitive"
type = "categorical"
levels = [1, 2, 3]

[columns.age]
role = "public"
type = "{age}"

[columns.code]
role = "public"
type = "{code}"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_recipe(tmp_path)


def write_recipe(folder: Path) -> Path:
    rng = np.random.default_rng(2)
    columns = {"sex": (1, 3), "region": (1, 4), "age": (18, 90), "code": (100, 999)}
    frame = pl.DataFrame({name: rng.integers(*ends, 300) for name, ends in columns.items()})
    frame.write_csv(folder / "file.csv")
    write_codebook(folder)
    (folder / "release.toml").write_text(RECIPE)
    return folder / "release.toml"


def write_codebook(folder: Path, age: str = "integer", code: str = "integer") -> None:
    (folder / "codebook.toml").write_text(CODEBOOK.format(age=age, code=code))


class Killed(BaseException):
    """What a kill is to the code: nothing after it runs."""


def spent(recipe: Path) -> list[int]:
    with Ledger(recipe.parent / "ledger.db") as ledger:
        return [entry.micro for entry in ledger.entries() if entry.kind == "spend"]


def run(inside: Inside, out: Path, make: Callable[[Path], None]) -> Path:
    with workspace(out, inside.identity, lambda _: None) as work:
        return paid_synthesis(inside, work, "nonce", "", make)


def writes(*texts: str) -> Callable[[Path], None]:
    """A synthesis that writes these files into its envelope, and is killed at the word."""

    def make(folder: Path) -> None:
        (folder / ENVELOPE).mkdir()
        for number, text in enumerate(texts):
            if text == "kill":
                raise Killed
            (folder / ENVELOPE / f"{number}.txt").write_text(text)

    return make


@pytest.mark.any_noise
def test_sixty_kills_of_a_release_give_one_value_for_one_payment(recipe: Path) -> None:
    """The noise is drawn, the run is killed, the command is given again."""
    inside = prepare(read_recipe(recipe))
    seen = []

    def draw(folder: Path) -> None:
        counts = np.arange(6)
        seen.append([noise.integer_laplace(counts, 2, 0.001).tolist() for _ in range(2)])
        (folder / ENVELOPE).mkdir()
        if len(seen) < 60:
            raise Killed
        (folder / ENVELOPE / "counts").write_text(str(seen[-1]))

    for _ in range(59):
        with pytest.raises(Killed):
            run(inside, recipe.parent / "out", draw)
    run(inside, recipe.parent / "out", draw)
    assert len(seen) == 60
    assert all(value == seen[0] for value in seen)
    assert seen[0][0] != seen[0][1]
    assert spent(recipe) == [500_000]
    kept = recipe.parent / ".out.unfinished" / "noise"
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.any_noise
def test_a_release_killed_after_its_noise_goes_on_with_it(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, by the public name: the noisy tables of all data sets, drawn side by side."""
    drawn: list[list[int]] = []
    original = noise._opendp_laplace

    def recorded(counts: np.ndarray, scale: float) -> np.ndarray:
        noisy = original(counts, scale)
        drawn.append(noisy.tolist())
        return noisy

    def killed(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(noise, "_opendp_laplace", recorded)
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "seal", killed)
        with pytest.raises(Killed):
            us.publish(recipe, say=lambda _: None)
    assert len(drawn) == 2
    us.publish(recipe, say=lambda _: None)
    assert len(drawn) == 2  # nothing was drawn again
    assert spent(recipe) == [500_000]


def test_a_kill_in_the_middle_of_a_file_costs_nothing(recipe: Path) -> None:
    inside = prepare(read_recipe(recipe))
    out = recipe.parent / "out"
    for attempt in (("draw", "kill"), ("draws", "kill"), ("draws", "again")):
        if "kill" in attempt:
            with pytest.raises(Killed):
                run(inside, out, writes(*attempt))
        else:
            run(inside, out, writes(*attempt))
    assert spent(recipe) == [500_000]


def test_other_draws_are_paid_for_again(recipe: Path) -> None:
    """Another processor or library, or a changed file of the steward's own: other bytes."""
    inside = prepare(read_recipe(recipe))
    out = recipe.parent / "out"
    with pytest.raises(Killed):
        run(inside, out, writes("draws of one machine", "kill"))
    run(inside, out, writes("draws of another", "more"))
    assert spent(recipe) == [500_000] * 2
    run(inside, out, writes("never called"))  # it is there already
    assert spent(recipe) == [500_000] * 2


def test_two_unfinished_runs_that_differ_are_paid_for_even_if_the_last_is_like_the_first(
    recipe: Path,
) -> None:
    inside = prepare(read_recipe(recipe))
    out = recipe.parent / "out"
    for text in ("one", "two"):
        with pytest.raises(Killed):
            run(inside, out, writes(text, "kill"))
    run(inside, out, writes("one", "more"))
    assert spent(recipe) == [500_000] * 2


def test_other_draws_that_cannot_be_paid_for_are_deleted(recipe: Path) -> None:
    recipe.write_text(RECIPE.replace('cap = "40"', 'cap = "0.7"'))
    inside = prepare(read_recipe(recipe))
    out = recipe.parent / "out"
    with pytest.raises(Killed):
        run(inside, out, writes("one", "kill"))
    for _ in range(2):
        with pytest.raises(Refused, match=r"0.2 is left.*The release was not made"):
            run(inside, out, writes("two"))
        assert not (recipe.parent / ".out.unfinished" / "1-synthesis").exists()
    assert spent(recipe) == [500_000]


@pytest.mark.any_noise
def test_a_whole_release_whose_noise_answers_another_question_is_paid_for_again(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another processor chooses other tables: the refusal of the kept noise must reach the till."""

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "seal", killed)
        with pytest.raises(Killed):
            us.publish(recipe, recipe.parent / "out", say=lambda _: None)
    kept = noise.kept
    monkeypatch.setattr(noise, "kept", lambda what, *rest: kept(f"{what} elsewhere", *rest))
    us.publish(recipe, recipe.parent / "out", say=lambda _: None)
    assert spent(recipe) == [500_000] * 2


def test_an_envelope_that_changed_after_it_was_sealed_is_paid_for_again(recipe: Path) -> None:
    inside = prepare(read_recipe(recipe))
    stage = run(inside, recipe.parent / "out", writes("draws"))
    (stage / ENVELOPE / "0.txt").write_text("others")
    run(inside, recipe.parent / "out", writes())
    assert spent(recipe) == [500_000] * 2


@pytest.mark.any_noise
def test_noise_for_other_counts_is_paid_for_again(recipe: Path) -> None:
    inside = prepare(read_recipe(recipe))
    out = recipe.parent / "out"
    seen = []

    def draws(counts: np.ndarray, killed: bool) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            (folder / ENVELOPE).mkdir()
            seen.append(noise.integer_laplace(counts, 2, 0.001).tolist())
            if killed:
                raise Killed

        return make

    with pytest.raises(Killed):
        run(inside, out, draws(np.arange(30), killed=True))
    run(inside, out, draws(np.arange(30) + 1, killed=False))
    assert len(seen) == 2
    assert seen[1] != (np.array(seen[0]) + 1).tolist()  # not the same noise twice
    assert spent(recipe) == [500_000] * 2


def test_noise_of_ones_own_mechanism_is_paid_for_at_every_start(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may draw its noise anywhere, where nobody keeps it."""
    inside = prepare(read_recipe(recipe))
    monkeypatch.setattr(type(inside.mechanism), "__module__", "mine")
    for _ in range(3):
        with pytest.raises(Killed):
            run(inside, recipe.parent / "out", writes("kill"))
    run(inside, recipe.parent / "out", writes("draws"))
    assert spent(recipe) == [500_000] * 4


def test_leavings_keep_the_longest_of_each_file(tmp_path: Path) -> None:
    leavings = Leavings(tmp_path / "left")
    for text in ("abc", "a", "abcd"):
        (tmp_path / "part").mkdir(exist_ok=True)
        (tmp_path / "part" / "file").write_text(text)
        leavings.take(tmp_path / "part")
    assert (tmp_path / "left" / "file").read_text() == "abcd"
    assert not leavings.differ
    (tmp_path / "part" / "file").write_text("abx")
    assert not leavings.same(tmp_path / "part")
    leavings.take(tmp_path / "part")
    assert leavings.differ
    leavings.take(tmp_path / "nothing")
    leavings.forget()
    assert leavings.same(tmp_path / "part")


# One file, one cap ---------------------------------------------------------------------


def test_four_codebooks_share_one_cap(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers or text for two columns: the fingerprint is of text, before any type. Codes end in a
    zero, which a type would take away; the refusal is the cap's, not that of an edit."""
    recipe.write_text(RECIPE.replace('cap = "40"', 'cap = "0.5"'))
    path = recipe.parent / "file.csv"
    frame = pl.read_csv(path)
    frame.with_columns(pl.col("code").cast(pl.String) + ".50").write_csv(path)
    monkeypatch.setattr(publishing, "run_synthesis", lambda *_: (_ for _ in ()).throw(Killed()))
    outcomes = []
    types = itertools.product(("integer", "text"), ("continuous", "text"))
    for number, (age, code) in enumerate(types):
        write_codebook(recipe.parent, age, code)
        with pytest.raises((Killed, Refused)) as stopped:
            us.publish(recipe, recipe.parent / f"out-{number}", say=lambda _: None)
        outcomes.append("0 is left" in str(stopped.value))
    assert outcomes == [False, True, True, True]
    assert spent(recipe) == [500_000]


@pytest.mark.parametrize("population", ["", 'population = "the survey"\n'])
def test_an_edited_file_is_refused_until_the_steward_says_what_it_is(
    recipe: Path, population: str
) -> None:
    recipe.write_text(RECIPE + population)
    held = prepare(read_recipe(recipe))
    run(held, recipe.parent / "out", writes("draws"))
    path = recipe.parent / "file.csv"
    frame = pl.read_csv(path)
    more = pl.when(pl.int_range(pl.len()) == 3).then(1).otherwise(0)
    frame.with_columns(age=pl.col("age") + more).write_csv(path)
    edited = prepare(read_recipe(recipe))
    with pytest.raises(Refused, match=r"another file in the ledger.*understudy ledger successor"):
        run(edited, recipe.parent / "again", writes("draws"))
    recipe.write_text(RECIPE + 'population = "somebody else"\n')
    renamed = prepare(read_recipe(recipe))
    with pytest.raises(Refused, match="akin"):
        run(renamed, recipe.parent / "again", writes("draws"))
    assert spent(recipe) == [500_000]


def test_the_forecast_says_what_is_charged_and_in_which_figures(recipe: Path) -> None:
    assert price(prepare(read_recipe(recipe))) == "epsilon 0.5 (replace, record)"
    recipe.write_text(RECIPE.replace('relation = "replace"', "") + "records_per_unit = 4\n")
    recipe.write_text(recipe.read_text() + 'unit = "home"\n')
    assert price(prepare(read_recipe(recipe))) == "epsilon 4 (replace, home)"


def test_a_cap_with_delta_and_a_population_are_declared_in_the_recipe(recipe: Path) -> None:
    keys = 'population = "people"\ndelta = "1e-6"\nown_delta = "1e-9"\nrelation = "replace"\n'
    recipe.write_text(RECIPE + keys)
    run(prepare(read_recipe(recipe)), recipe.parent / "out", writes("draws"))
    with Ledger(recipe.parent / "ledger.db") as ledger:
        opened = next(entry for entry in ledger.entries() if entry.kind == "dataset")
    facts = opened.content()
    assert (facts["name"], facts["delta"], facts["own_delta"]) == ("people", 10**12, 10**9)
    assert facts["rho"] > 0
    for wrong in ('delta = "2"', 'own_delta = "x"', 'relation = "blank"', "records_per_unit = 0"):
        recipe.write_text(RECIPE + wrong + "\n")
        with pytest.raises(Refused):
            run(prepare(read_recipe(recipe)), recipe.parent / "other", writes("draws"))
