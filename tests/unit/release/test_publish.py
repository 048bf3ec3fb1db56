"""A release, whole: files, resumption, identity, the public part, the ledger."""

from __future__ import annotations

import html
import json
import random
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chance
import understudy as us
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.release import publish as publishing
from understudy.release import stages
from understudy.release.forecast import forecast
from understudy.release.inside import prepare
from understudy.release.recipe import parse_recipe, read_recipe

pytestmark = pytest.mark.usefixtures("outside_here")

RECIPE = """\
[data]
path = "file.parquet"
codebook = "codebook.toml"

[design]
weight = "w"
strata = "area"

[synthesis]
model = "FBS"
sensitive = "income"
predictors = "area + sex"
datasets = 2

[privacy]
mechanism = "Weighted"
epsilon = 12

[tables]
statistics = ["count", "mean(income)"]
by = ["area", "sex"]

[risk]
known = ["area", "sex"]

[utility]
regression = "log(income) ~ sex"

[output]
title = "A small survey"
formats = ["csv", "dta"]
"""
TYPES = """\
[columns.area]
role = "sensitive"
type = "text"

[columns.sex]
role = "sensitive"
type = "integer"
"""
CODEBOOK = """\
title = "A small survey"

[population]
size = 52156

[columns.area]
role = "stratum"
type = "categorical"
levels = ["north", "south"]

[columns.sex]
role = "public"
type = "categorical"
levels = [1, 2]
value_labels = { 1 = "Male", 2 = "Female" }

[columns.income]
role = "sensitive"
type = "continuous"
label = "Income"
bounds = [1.0, 1000000.0]
transform = "log"

[columns.w]
role = "weight"
type = "continuous"
bounds = [1.0, 10000.0]
transform = "log"
"""
N = 400
CANARY = 987_654.375  # an income and a person that must not come out


def write_inputs(folder: Path, recipe: str = RECIPE) -> Path:
    rng = np.random.default_rng(5)
    income = np.exp(rng.normal(10.5, 0.5, N))
    income[17] = CANARY
    area, sex = rng.choice(["north", "south"], N), rng.choice([1, 2], N)
    weight = np.exp(rng.normal(4.8, 0.3, N))
    frame = pl.DataFrame(
        {
            "person": [f"P{k:06d}-secret" for k in range(N)],
            "area": area,
            "sex": sex,
            "income": income,
            "w": weight * (52156 / weight.sum()),  # as the codebook says
        }
    )
    folder.mkdir(exist_ok=True)
    frame.write_parquet(folder / "file.parquet")
    (folder / "codebook.toml").write_text(CODEBOOK)
    (folder / "types.toml").write_text(TYPES)
    (folder / "release.toml").write_text(recipe)
    return folder / "release.toml"


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    return us.publish(write_inputs(folder), say=lambda _: None, progress=False)


def test_the_bundle_holds_what_was_promised(made: Path) -> None:
    assert set(files(made)) == {
        "synthetic/1.parquet", "synthetic/2.parquet", "synthetic/1.csv", "synthetic/2.csv",
        "synthetic/1.codebook.toml", "synthetic/2.codebook.toml", "synthetic/1.dta",
        "synthetic/2.dta", "codebook.toml", "tables.csv", "claim.json", "draws.json",
        "report.html", "public.html", "evidence.json", "release.json", "manifest.json",
        "public.zip",
    }  # fmt: skip
    claim = us.Claim.from_json((made / "claim.json").read_text())
    assert (claim.kind, claim.epsilon) == ("asymptotic", pytest.approx(12, abs=0.2))
    manifest = json.loads((made / "manifest.json").read_text())
    assert len(bytes.fromhex(manifest["seed"])) == 32
    assert manifest["unseeded"] == []
    assert manifest["recipe"]["privacy"] == {"mechanism": "Weighted", "epsilon": 12}
    assert manifest["diagnostics"]["largest_rhat"] < 1.01
    for name, digest in manifest["checksums"].items():
        assert digest_of(made / name) == digest
    draws = json.loads((made / "draws.json").read_text())["draws"]
    assert len(draws) == 2


