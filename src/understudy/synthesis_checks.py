"""What can be refused of a synthesis by its arguments, its codebook or its claim alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.claim import Claim
from understudy.declarations import declared_in
from understudy.errors import Refused, UnknownName
from understudy.fitting.fit_settings import FitSettings
from understudy.mechanisms.contract import Mechanism
from understudy.models.contract import Model, OutcomeModel
from understudy.survey.published_type import types_not_declared
from understudy.survey.survey import Survey
from understudy.tables.units import unit_of


def refuse_pair(model: Model, mechanism: Mechanism) -> None:
    """Refused where the mechanism does not protect what the model synthesizes, or would hand out
    draws about which it claims nothing."""
    if mechanism.claims == "risk" and mechanism.hands_out == "draws":
        raise Refused(
            f"{type(mechanism).__name__} claims nothing of its draws and hands them out; set "
            '`hands_out = "rows"` in the class.'
        )
    if model.synthesizes in mechanism.synthesizes:
        return
    fitting = declared_in("understudy.mechanisms", Mechanism)
    names = [name for name, cls in fitting.items() if model.synthesizes in str(cls.synthesizes)]
    words = {"rows": "whole rows", "outcome": "columns given public ones", "file": "whole files"}
    what = words[model.synthesizes]
    raise Refused(
        f"{type(model).__name__} synthesizes {what}, and {type(mechanism).__name__} does not; it "
        f"goes with {', '.join(names)}."
    )


def check_claim(mechanism: Mechanism, claim: Claim, survey: Survey) -> None:
    """What a mechanism declares decides prices and nonces: its claim must say the same. And a
    declared unit is protected as a whole, or nothing is said to be."""
    unit = None if claim.kind == "risk" else unit_of(survey)
    if unit is not None and claim.unit != unit.column:
        raise Refused(
            f"Claims are for each `{unit.column}`, and this one of {type(mechanism).__name__} is "
            f"for each {claim.unit}; correct the class: noise is scaled by `counts.per_unit`, and "
            "the claim goes through `counts.claimed`."
        )
    declared, said = (mechanism.claims, mechanism.relation), (claim.kind, claim.relation)
    if declared[0] != said[0] or (claim.kind != "risk" and declared[1] != said[1]):
        raise Refused(
            f"{type(mechanism).__name__} declares claims of kind `{declared[0]}` under "
            f"`{declared[1]}`, and this one is `{said[0]}` under `{said[1]}`; correct the class."
        )
    if claim.delta > mechanism.delta * (1 + 1e-9):
        raise Refused(
            f"{type(mechanism).__name__} declares delta {mechanism.delta:g}, and this claim has "
            f"{claim.delta:g}; correct the class."
        )


def refuse_arguments(survey: Any, model: Any, mechanism: Any, datasets: Any) -> None:
    if not isinstance(survey, Survey):
        raise Refused("`survey` must be a Survey; make one with `Survey(frame)` or `read_survey`.")
    if not isinstance(model, Model):
        raise Refused("`model` must be a model, such as Beta(...), or `from_numpyro(function)`.")
    if not isinstance(mechanism, Mechanism):
        raise Refused("`mechanism` must be a mechanism, such as Censored(epsilon=3).")
    if not is_whole(datasets) or datasets < 1:
        raise Refused("`datasets` must be a whole number of at least 1.")


def settled(fit: FitSettings, mechanism: Mechanism, datasets: int) -> FitSettings:
    """The settings of a fit for so many data sets, refused where they cannot be met."""
    if is_whole(fit.draws) and datasets > fit.draws:
        raise Refused(
            f"{datasets} data sets need as many distinct draws, and only {fit.draws} are kept; "
            "raise `draws` or ask for fewer data sets."
        )
    if fit.diagnostics == "report" and mechanism.claims != "risk":
        raise Refused(
            "A claim with epsilon rests on diagnostics that pass; diagnostics='report' is for "
            "mechanisms of kind `risk`."
        )
    apart = mechanism.claims != "risk"  # where an epsilon counts draws, they must be independent
    return replace(fit, chains=fit.sampler.chains_for(datasets)) if apart else fit


def refuse_columns(survey: Survey, model: OutcomeModel, mechanism: Mechanism) -> None:
    for name in model.sensitive:
        if name not in survey.columns:
            raise UnknownName("sensitive column", name, survey.columns)
    for column in survey.codebook:
        left_out = column.role == "sensitive" and column.name not in model.sensitive
        if left_out and column.declared("role"):
            raise Refused(
                f"Column `{column.name}` is declared sensitive, and the model does not synthesize "
                "it; model it too, or leave it out of the survey."
            )
    if model.generates_from_records and mechanism.claims != "risk":
        raise Refused(
            "This model draws each record's component given its own confidential value, which no "
            "claim with epsilon covers; use assignments='prior', or a mechanism of kind `risk`."
        )
    drafted = []
    if mechanism.claims != "risk":  # records are made from declarations
        drafted = survey.codebook.not_declared(model.rests_on(survey))
    if mechanism.claims == "formal":
        drafted += [f"{name}.type" for name in types_not_declared(survey, model.sensitive)]
    if drafted:
        a_claim = "A formal claim" if mechanism.claims == "formal" else "A claim"
        raise Refused(
            f"{a_claim} rests on `{drafted[0]}`, which is not declared; declare it in the "
            "codebook from what is public."
        )


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
