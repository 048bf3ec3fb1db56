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
    "ConstantWeight": "mechanisms.risk_weights",
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
    "PerturbedHistogram": "mechanisms.unweighted",
    "QWayRisk": "mechanisms.risk_weights",
    "ReferenceCensored": "mechanisms.reference_censored",
    "Refused": "errors",
    "Replicates": "survey.design",
    "Survey": "survey.survey",
    "Synthesis": "synthesis",
    "Unweighted": "mechanisms.unweighted",
    "Weighted": "mechanisms.weighted",
    "WeightedE": "mechanisms.weighted",
    "add_replicates": "survey.replicate_weights",
    "agreement_posterior": "verify.posterior",
    "bootstrap_intervals": "utility.bootstrap",
    "compare": "utility.estimates",
    "compare_releases": "report.comparison",
    "discrepancy_posterior": "verify.posterior",
    "ecdf_distance": "utility.ecdf",
    "from_numpyro": "models.contract",
    "from_svy": "survey.from_svy",
    "identification_risk": "risk.identification",
    "interval_overlap": "utility.interval_overlap",
    "known_contributions": "risk.identification",
    "laplace_table": "mechanisms.laplace_table",
    "marginal_weights": "risk.weights",
    "pairwise_weights": "risk.weights",
    "open_release": "release.opened",
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
    "write_codebook": "survey.codebook_text",
    "write_survey": "survey.write",
}

# Parts for studies and for new models and mechanisms; `module:name` where the module's own name
# says too little by itself.
_HOME |= {
    "acs_codebook": "survey.acs_pums",
    "ACS_COLUMNS": "survey.acs_pums:NEEDED",
    "ACS_VARIABLES": "survey.acs_pums:VARIABLES",
    "agreement_flags": "verify.measures",
    "agreement_loglik": "verify.posterior:log_likelihood",
    "bounded_geometric_noise": "verify.noise:bounded_geometric",
    "Categories": "tables.cross_table",
    "categories_of": "tables.cross_table",
    "COLOURS": "drawing",
    "combine_estimates": "tables.combine:combine",
    "cross_tabulate": "tables.cross_table",
    "CrossTable": "tables.cross_table",
    "Density": "models.density",
    "density_of": "models.density",
    "discrepancy_steps": "verify.measures",
    "distinct_cells": "dp.record_pool",
    "distribution_figure": "risk.figure",
    "doctorate_codebook": "demo.doctorates:codebook",
    "doctorate_population": "demo.doctorates:population",
    "doctorate_sample": "demo.doctorates:sample",
    "doctorates": "demo.doctorates",
    "draw_pool": "dp.record_pool",
    "estimate_partition": "verify.partition_fit:estimate",
    "figure_footer": "drawing:footer",
    "Fold": "report.page",
    "geometric_noise": "verify.noise:geometric",
    "Grid": "report.page",
    "Heading": "report.page",
    "house_style": "drawing",
    "inclusion_probabilities": "survey.selection",
    "INTERNAL": "drawing",
    "laplace_noise": "verify.noise:laplace",
    "marginal_counts": "mechanisms.marginals",
    "marginal_tables": "mechanisms.marginals",
    "Mechanism": "mechanisms.contract",
    "Model": "models.contract",
    "ModelFitter": "fitting.fitter",
    "modips_bias": "mechanisms.modips:expected_bias",
    "parse_epsilon": "ledger.epsilon",
    "Part": "report.page",
    "PartitionTask": "verify.partition_fit:Task",
    "Picture": "report.page",
    "plain_terms": "mechanisms.contract",
    "Points": "report.page",
    "Posterior": "fitting.posterior",
    "proportional_allocation": "survey.selection",
    "record_bounds": "dp.record_bounds",
    "rescaled_counts": "mechanisms.modips:rescaled",
    "SamplerSettings": "fitting.nuts:Settings",
    "save_figure": "drawing",
    "side_by_side": "models.multinomial",
    "stratified_pps": "survey.selection",
    "synthetic_counts": "models.multinomial",
    "systematic_pps": "survey.selection",
    "Terms": "mechanisms.contract",
    "topcoding_risk": "risk.topcoding",
    "whack_a_mole_figure": "risk.figure",
    "Words": "report.page",
    "write_page": "report.page",
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
    module, _, own_name = _HOME[name].partition(":")
    value = getattr(import_module(f"understudy.{module}"), own_name or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
