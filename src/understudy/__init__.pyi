# Written from the code by scripts/write_reference.py.
# ruff: noqa: RUF022
from understudy.claim import Claim as Claim
from understudy.corrected_table import CorrectedTable as CorrectedTable
from understudy.corrected_table import corrected_table as corrected_table
from understudy.demo.doctorates import codebook as doctorate_codebook
from understudy.demo.doctorates import doctorates as doctorates
from understudy.demo.doctorates import population as doctorate_population
from understudy.demo.doctorates import sample as doctorate_sample
from understudy.dp.record_bounds import record_bounds as record_bounds
from understudy.dp.record_pool import distinct_cells as distinct_cells
from understudy.dp.record_pool import draw_pool as draw_pool
from understudy.drawing import COLOURS as COLOURS
from understudy.drawing import INTERNAL as INTERNAL
from understudy.drawing import footer as figure_footer
from understudy.drawing import house_style as house_style
from understudy.drawing import save_figure as save_figure
from understudy.errors import Refused as Refused
from understudy.fitting.fit_settings import Settings as SamplerSettings
from understudy.fitting.fitter import ModelFitter as ModelFitter
from understudy.fitting.posterior import Posterior as Posterior
from understudy.full_synthesis import full_synthesis as full_synthesis
from understudy.influence import InfluenceAnswer as InfluenceAnswer
from understudy.influence import influence as influence
from understudy.influence import influence_errors as influence_errors
from understudy.influence import plan_influence as plan_influence
from understudy.influence import simulated_influence as simulated_influence
from understudy.ledger.epsilon import parse_epsilon as parse_epsilon
from understudy.ledger.ledger_account import LedgerAccount as LedgerAccount
from understudy.mechanisms.censored import Censored as Censored
from understudy.mechanisms.constant_weight import ConstantWeight as ConstantWeight
from understudy.mechanisms.contract import Mechanism as Mechanism
from understudy.mechanisms.contract import Terms as Terms
from understudy.mechanisms.contract import plain_terms as plain_terms
from understudy.mechanisms.laplace_table import laplace_table as laplace_table
from understudy.mechanisms.marginals import Marginals as Marginals
from understudy.mechanisms.marginals import marginal_counts as marginal_counts
from understudy.mechanisms.marginals import marginal_tables as marginal_tables
from understudy.mechanisms.modips import Modips as Modips
from understudy.mechanisms.modips import expected_bias as modips_bias
from understudy.mechanisms.noisy_moments import NoisyMoments as NoisyMoments
from understudy.mechanisms.outputs.cell_draws import rescaled as rescaled_counts
from understudy.mechanisms.outputs.outcome_draws import ParameterDraws as ParameterDraws
from understudy.mechanisms.perturbed_histogram import PerturbedHistogram as PerturbedHistogram
from understudy.mechanisms.reference_censored import ReferenceCensored as ReferenceCensored
from understudy.mechanisms.risk_weights import MarginalRisk as MarginalRisk
from understudy.mechanisms.risk_weights import PairwiseRisk as PairwiseRisk
from understudy.mechanisms.risk_weights import QWayRisk as QWayRisk
from understudy.mechanisms.side_by_side import side_by_side as side_by_side
from understudy.mechanisms.unweighted import Unweighted as Unweighted
from understudy.mechanisms.weighted import Weighted as Weighted
from understudy.mechanisms.weighted_e import WeightedE as WeightedE
from understudy.models.beta import Beta as Beta
from understudy.models.beta_regression import BetaRegression as BetaRegression
from understudy.models.contract import FileModel as FileModel
from understudy.models.contract import Model as Model
from understudy.models.contract import OutcomeModel as OutcomeModel
from understudy.models.contract import RowsModel as RowsModel
from understudy.models.density import Density as Density
from understudy.models.density import density_of as density_of
from understudy.models.from_numpyro import from_numpyro as from_numpyro
from understudy.models.mixture.mixture import Mixture as Mixture
from understudy.models.multinomial import Multinomial as Multinomial
from understudy.models.multinomial import synthetic_counts as synthetic_counts
from understudy.models.negative_binomial import NegativeBinomial as NegativeBinomial
from understudy.models.normal_population import FBP as FBP
from understudy.models.normal_sample import FBS as FBS
from understudy.models.whole_file import WholeFile as WholeFile
from understudy.release.mixed import Given as Given
from understudy.release.mixed import synthesize_mixed as synthesize_mixed
from understudy.release.open import open_release as open_release
from understudy.release.publish import publish as publish
from understudy.report.comparison import compare_releases as compare_releases
from understudy.report.page import Fold as Fold
from understudy.report.page import Grid as Grid
from understudy.report.page import Heading as Heading
from understudy.report.page import Part as Part
from understudy.report.page import Picture as Picture
from understudy.report.page import Points as Points
from understudy.report.page import Words as Words
from understudy.report.page import write_page as write_page
from understudy.risk.by_pattern import risk_table as risk_table
from understudy.risk.by_pattern import risk_weight_table as risk_weight_table
from understudy.risk.figure import distribution_figure as distribution_figure
from understudy.risk.figure import whack_a_mole_figure as whack_a_mole_figure
from understudy.risk.identification import identification_risk as identification_risk
from understudy.risk.identification import known_contributions as known_contributions
from understudy.risk.matches import expected_matches as expected_matches
from understudy.risk.profile import risk_profile as risk_profile
from understudy.risk.profile import whack_a_mole as whack_a_mole
from understudy.risk.topcoding import topcode as topcode
from understudy.risk.topcoding import topcoding_risk as topcoding_risk
from understudy.risk.weights import marginal_weights as marginal_weights
from understudy.risk.weights import pairwise_weights as pairwise_weights
from understudy.risk.weights import q_way_weights as q_way_weights
from understudy.survey.acs_pums import NEEDED as ACS_COLUMNS
from understudy.survey.acs_pums import VARIABLES as ACS_VARIABLES
from understudy.survey.acs_pums import acs_codebook as acs_codebook
from understudy.survey.acs_pums import prepare_acs as prepare_acs
from understudy.survey.calibration import calibrate as calibrate
from understudy.survey.codebook import Codebook as Codebook
from understudy.survey.codebook import Column as Column
from understudy.survey.codebook import read_codebook as read_codebook
from understudy.survey.codebook_text import write_codebook as write_codebook
from understudy.survey.design import Design as Design
from understudy.survey.design import Replicates as Replicates
from understudy.survey.design import Stage as Stage
from understudy.survey.engine_setting import Engine as Engine
from understudy.survey.from_svy import from_svy as from_svy
from understudy.survey.implicates import implicates as implicates
from understudy.survey.read import read_survey as read_survey
from understudy.survey.read import read_table as read_table
from understudy.survey.replicate_weights import add_replicates as add_replicates
from understudy.survey.selection import inclusion_probabilities as inclusion_probabilities
from understudy.survey.selection import proportional_allocation as proportional_allocation
from understudy.survey.selection import stratified_pps as stratified_pps
from understudy.survey.selection import systematic_pps as systematic_pps
from understudy.survey.survey import Survey as Survey
from understudy.survey.write import write_survey as write_survey
from understudy.synthesis import Synthesis as Synthesis
from understudy.synthesis import fit_in_place as fit_in_place
from understudy.synthesis import synthesize as synthesize
from understudy.tables.association import association as association
from understudy.tables.combine import combine as combine_estimates
from understudy.tables.contrast import contrast as contrast
from understudy.tables.contrast import t_test as t_test
from understudy.tables.cross_table import Categories as Categories
from understudy.tables.cross_table import CrossTable as CrossTable
from understudy.tables.cross_table import categories_of as categories_of
from understudy.tables.cross_table import cross_tabulate as cross_tabulate
from understudy.tables.influence.array_file import ArrayFile as ArrayFile
from understudy.tables.influence.ask import questions_of as influence_questions
from understudy.tables.regress import regress as regress
from understudy.tables.tabulate import tabulate as tabulate
from understudy.tables.units import unit_codes as unit_codes
from understudy.utility.bootstrap import bootstrap_intervals as bootstrap_intervals
from understudy.utility.ecdf import ecdf_distance as ecdf_distance
from understudy.utility.estimates import compare as compare
from understudy.utility.interval_overlap import interval_overlap as interval_overlap
from understudy.utility.propensity import propensity_score as propensity_score
from understudy.verify.client import Client as Client
from understudy.verify.measures.agreement import agreement_flags as agreement_flags
from understudy.verify.measures.agreement import agreement_posterior as agreement_posterior
from understudy.verify.measures.agreement import beta_medians as agreement_medians
from understudy.verify.measures.agreement import log_likelihood as agreement_loglik
from understudy.verify.measures.discrepancy import GRID as DISCREPANCY_GRID
from understudy.verify.measures.discrepancy import discrepancy_posterior as discrepancy_posterior
from understudy.verify.measures.discrepancy import discrepancy_steps as discrepancy_steps
from understudy.verify.noise import geometric as geometric_noise
from understudy.verify.noise import laplace as laplace_noise
from understudy.verify.partition_fit import Task as PartitionTask
from understudy.verify.partition_fit import estimate as estimate_partition
from understudy.verify.planner import plan as plan
from understudy.verify.rehearsal import RehearsedAnswers as RehearsedAnswers
from understudy.verify.rehearsal import rehearse as rehearse
from understudy.version import __version__ as __version__

