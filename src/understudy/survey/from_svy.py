"""A survey from the svy library's Sample: its data, its design and its labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design, LonelyPsu, Replicates
from understudy.survey.draft import draft_codebook
from understudy.survey.survey import Survey, as_ibis

__public__ = ("from_svy",)

# svy's rules for a stratum with one PSU, in R survey's names.
_LONELY: dict[str, LonelyPsu] = {"center": "adjust", "scale": "average", "skip": "certainty"}


def from_svy(sample: Any) -> Survey:
    """Take over a `svy.Sample`; what our design cannot say is refused, never dropped.

    svy numbers PSUs within strata, so `nest` is set. Strata or PSUs given by several columns
    become one column that joins them. Replicate weights keep svy's variance coefficients.
    """
    try:
        import svy
    except ImportError:
        raise Refused(
            "from_svy needs the svy library; install it with `pip install understudy[svy]`."
        ) from None
    if not isinstance(sample, svy.Sample):
        raise Refused(
            f"from_svy takes a svy.Sample, not a {type(sample).__name__}; for a frame use "
            "Survey(frame, Design(...))."
        )
    theirs = sample.design
    data: pl.DataFrame = sample.data
    if theirs.wgt is None and (theirs.prob is not None or theirs.rep_wgts is not None):
        raise Refused("The svy design names no weight; set its `wgt` first.")
    data, strata = _one_column(data, theirs.stratum, "stratum")
    data, psu = _one_column(data, theirs.psu, "psu")
    design = Design(
        weight=theirs.wgt,
        strata=strata,
        psu=psu,
        fpc=_fpc(theirs),
        replicates=_replicates(sample),
        lonely_psu=_lonely(theirs.singleton),
        nest=strata is not None and psu is not None,
    )
    labels = _labels(sample, data)
    if not labels.columns:
        return Survey(data, design)
    table = as_ibis(data)
    return Survey(table, design, draft_codebook(table, design, labels))


def _one_column(
    data: pl.DataFrame, names: str | Sequence[str] | None, role: str
) -> tuple[pl.DataFrame, str | None]:
    if names is None or isinstance(names, str):
        return data, names
    if len(names) == 1:
        return data, names[0]
    joined = "_".join(names)
    if joined in data.columns:
        raise Refused(
            f"The {role} of the svy design is given by several columns, and their joint name "
            f"`{joined}` is already a column; rename that one."
        )
    parts = [pl.col(name).cast(pl.String).fill_null("") for name in names]
    return data.with_columns(pl.concat_str(parts, separator="|").alias(joined)), joined


def _fpc(theirs: Any) -> str | None:
    size = theirs.pop_size
    if size is None or theirs.wr:
        return None
    if isinstance(size, str):
        return size
    if size.ssu is not None:
        raise Refused(
            "The svy design corrects for finite populations at two stages, but the variance here "
            "is that of the first stage; give pop_size for the PSUs only."
        )
    return str(size.psu)


def _lonely(rule: Any) -> LonelyPsu:
    if rule is None:
        return "fail"
    method = str(getattr(rule.method, "value", rule.method))
    if method not in _LONELY or rule.domains != "standard":
        raise Refused(
            f"The svy design handles strata with one PSU by `{method}`, which has no counterpart "
            "here; choose center, scale or skip for all domains."
        )
    return _LONELY[method]


def _replicates(sample: Any) -> Replicates | None:
    theirs = sample.design.rep_wgts
    if theirs is None:
        return None
    try:
        coefficients = sample.rep_coefs
    except Exception:  # svy's own refusal: JKn without the coefficients or the units
        raise Refused(
            "The svy design's jackknife weights come without their coefficients; give them to "
            "svy as `scale`."
        ) from None
    columns, values = tuple(coefficients), tuple(float(c) for c in coefficients.values())
    count = len(values)
    standard = {
        "BRR": 1 / (count * (1 - theirs.fay_coef) ** 2),
        "Bootstrap": 1 / count,
        "SDR": 4 / count,
        "Jackknife": (count - 1) / count,
    }[theirs.method]
    if not all(math.isclose(value, standard, rel_tol=1e-9) for value in values):
        # Any other coefficients: the JKn form is the one that takes them as they are.
        return Replicates(columns=columns, kind="jkn", coefficients=values)
    if theirs.method == "BRR" and theirs.fay_coef:
        return Replicates(columns=columns, kind="fay", fay=float(theirs.fay_coef))
    kinds = {"BRR": "brr", "Bootstrap": "bootstrap", "SDR": "sdr", "Jackknife": "jk1"}
    return Replicates(columns=columns, kind=kinds[theirs.method])  # type: ignore[arg-type]


def _labels(sample: Any, data: pl.DataFrame) -> Codebook:
    columns = {}
    for name in data.columns:
        label = sample.meta.var_labels.get(name) or ""
        values = {
            code: str(text)
            for code, text in (sample.meta.value_labels.get(name) or {}).items()
            if isinstance(code, (str, int, float))
        }
        if label or values:
            columns[name] = Column(name, label=label, value_labels=values)
    return Codebook(columns)
