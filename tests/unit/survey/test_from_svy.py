"""svy's Sample taken over; svy itself is the second opinion on what the design means."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.design import Design
from understudy.survey.from_svy import from_svy

svy = pytest.importorskip("svy", reason="the svy extra is not installed")


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    chance = np.random.default_rng(11)
    n = 48
    return pl.DataFrame(
        {
            "h": np.repeat([1, 2, 3, 4], 12),
            "half": np.tile(np.repeat(["a", "b"], 6), 4),
            "c": np.tile(np.repeat([1, 2], 6), 4),
            "y": chance.normal(50, 9, n),
            "w": chance.uniform(1, 5, n),
            "N": np.full(n, 20),
        }
    )


def test_taylor_design_and_fpc(frame: pl.DataFrame) -> None:
    sample = svy.Sample(frame, svy.Design(wgt="w", stratum="h", psu="c", pop_size="N"))
    survey = from_svy(sample)
    assert survey.design == Design(weight="w", strata="h", psu="c", fpc="N", nest=True)
    assert survey.frame().equals(frame)
    assert survey.codebook["w"].role == "weight"


@pytest.mark.parametrize("stratum", ["h", ("h", "half")])
def test_standard_errors_agree_with_svy(
    frame: pl.DataFrame, stratum: str | tuple[str, ...]
) -> None:
    tabulate = pytest.importorskip(
        "understudy.tables.tabulate", reason="tables are not installed"
    ).tabulate
    sample = svy.Sample(frame, svy.Design(wgt="w", stratum=stratum))
    theirs = sample.estimation.mean("y").estimates[0]
    ours = tabulate(from_svy(sample), ["mean(y)"])
    assert ours["estimate"][0] == pytest.approx(theirs.est, rel=1e-9)
    assert ours["se"][0] == pytest.approx(theirs.se, rel=1e-9)


def test_columns_that_form_the_strata_together_are_joined(frame: pl.DataFrame) -> None:
    sample = svy.Sample(frame, svy.Design(wgt="w", stratum=("h", "half")))
    survey = from_svy(sample)
    assert survey.design.strata == "h_half"
    joined = survey.frame(["h_half"])["h_half"].to_list()
    assert len(set(joined)) == 8
    assert joined[0] == "1|a"
    taken = frame.with_columns(h_half=pl.lit(1))
    with pytest.raises(Refused, match="`h_half` is already a column"):
        from_svy(svy.Sample(taken, svy.Design(wgt="w", stratum=("h", "half"))))


@pytest.mark.parametrize(
    ("make", "kind", "coefficient"),
    [
        (lambda s: s.weighting.create_brr_wgts(rep_prefix="r"), "brr", None),
        (lambda s: s.weighting.create_brr_wgts(rep_prefix="r", fay_coef=0.5), "fay", None),
        (lambda s: s.weighting.create_jk_wgts(rep_prefix="r"), "jkn", 0.5),
        (lambda s: s.weighting.create_bs_wgts(rep_prefix="r", n_reps=10), "bootstrap", None),
        (lambda s: s.weighting.create_sdr_wgts(rep_prefix="r", n_reps=8), "sdr", None),
    ],
)
def test_replicate_weights(
    frame: pl.DataFrame, make: object, kind: str, coefficient: float | None
) -> None:
    base = svy.Sample(frame, svy.Design(wgt="w", stratum="h", psu="c"))
    sample = make(base)  # type: ignore[operator]
    replicates = from_svy(sample).design.replicates
    assert replicates is not None
    assert replicates.kind == kind
    assert list(replicates.columns or ()) == sample.rep_columns
    assert replicates.fay == (0.5 if kind == "fay" else None)
    if coefficient is not None:
        assert set(replicates.coefficients or ()) == {coefficient}


def test_unusual_coefficients_are_kept_in_the_form_that_takes_them(frame: pl.DataFrame) -> None:
    reps = frame.with_columns(r1=pl.col("w") * 1.1, r2=pl.col("w") * 0.9)
    weights = svy.BootstrapWgts(prefix="r", n_reps=2, scale=[0.3, 0.4])
    replicates = from_svy(svy.Sample(reps, svy.Design(wgt="w", rep_wgts=weights))).design.replicates
    assert replicates is not None
    assert replicates.kind == "jkn"
    assert tuple(replicates.coefficients or ()) == (0.3, 0.4)
    each = svy.JackknifeWgts(prefix="r", n_reps=2, kind="jk1")
    replicates = from_svy(svy.Sample(reps, svy.Design(wgt="w", rep_wgts=each))).design.replicates
    assert replicates is not None
    assert replicates.kind == "jk1"


def test_labels_come_along(frame: pl.DataFrame) -> None:
    sample = svy.Sample(frame, svy.Design(wgt="w"))
    sample = sample.set_var_labels(y="Yield – ℓ")
    sample = sample.set_value_labels("c", {1: "first", 2: "second"})
    codebook = from_svy(sample).codebook
    assert codebook["y"].label == "Yield – ℓ"
    assert codebook["c"].value_labels == {1: "first", 2: "second"}
    assert codebook["c"].declared("levels")
    assert "bounds" in codebook["y"].drafted


def test_lonely_psu_rules(frame: pl.DataFrame) -> None:
    for theirs, ours in (("center", "adjust"), ("scale", "average"), ("skip", "certainty")):
        design = svy.Design(wgt="w", stratum="h", psu="c", singleton=theirs)
        assert from_svy(svy.Sample(frame, design)).design.lonely_psu == ours
    design = svy.Design(wgt="w", stratum="h", psu="c", singleton="pool")
    with pytest.raises(Refused, match="`pool`, which has no counterpart"):
        from_svy(svy.Sample(frame, design))


def test_what_cannot_be_said_is_refused(
    frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_stage = svy.Design(wgt="w", psu="c", ssu="y", pop_size=svy.PopSize(psu="N", ssu="N"))
    with pytest.raises(Refused, match="two stages"):
        from_svy(svy.Sample(frame, two_stage))
    with pytest.raises(Refused, match="names no weight"):
        from_svy(svy.Sample(frame.with_columns(p=1 / pl.col("w")), svy.Design(prob="p")))
    with pytest.raises(Refused, match=r"takes a svy\.Sample, not a DataFrame"):
        from_svy(frame)
    monkeypatch.setitem(sys.modules, "svy", None)
    with pytest.raises(Refused, match=r"pip install understudy\[svy\]"):
        from_svy(frame)