__all__ = [
    "ACS_COLUMNS",
    "ACS_VARIABLES",
    "ArrayFile",
    "Beta",
    "BetaRegression",
    "COLOURS",
    "Categories",
    "Censored",
    "Claim",
    "Client",
    "Codebook",
    "Column",
    "ConstantWeight",
    "CorrectedTable",
    "CrossTable",
    "DISCREPANCY_GRID",
    "Density",
    "Design",
    "Engine",
    "FBP",
    "FBS",
    "FileModel",
    "Fold",
    "Given",
    "Grid",
    "Heading",
    "INTERNAL",
    "InfluenceAnswer",
    "LedgerAccount",
    "MarginalRisk",
    "Marginals",
    "Mechanism",
    "Mixture",
    "Model",
    "ModelFitter",
    "Modips",
    "Multinomial",
    "NegativeBinomial",
    "NoisyMoments",
    "OutcomeModel",
    "PairwiseRisk",
    "ParameterDraws",
    "Part",
    "PartitionTask",
    "PerturbedHistogram",
    "Picture",
    "Points",
    "Posterior",
    "QWayRisk",
    "ReferenceCensored",
    "Refused",
    "RehearsedAnswers",
    "Replicates",
    "RowsModel",
    "SamplerSettings",
    "Stage",
    "Survey",
    "Synthesis",
    "Terms",
    "Unweighted",
    "Weighted",
    "WeightedE",
    "WholeFile",
    "Words",
    "__version__",
    "acs_codebook",
    "add_replicates",
    "agreement_flags",
    "agreement_loglik",
    "agreement_medians",
    "agreement_posterior",
    "association",
    "bootstrap_intervals",
    "calibrate",
    "categories_of",
    "combine_estimates",
    "compare",
    "compare_releases",
    "contrast",
    "corrected_table",
    "cross_tabulate",
    "density_of",
    "discrepancy_posterior",
    "discrepancy_steps",
    "distinct_cells",
    "distribution_figure",
    "doctorate_codebook",
    "doctorate_population",
    "doctorate_sample",
    "doctorates",
    "draw_pool",
    "ecdf_distance",
    "estimate_partition",
    "expected_matches",
    "figure_footer",
    "fit_in_place",
    "from_numpyro",
    "from_svy",
    "full_synthesis",
    "geometric_noise",
    "house_style",
    "identification_risk",
    "implicates",
    "inclusion_probabilities",
    "influence",
    "influence_errors",
    "influence_questions",
    "interval_overlap",
    "known_contributions",
    "laplace_noise",
    "laplace_table",
    "marginal_counts",
    "marginal_tables",
    "marginal_weights",
    "modips_bias",
    "open_release",
    "pairwise_weights",
    "parse_epsilon",
    "plain_terms",
    "plan",
    "plan_influence",
    "prepare_acs",
    "propensity_score",
    "proportional_allocation",
    "publish",
    "q_way_weights",
    "read_codebook",
    "read_survey",
    "read_table",
    "record_bounds",
    "regress",
    "rehearse",
    "rescaled_counts",
    "risk_profile",
    "risk_table",
    "risk_weight_table",
    "save_figure",
    "side_by_side",
    "simulated_influence",
    "stratified_pps",
    "synthesize",
    "synthesize_mixed",
    "synthetic_counts",
    "systematic_pps",
    "t_test",
    "tabulate",
    "topcode",
    "topcoding_risk",
    "unit_codes",
    "whack_a_mole",
    "whack_a_mole_figure",
    "write_codebook",
    "write_page",
    "write_survey",
]
