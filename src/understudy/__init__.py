"""Understudy: publish what you may not show, and say exactly what protects it.

Names are imported when they are first used, so that tables never load JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy.version import __version__

_HOME = {
    "Beta": "models.beta",
    "BetaRegression": "models.beta_regression",
    "Censored": "mechanisms.censored",
    "Claim": "claim",
    "Client": "verify.client",
    "Codebook": "survey.codebook",
    "Column": "survey.codebook",
    "ConstantWeight": "mechanisms.constant_weight",
    "Design": "survey.design",
    "FBP": "models.normal_population",
    "FBS": "models.normal_sample",
    "Given": "release.mixed",
    "MarginalRisk": "mechanisms.risk_weights",
    "Marginals": "mechanisms.marginals",
    "Mixture": "models.mixture.mixture",
    "Modips": "mechanisms.modips",
    "Multinomial": "models.multinomial",
    "NegativeBinomial": "models.negative_binomial",
    "PairwiseRisk": "mechanisms.risk_weights",
    "PerturbedHistogram": "mechanisms.perturbed_histogram",
    "QWayRisk": "mechanisms.risk_weights",
    "ReferenceCensored": "mechanisms.reference_censored",
    "Refused": "errors",
    "Replicates": "survey.design",
    "Survey": "survey.survey",
    "Synthesis": "synthesis",
    "Unweighted": "mechanisms.unweighted",
    "Weighted": "mechanisms.weighted",
    "WeightedE": "mechanisms.weighted_e",
    "add_replicates": "survey.replicate_weights",
    "agreement_posterior": "verify.posterior",
    "bootstrap_intervals": "utility.bootstrap",
    "compare": "utility.estimates",
    "compare_releases": "report.comparison",
    "discrepancy_posterior": "verify.posterior",
    "ecdf_distance": "utility.ecdf",
    "from_numpyro": "models.from_numpyro",
    "from_svy": "survey.from_svy",
    "identification_risk": "risk.identification",
    "interval_overlap": "utility.interval_overlap",
    "known_contributions": "risk.identification",
    "laplace_table": "mechanisms.laplace_table",
    "marginal_weights": "risk.weights",
    "pairwise_weights": "risk.weights",
    "open_release": "release.open",
    "plan": "verify.planner",
    "prepare_acs": "survey.acs_pums",
    "propensity_score": "utility.propensity",
    "publish": "release.publish",
    "q_way_weights": "risk.weights",
    "read_codebook": "survey.codebook",
    "read_survey": "survey.read",
    "regress": "tables.regress",
    "risk_profile": "risk.profile",
    "synthesize": "synthesis",
    "synthesize_mixed": "release.mixed",
    "tabulate": "tables.tabulate",
    "topcode": "risk.topcoding",
    "whack_a_mole": "risk.profile",
    "write_codebook": "survey.codebook",
    "write_survey": "survey.write",
}

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from understudy.errors import Refused as Refused
    from understudy.survey.codebook import Codebook as Codebook
    from understudy.survey.codebook import Column as Column
    from understudy.survey.codebook import read_codebook as read_codebook
    from understudy.survey.codebook import write_codebook as write_codebook
    from understudy.survey.design import Design as Design
    from understudy.survey.design import Replicates as Replicates
    from understudy.survey.survey import Survey as Survey


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    value = getattr(import_module(f"understudy.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