def digest_of(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_public_part_holds_no_secret(made: Path) -> None:
    with zipfile.ZipFile(made / "public.zip") as archive:
        public = {name: archive.read(name) for name in archive.namelist()}
    assert "manifest.json" not in public
    assert "report.html" not in public
    assert "evidence.json" not in public
    for name, content in public.items():
        for secret in (b"987654", b"-secret", b"seed = ", b'"seed"', b"file.parquet"):
            assert secret not in content, (name, secret)
    hidden = json.loads((made / "evidence.json").read_text())["table"]["cells"]
    page = (made / "public.html").read_text()
    declared_aside = page.replace("400", "").replace("52,156", "")  # n and N are public
    for cell in hidden:
        assert f"{cell['confidential']['estimate']:,.0f}" not in declared_aside
    columns = pl.read_parquet(made / "synthetic/1.parquet")
    assert columns.columns == ["area", "sex", "income", "w"]
    original = pl.read_parquet(made.parent / "file.parquet")
    assert not set(columns["income"]) & set(original["income"])
    assert not set(columns["w"]) & set(original["w"])


def test_the_analyst_needs_no_rule(made: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(made / "public.zip") as archive:
        archive.extractall(tmp_path)
    release = us.open_release(tmp_path)
    assert len(release) == 2
    assert release.kind == "partial"
    assert "asymptotic" in str(release)
    ask: dict[str, Any] = {"statistics": ["count", "mean(income)"], "by": ["area", "sex"]}
    ours = us.tabulate(release, **ask, margins=True)
    by_hand = us.tabulate(list(release), **ask, margins=True, combine="partial")
    assert ours.equals(by_hand)
    published = pl.read_csv(tmp_path / "tables.csv")
    assert published["estimate"].to_list() == pytest.approx(ours["estimate"].to_list())
    assert published["se"].to_list() == pytest.approx(ours["se"].to_list())
    table = us.regress(release, "log(income) ~ C(sex)")
    same = us.regress(release[:], "log(income) ~ C(sex)", combine="partial")
    assert table["se"].to_list() == same["se"].to_list()


def test_the_page_shows_python_that_runs(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with zipfile.ZipFile(made / "public.zip") as archive:
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (tmp_path / "public.html").read_text()
    shown = re.findall(r"<pre[^>]*>(?:<code[^>]*>)?(.*?)</", page, re.DOTALL)
    code = next(html.unescape(block) for block in shown if "open_release" in block)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    assert namespace["table"].height == 8  # four cells, two statistics
    assert "mean(income)" in capsys.readouterr().out


def test_a_changed_file_is_not_opened(made: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    (copy / "tables.csv").write_text("a\n1\n")
    with pytest.raises(Refused, match=r"tables.csv` is not the file that was released"):
        us.open_release(copy)
    (copy / "claim.json").unlink()
    with pytest.raises(Refused, match=r"lacks `claim.json`|not the file"):
        us.open_release(copy)
    (copy / "release.json").write_text('{"schema": "understudy-release-1"}')
    with pytest.raises(Refused, match="damaged"):
        us.open_release(copy)
    with pytest.raises(Refused, match="no folder"):
        us.open_release(tmp_path / "nowhere")
    with pytest.raises(Refused, match="changed after its release"):
        us.publish(made.parent / "release.toml", copy, say=lambda _: None)


def test_killed_anywhere_it_goes_on_to_the_same_bytes(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, out = made.parent / "release.toml", made.parent / "again"

    class Killed(BaseException):
        """Like a signal: nothing on the way catches it."""

    stage = stages.Workspace.stage
    for last in ("1-synthesis", "2-outside", "3-evidence", "4-bundle"):

        def dying(self: Any, name: str, words: str, make: Any, last: str = last) -> Path:
            def half(folder: Path) -> None:
                (folder / "half").write_text("half")
                raise Killed

            return stage(self, name, words, half if name == last else make)

        monkeypatch.setattr(stages.Workspace, "stage", dying)
        with pytest.raises(Killed):
            us.publish(recipe, out, say=lambda _: None, progress=False)
        assert not out.exists()
    monkeypatch.setattr(stages.Workspace, "stage", stage)
    messages: list[str] = []
    us.publish(recipe, out, say=messages.append, progress=False)
    assert messages[0].startswith("Going on")
    assert files(out) == files(made)
    assert not list(out.parent.glob(".again.unfinished"))
    us.publish(recipe, out, say=messages.append)
    assert "nothing was done" in messages[-1]


def test_another_release_is_not_overwritten(made: Path) -> None:
    other = made.parent / "other.toml"
    other.write_text(RECIPE.replace("datasets = 2", "datasets = 3"))
    with pytest.raises(Refused, match="another recipe"):
        us.publish(other, made, say=lambda _: None)
    busy = made.parent / "busy"
    busy.mkdir()
    (busy / "thesis.txt").write_text("mine")
    with pytest.raises(Refused, match="is not a release"):
        us.publish(other, busy, say=lambda _: None)
    assert files(busy) == {"thesis.txt": b"mine"}


def test_a_dry_run_says_what_will_be_done(made: Path) -> None:
    text = "\n".join(forecast(prepare(read_recipe(made.parent / "release.toml"))))
    assert "Synthesized: income, w" in text
    assert "Published as they are: area, sex." in text
    assert "kind `asymptotic`, epsilon 12" in text
    assert "Nothing was spent" in text


def test_the_ledger_is_charged_once_and_its_cap_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = RECIPE + '\n[ledger]\nplace = "ledger.db"\ncap = "30"\n'
    recipe = write_inputs(tmp_path / "in", text)
    monkeypatch.setattr(publishing, "run_synthesis", _stop)
    for _ in range(2):  # a resumed run does not pay twice
        with pytest.raises(Refused, match="stopped"):
            us.publish(recipe, say=lambda _: None)
    with Ledger(tmp_path / "in" / "ledger.db") as ledger:
        spent = [entry.micro for entry in ledger.entries() if entry.kind == "spend"]
    assert spent == [24_000_000]  # twice epsilon: under replace
    assert (tmp_path / "in" / ".release.unfinished").stat().st_mode & 0o077 == 0
    recipe.write_text(text.replace("datasets = 2", "datasets = 3"))
    with pytest.raises(Refused, match="6 is left for this data set"):
        us.publish(recipe, say=lambda _: None)


def _stop(*_: Any) -> None:
    raise Refused("stopped")


@pytest.mark.any_noise
def test_whole_records_are_drawn(tmp_path: Path) -> None:
    text = """\
[data]
path = "file.parquet"
codebook = "codebook.toml"

[synthesis]
model = "Multinomial"
sensitive = ["area", "sex"]
datasets = 2

[privacy]
mechanism = "Modips"
epsilon = 4
support = "public"

[tables]
statistics = ["count"]
by = ["area", "sex"]
"""
    messages: list[str] = []
    out = us.publish(write_inputs(tmp_path / "in", text), say=messages.append)
    release = us.open_release(out)
    assert release.claim.kind == "formal"
    assert release[0].columns == ("area", "sex")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["unseeded"] == ["noise of Modips (OpenDP)"]
    assert us.tabulate(release, "count")["estimate"].to_list() == [N]


GIVEN = """
[[given]]
model = "Beta"
sensitive = "income"
bounds = [1.0, 2000000.0]
privacy = { mechanism = "Weighted" }
"""


@pytest.mark.usefixtures("stand_in_noise")
def test_numbers_given_synthetic_categories(tmp_path: Path) -> None:
    text = MODIPS.replace("types.toml", "codebook.toml") + GIVEN
    release = us.open_release(us.publish(write_inputs(tmp_path / "in", text), say=lambda _: None))
    assert release[0].columns == ("area", "sex", "income")
    assert release.claim.kind == "asymptotic"
    assert release.claim.epsilon > 4  # the categories' and the regression's
    income = release[0].frame()["income"]
    assert 10_000 < income.mean() < 100_000
    original = pl.read_parquet(tmp_path / "in" / "file.parquet")["income"]
    assert not set(income) & set(original)


OWN = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def incomes(sex, income=None):
    mean = numpyro.sample("mean", dist.Normal(10, 2).expand([2]).to_event(1))
    log_income = None if income is None else jnp.log(income)
    with numpyro.plate("record", sex.shape[0]):
        drawn = numpyro.sample("log_income", dist.Normal(mean[sex - 1], 0.5), obs=log_income)
    if income is None:
        numpyro.deterministic("income", jnp.exp(drawn))
"""


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    text = RECIPE.replace('model = "FBS"', 'model = "own.py:incomes"')
    recipe = write_inputs(tmp_path / "in", text)
    own = tmp_path / "in" / "own.py"
    own.write_text(OWN)
    with pytest.raises(Refused, match=r"own.py:incomes takes no predictors"):
        read_recipe(recipe)
    own.unlink()
    recipe.write_text(text.replace('predictors = "area + sex"\n', ""))
    with pytest.raises(Refused, match=r"no file `own.py` with the model"):
        prepare(read_recipe(recipe))
    own.write_text("def other(): pass\n")
    with pytest.raises(Refused, match=r"function in `own.py`"):
        prepare(read_recipe(recipe))
    own.write_text("1 / 0\n")
    with pytest.raises(Refused, match="ZeroDivisionError"):
        prepare(read_recipe(recipe))
    own.write_text(OWN)
    first = prepare(read_recipe(recipe))
    assert first.synthesized == ("income",)
    assert first.narrowed.columns == ("area", "sex", "income", "w")
    own.write_text(OWN.replace("0.5", "0.6"))
    assert prepare(read_recipe(recipe)).identity != first.identity


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('sensitive = "income"', 'sensitive = "incme"', "did you mean `income`"),
        ('by = ["area", "sex"]', 'by = ["person"]', "codebook does not know it"),
        ('"mean(income)"', '"men(income)"', "men"),
        ('predictors = "area + sex"', 'predictors = "area +"', "cannot be read"),
        ('regression = "log(income) ~ sex"', 'regression = "log(person) ~ sex"', "person"),
        ('path = "file.parquet"', 'path = "nofile.parquet"', "no file"),
        ('codebook = "codebook.toml"', 'codebook = "none.toml"', "none.toml"),
        ("[design]", 'where = "income > 5 dollars"\n[design]', "cannot be read"),
        ("[design]", "where = \"area > 3\"\n[design]", "put text in quotes"),
        ("[design]", 'where = "income < 0"\n[design]', "No record meets"),
        ('known = ["area", "sex"]', 'known = ["income"]', "is synthesized"),
    ],
)  # fmt: skip
def test_mistakes_that_only_the_file_shows(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    recipe = write_inputs(tmp_path / "in", RECIPE.replace(old, new))
    with pytest.raises(Refused, match=message):
        prepare(read_recipe(recipe))
    assert not (tmp_path / "in" / "release").exists()


MODIPS = """\
[data]
path = "file.parquet"
codebook = "types.toml"

[synthesis]
model = "Multinomial"
sensitive = ["area", "sex"]

[privacy]
mechanism = "Modips"
epsilon = 4
support = "threshold"
delta = 0.000001
"""


def test_the_order_of_rows_says_nothing(made: Path) -> None:
    """Files sorted by content: if a confidential file is sorted by income, ours does not tell."""
    claim = us.Claim.from_json((made / "claim.json").read_text())
    assert not any("order" in condition for condition in claim.conditions)
    for number in (1, 2):
        frame = pl.read_parquet(made / f"synthetic/{number}.parquet")
        assert frame.equals(frame.sort(frame.columns))
    original = pl.read_parquet(made.parent / "file.parquet")
    assert original["sex"].to_list() != frame["sex"].to_list()


@pytest.mark.chance(chance.noise_beyond(50, 1 / 4, 4 * 2), "a cell below the threshold")
def test_new_chance_is_paid_anew(tmp_path: Path) -> None:
    """The noise has no seed, so a second folder is a second release for the ledger."""
    text = MODIPS + '\n[ledger]\nplace = "ledger.db"\ncap = "12"\n'
    recipe = write_inputs(tmp_path / "in", text)
    us.publish(recipe, tmp_path / "one", say=lambda _: None)
    us.publish(recipe, tmp_path / "one", say=lambda _: None)  # there already: free
    with pytest.raises(Refused, match="4 is left for this data set"):
        us.publish(recipe, tmp_path / "two", say=lambda _: None)


@pytest.mark.chance(chance.noise_beyond(50, 1 / 4, 4 * 1), "a cell below the threshold")
def test_drafted_facts_of_records_outside_stay_inside(tmp_path: Path) -> None:
    recipe = write_inputs(tmp_path / "in", MODIPS.replace("[synthesis]", WHERE))
    frame = pl.read_parquet(tmp_path / "in" / "file.parquet")
    odd = frame[:1].with_columns(area=pl.lit("hidden place"), income=pl.lit(3e6))
    pl.concat([frame, odd]).write_parquet(tmp_path / "in" / "file.parquet")
    out = us.publish(recipe, say=lambda _: None)
    for name, content in files(out).items():
        if name not in ("manifest.json", "evidence.json", "report.html"):
            assert b"hidden place" not in content, name
    assert set(us.open_release(out)[0].frame()["area"]) == {"north", "south"}


WHERE = 'where = "income < 2000000"\n[synthesis]'


def test_what_a_table_refuses_is_refused_before_it_is_paid(tmp_path: Path) -> None:
    text = RECIPE.replace('"mean(income)"', '"mean(area)"')
    recipe = write_inputs(tmp_path / "in", text + '\n[ledger]\nplace = "l.db"\ncap = "30"\n')
    with pytest.raises(Refused):
        us.publish(recipe, say=lambda _: None)
    assert not (tmp_path / "in" / "l.db").exists()


def test_a_reordered_file_is_another_release(tmp_path: Path) -> None:
    recipe = write_inputs(tmp_path / "in")
    first = prepare(read_recipe(recipe))
    path = tmp_path / "in" / "file.parquet"
    pl.read_parquet(path).sort("income").write_parquet(path)
    second = prepare(read_recipe(recipe))
    assert first.file.fingerprint == second.file.fingerprint  # the ledger's: the same records
    assert first.identity != second.identity


@pytest.mark.parametrize(
    "change",
    [{"kind": "other"}, {"files": 5}, {"design": {"foo": 1}}, {"statistics": [1]}, {"by": None}],
)
def test_tampered_facts_are_refused(made: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    facts = json.loads((copy / "release.json").read_text())
    (copy / "release.json").write_text(json.dumps({**facts, **change}))
    with pytest.raises(Refused, match="damaged"):
        us.open_release(copy)


# 800 recipes by text alone, 120 that meet the data, 80 broken files: 1,000 in all.
VALUES = [
    "0", "-1", "1e308", "nan", "inf", "true", '""', '"x"', '"\\u0000"', "[]", "[1]", '["a", "a"]',
    "{}", "{ a = 1 }", "1979-05-27", '"area + sex"', '"income"', "9223372036854775808", '"FBP"',
    '"Multinomial"', '"Censored"', '"../.."', "[[1]]", "'''\n'''", "0x1F",
]  # fmt: skip
LINES = RECIPE.splitlines()


@st.composite
def broken_recipes(draw: st.DrawFn) -> str:
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(("value", "drop", "twice", "letters", "key", "junk")))
        name = lines[at].partition("=")[0]
        if change == "value" and "=" in lines[at]:
            lines[at] = f"{name}= {draw(st.sampled_from(VALUES))}"
        elif change == "drop" and len(lines) > 1:
            del lines[at]
        elif change == "twice":
            lines.insert(at, lines[at])
        elif change == "letters" and lines[at]:
            position = draw(st.integers(0, len(lines[at]) - 1))
            letter = draw(st.characters(codec="utf-8"))
            lines[at] = lines[at][:position] + letter + lines[at][position + 1 :]
        elif change == "key":
            lines.insert(
                at, f"{draw(st.sampled_from(('epsilon', 'weights', 'known', 'bins')))} = 1"
            )
        elif change == "junk":
            lines.insert(at, draw(st.text(max_size=12)))
    return "\n".join(lines)


@settings(max_examples=800, deadline=None, suppress_health_check=list(HealthCheck))
@given(broken_recipes())
def test_a_broken_recipe_is_refused_or_read(text: str) -> None:
    try:
        parse_recipe(text, Path("here"))
    except Refused as refusal:
        for line in str(refusal).splitlines():
            assert line
        assert re.match(r"release\.toml:\d+: ", str(refusal))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(broken_recipes())
def test_a_broken_recipe_meets_its_file(inputs: Path, text: str) -> None:
    recipe = inputs.parent / "broken.toml"
    recipe.write_bytes(text.encode("utf-8", "surrogatepass"))
    before = sorted(path.name for path in inputs.parent.iterdir())
    try:
        prepare(read_recipe(recipe))
    except Refused as refusal:
        assert str(refusal)
    assert sorted(path.name for path in inputs.parent.iterdir()) == before


def test_a_broken_file_is_refused(inputs: Path) -> None:
    rng = random.Random(3)
    folder = inputs.parent
    data, codebook = (folder / "file.parquet").read_bytes(), CODEBOOK.encode()
    refused = 0
    for trial in range(80):
        name, whole = (("file.parquet", data), ("codebook.toml", codebook))[trial % 2]
        broken = bytearray(whole)
        if trial % 4 < 2:
            del broken[rng.randrange(len(broken)) :]
        for _ in range(rng.randrange(1, 8)):
            if broken:
                broken[rng.randrange(len(broken))] = rng.randrange(256)
        (folder / name).write_bytes(bytes(broken))
        try:
            prepare(read_recipe(inputs))
        except Refused as refusal:
            refused += 1
            assert str(refusal)
        finally:
            (folder / name).write_bytes(whole)
    assert refused > 40
    assert not (folder / "release").exists()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("mutations"))
