"""Every spender goes through one door: `account=`, or a claim that says that nobody was charged."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import influence_samples
import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.claim import Claim
from understudy.dp.account import UNHEARD
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.mechanisms.contract import FixedWeights

COLUMNS = {
    "sex": us.Column("sex", "sensitive", "categorical", levels=(1, 2)),
    "share": us.Column("share", "sensitive", "continuous", bounds=(0.0, 1.0)),
}
BOTH = ["sex", "share"]
SYNTHETIC = [influence_samples.survey(influence_samples.people(400, 11))]
CONFIDENTIAL = influence_samples.survey(influence_samples.people(400, 13))
MODIPS = us.Modips(0.3, "public", "replace")
CENSORED = us.Censored(0.2, weighted=False)


def survey() -> us.Survey:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"sex": rng.integers(1, 3, 80), "share": rng.beta(2, 3, 80)})
    return us.Survey(frame, codebook=us.Codebook(COLUMNS))


def without(name: str) -> us.Survey:
    """The survey without a sensitive column that nothing synthesizes."""
    frame = survey().frame().drop(name)
    return us.Survey(frame, codebook=survey().codebook.only(frame.columns))


def rows(account: Any) -> Claim:
    return us.synthesize(without("share"), us.Multinomial(["sex"]), MODIPS, account=account).claim


def files(account: Any) -> Claim:
    return us.synthesize(survey(), us.WholeFile(), us.Marginals(0.3), account=account).claim


def histogram(account: Any) -> Claim:
    mechanism = us.PerturbedHistogram(0.3)
    return us.synthesize(without("sex"), us.Beta("share"), mechanism, account=account).claim


def answer(account: Any) -> Claim:
    return us.influence(CONFIDENTIAL, SYNTHETIC, "mean(x)", 0.3, account=account).claim


def corrected(account: Any) -> Claim:
    asked = ("mean(x)", "g", 0.3)
    return us.corrected_table(CONFIDENTIAL, SYNTHETIC, *asked, account=account).claim


@pytest.mark.any_noise
@pytest.mark.parametrize("spender", [rows, files, histogram, answer, corrected])
def test_a_spender_is_charged_or_says_that_it_was_not(spender: Any, tmp_path: Path) -> None:
    account = us.LedgerAccount(tmp_path / "ledger.db", "people", "0.9")
    assert UNHEARD in spender(None).conditions
    paid = spender(account)
    assert UNHEARD not in paid.conditions
    assert "It was counted in a ledger, for the population `people`" in paid.conditions
    with Ledger(tmp_path / "ledger.db") as ledger:
        entries = [e.micro for e in ledger.entries() if e.kind == "spend"]
    twice = paid.relation == "add-remove"  # a population is counted under `replace`
    assert entries == [600_000 if twice else 300_000]
    for _ in range(0 if twice else 2):
        spender(account)
    with pytest.raises(Refused, match="is left"):
        spender(account)


@pytest.mark.any_noise
def test_mixed_data_are_charged_together_and_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr("understudy.dp.noise._opendp_laplace", lambda *_: drawn.append("noise"))
    account = us.LedgerAccount(tmp_path / "ledger.db", "people", "0.4")
    outcomes = [us.Given(us.BetaRegression("share", "C(sex)"), CENSORED)]
    with pytest.raises(Refused, match=r"needs epsilon 0.7"):  # .2 under `blank` is .4
        us.synthesize_mixed(survey(), us.Multinomial(["sex"]), MODIPS, outcomes, account=account)
    assert drawn == []


@pytest.mark.any_noise
def test_an_answer_is_for_the_unit_as_a_whole() -> None:
    columns = {**CONFIDENTIAL.codebook.columns}
    frame = CONFIDENTIAL.frame().with_columns(home=pl.int_range(pl.len()) // 2)
    columns["home"] = us.Column("home", "unit", "integer")
    homes = us.Survey(frame, CONFIDENTIAL.design, us.Codebook(columns, records_per_unit=2))
    claim = us.influence(homes, SYNTHETIC, "mean(x)", 0.3).claim
    assert claim.unit == "home"
    assert us.influence(CONFIDENTIAL, SYNTHETIC, "mean(x)", 0.3).claim.unit == "record"


ASKED = {
    "Modips": lambda data, account: us.synthesize(
        data, us.Multinomial(["g"]), us.Modips(9.0, "public"), account=account
    ),
    "Marginals": lambda data, account: us.synthesize(
        data, us.Multinomial(["g"]), us.Marginals(9.0), account=account
    ),
    "WholeFile": lambda data, account: us.synthesize(
        data, us.WholeFile(["g"]), us.Marginals(9.0), account=account
    ),
    "influence": lambda data, account: us.influence(
        data, SYNTHETIC, "mean(x)", 0.3, account=account
    ),
    "corrected_table": lambda data, account: us.corrected_table(
        data, SYNTHETIC, "mean(x)", "g", 0.3, account=account
    ),
    "laplace_table": lambda data, account: us.laplace_table(
        data, "mean(x)", "g", epsilon=1.0, account=account
    ),
}


@pytest.mark.parametrize("spender", ASKED)
def test_records_without_an_id_are_no_unit_and_cost_nothing(spender: str, tmp_path: Path) -> None:
    """Two households without ids would stand as one: the first to go lets records of the other in,
    and more counts move than the noise is for."""
    columns = {**CONFIDENTIAL.codebook.columns, "home": us.Column("home", "unit", "integer")}
    home = pl.when(pl.int_range(pl.len()) > 6).then(pl.int_range(pl.len()) // 2)
    data = us.Survey(
        CONFIDENTIAL.frame().with_columns(home=home),
        CONFIDENTIAL.design,
        us.Codebook(columns, records_per_unit=2),
    )
    account = us.LedgerAccount(tmp_path / "ledger.db", "people", "99")
    with pytest.raises(Refused, match="`home` is missing for some records"):
        ASKED[spender](data, account)
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize("model", [us.Multinomial(BOTH), us.WholeFile(BOTH)])
def test_what_is_not_declared_is_refused_before_it_is_paid_for(model: Any, tmp_path: Path) -> None:
    share = replace(COLUMNS["share"], drafted=frozenset({"bounds"}))
    drafted = us.Survey(survey().frame(), codebook=us.Codebook({**COLUMNS, "share": share}))
    account = us.LedgerAccount(tmp_path / "ledger.db", "people", "99")
    with pytest.raises(Refused, match="declare"):
        us.synthesize(drafted, model, us.Marginals(0.3), account=account)
    drafted.frame().write_parquet(tmp_path / "file.parquet")
    us.write_codebook(drafted.codebook, tmp_path / "codebook.toml")
    (tmp_path / "release.toml").write_text(
        '[data]\npath = "file.parquet"\ncodebook = "codebook.toml"\n'
        f'[synthesis]\nmodel = "{type(model).__name__}"\nsensitive = ["sex", "share"]\n'
        '[privacy]\nmechanism = "Marginals"\nepsilon = 1\n'
        '[tables]\nstatistics = ["count"]\n[ledger]\nplace = "ledger.db"\ncap = "9"\n'
    )
    with pytest.raises(Refused, match="declare"):
        us.publish(tmp_path / "release.toml", say=lambda _: None)
    assert not (tmp_path / "ledger.db").exists()


SHARE = us.BetaRegression("share", "C(sex)")
AT_ODDS = {
    "a histogram has no posterior": lambda account: us.synthesize_mixed(
        survey(), us.Multinomial(["sex"]), MODIPS,
        [us.Given(SHARE, us.PerturbedHistogram(1.0))], account=account,
    ),
    "two stages have no predictors": lambda account: us.synthesize(
        _homes({"sex": us.Column("sex", "public", "categorical", levels=(1, 2))}), SHARE,
        us.ReferenceCensored(1.0, "two-stage"), account=account,
    ),
    "a histogram needs the limit of a unit": lambda account: us.synthesize(
        _homes({}), us.Beta("share"), us.PerturbedHistogram(1.0), account=account
    ),
    "a whole file does too": lambda account: us.synthesize(
        _homes({}), us.WholeFile(["share"]), us.Marginals(1.0), account=account
    ),
}  # fmt: skip


def _homes(more: dict[str, us.Column]) -> us.Survey:
    """Persons of homes; the codebook does not say how many a home may have."""
    frame = survey().frame().with_columns(home=pl.int_range(pl.len()) // 2)
    columns = {"share": COLUMNS["share"], "home": us.Column("home", "unit", "integer"), **more}
    return us.Survey(frame.select(list(columns)), codebook=us.Codebook(columns))


@pytest.mark.parametrize("pair", AT_ODDS)
def test_what_does_not_go_together_costs_nothing(pair: str, tmp_path: Path) -> None:
    account = us.LedgerAccount(tmp_path / "ledger.db", "people", "99")
    with pytest.raises(Refused, match=r"posterior|without predictors|records_per_unit"):
        AT_ODDS[pair](account)
    assert not (tmp_path / "ledger.db").exists()


def test_what_states_nothing_beforehand_has_no_account(tmp_path: Path) -> None:
    account = us.LedgerAccount(tmp_path / "ledger.db", "people", "1")
    with pytest.raises(Refused, match="Unweighted states none beforehand"):
        us.synthesize(without("share"), us.Multinomial(["sex"]), us.Unweighted(), account=account)
    assert not (tmp_path / "ledger.db").exists()


def test_a_reference_from_the_file_itself_costs_nothing(tmp_path: Path) -> None:
    """It is found before anything is paid: by `synthesize`, and by a release's own check."""
    data, account = without("sex"), us.LedgerAccount(tmp_path / "ledger.db", "people", "9")
    shuffled = us.Survey(
        data.frame().sample(fraction=1, shuffle=True, seed=1), codebook=data.codebook
    )
    own = FixedWeights(np.zeros((1, 2)), 0.0, 1.0, source=shuffled.frame().to_numpy())
    for mechanism in (
        us.ReferenceCensored(1.0, shuffled),
        us.Censored(1.0, weights=shuffled),
        us.Censored(1.0, weights=own),  # as `fixed_from` leaves them
    ):
        with pytest.raises(Refused, match="must not come from the confidential data itself"):
            us.synthesize(data, us.Beta("share"), mechanism, account=account)
    assert not (tmp_path / "ledger.db").exists()
    data.frame().write_parquet(tmp_path / "file.parquet")
    shuffled.frame().write_parquet(tmp_path / "past.parquet")
    us.write_codebook(data.codebook, tmp_path / "codebook.toml")
    (tmp_path / "release.toml").write_text(
        '[data]\npath = "file.parquet"\ncodebook = "codebook.toml"\n'
        '[synthesis]\nmodel = "Beta"\nsensitive = "share"\n'
        '[privacy]\nmechanism = "ReferenceCensored"\nepsilon = 1\nreference = "past.parquet"\n'
        '[tables]\nstatistics = ["mean(share)"]\n[ledger]\nplace = "ledger.db"\ncap = "9"\n'
    )
    with pytest.raises(Refused, match=r"itself: 80 of its 80 records.*internal"):
        us.publish(tmp_path / "release.toml", say=lambda _: None)
    assert not (tmp_path / "ledger.db").exists()


def test_a_public_name_stays_what_it_is_when_its_module_is_imported() -> None:
    """`us.plan_influence` imports the module `influence`, which must not become `us.influence`."""
    code = "import understudy as us; us.plan_influence; print(callable(us.influence))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"
