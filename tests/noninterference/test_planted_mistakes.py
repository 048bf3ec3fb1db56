"""Eleven mistakes that were made once, planted again: each must turn its defending test red.

| mistake | planted in |
|---|---|
| 1 coding by the records | test_contributions.py `test_mutant_coding_by_the_records_is_caught` |
| 2 codes among the levels that occur | test_leaks.py `test_a_planted_mistake_is_found` |
| 3 types and drafted facts off the values | test_leaks.py `test_a_planted_mistake_is_found` |
| 4 a resumed run draws its noise anew | here |
| 5 the cap hangs on typed bytes; an edited file opens a fresh one | here |
| 6 other draws under one payment | here |
| 7 a seed that everybody knows | here |
| 8 a reference, or weights, from the file itself | here |
| 9 `Censored` with weights from the same file called formal | here |
| 10 models that mix records, priors that are none | here |
| 11 tables no ledger hears of, units ignored and mixed, consecutive seeds, public refusals | here |

Here the defence is taken away and the test that stands for it is run: first as it is, where it
passes, then with the mistake, where it must fail by an assertion.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import pytest
from releases import fixed_output
from verification_samples import FINGERPRINT

from understudy.chance import Chance
from understudy.dp.accounting import Cost
from understudy.fitting.overlap import Overlap
from understudy.ledger.fingerprint import FileIdentity
from understudy.ledger.ledger import Ledger
from understudy.ledger.ledger_account import LedgerAccount
from understudy.ledger.populations import _Register
from understudy.mechanisms.censored import Censored
from understudy.models import density_check
from understudy.release.stages import Leavings

HERE = Path(__file__).parent
Patch = pytest.MonkeyPatch
FAILURES = (AssertionError, pytest.fail.Exception)


@cache
def module_of(path: str) -> Any:
    """The module of a test file, under a name of its own."""
    file = HERE.parent / "unit" / path
    spec = importlib.util.spec_from_file_location(f"defending_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


# -- 4, 6: one payment, one value ----------------------------------------------------------------


def payments(test: str) -> Callable[[Path], None]:
    """A test of payments, on a recipe of its own."""

    def run(folder: Path) -> None:
        module = module_of("release/test_payments.py")
        getattr(module, test)(module.write_recipe(folder))

    return run


def noise_is_not_kept(patch: Patch) -> None:
    patch.setattr("understudy.dp.noise.kept", lambda _what, _counts, draw: draw())


def draws_are_not_compared(patch: Patch) -> None:
    patch.setattr(Leavings, "same", lambda *_: True)
    patch.setattr(Ledger, "record_envelope", lambda *_: True)


# -- 5: the cap ----------------------------------------------------------------------------------


def ledger_test(test: str, *more: Any) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        with Ledger(folder / "ledger.db") as ledger:
            ledger.add_dataset(FINGERPRINT, "survey", "1.5")
            again = {"open_ledger": lambda: ledger} if "sums" in test else {}
            getattr(module_of("ledger/test_populations.py"), test)(ledger, *more, **again)

    return run


def four_codebooks(folder: Path) -> None:
    module = module_of("release/test_payments.py")
    with pytest.MonkeyPatch.context() as patch:
        module.test_four_codebooks_share_one_cap(module.write_recipe(folder), patch)


def fingerprint_of_typed_values(patch: Patch) -> None:
    """As in 0.1.0: the cap belongs to bytes, and nothing is known of the file but these."""
    patch.setattr(
        "understudy.ledger.fingerprint._sketched",
        lambda _untyped, typed, _batch: FileIdentity(typed, typed),
    )
    names_mean_nothing(patch)


def names_mean_nothing(patch: Patch) -> None:
    patch.setattr(_Register, "named", lambda *_: None)
    patch.setattr(_Register, "akin", lambda *_: None)


# -- 7, 11: chance -------------------------------------------------------------------------------


def chance_test(test: str) -> Callable[[Path], None]:
    return lambda _: getattr(module_of("test_chance.py"), test)()


def the_same_seed_by_default(patch: Patch) -> None:
    patch.setattr("understudy.chance.secrets", SimpleNamespace(token_bytes=bytes))


def any_bytes_are_a_secret(patch: Patch) -> None:
    patch.setattr("understudy.chance._looks_random", lambda _: True)


def consecutive_seeds(patch: Patch) -> None:
    def following(chance: Chance, label: str, size: int) -> bytes:
        number = int.from_bytes(chance.secret) + int.from_bytes(label.encode())
        return (number % 256**size).to_bytes(size)

    patch.setattr(Chance, "random_bytes", following)


# -- 8, 9: references, kinds ---------------------------------------------------------------------


def references_from_the_file(_: Path) -> None:
    with fixed_output():  # no chains are needed to refuse
        module = module_of("fitting/test_overlap.py")
        module.test_mechanisms_refuse_references_and_weights_from_the_same_file()


def disguises(_: Path) -> None:
    module_of("fitting/test_overlap.py").test_the_file_itself_is_refused_in_every_disguise("cents")


def nobody_compares(patch: Patch) -> None:
    patch.setattr("understudy.fitting.fitter.refuse_overlap", lambda *_: None)


def chance_explains_everything(patch: Patch) -> None:
    patch.setattr(Overlap, "improbable", False)


def kind_of_censored(_: Path) -> None:
    module_of("mechanisms/test_mechanisms.py").test_censored_clips_at_half_of_each_draws_epsilon()


def censored_is_always_formal(patch: Patch) -> None:
    patch.setattr(Censored, "claims", "formal")


# -- 10: models of the steward's own -------------------------------------------------------------


def two_apart(x: Any, y: Any = None) -> None:
    """Every record is measured from the one before the last: odd from odd, even from even."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    before = jnp.zeros(x.shape[0]) if y is None else jnp.roll(y, 2)
    with numpyro.plate("record", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean + before, 1.0), obs=y)


def refused_model(name: str, reason: str) -> Callable[[Path], None]:
    def run(_: Path) -> None:
        module = module_of("models/test_contract.py")
        function = two_apart if name == "two_apart" else getattr(module, name)
        survey = module.make_survey()
        module.test_models_that_cannot_be_synthesizers_are_refused(survey, function, reason)

    return run


def no_records_are_changed(patch: Patch) -> None:
    patch.setattr(density_check, "refuse_mixing", lambda *_, **__: None)
    patch.setattr("understudy.models.density._DENSITIES", {})


def one_bit_is_changed(patch: Patch) -> None:
    sound = density_check.refuse_mixing

    def lazily(density: Any, arrays: Any, thoroughly: bool) -> None:  # noqa: ARG001
        sound(density, arrays, thoroughly=False)

    patch.setattr(density_check, "refuse_mixing", lazily)
    patch.setattr("understudy.models.density._DENSITIES", {})


def priors_are_believed(patch: Patch) -> None:
    patch.setattr(density_check, "refuse_improper", lambda *_: None)
    patch.setattr("understudy.models.density._DENSITIES", {})


# -- 11: the smaller ones ------------------------------------------------------------------------


def heard_tables(folder: Path) -> None:
    module = module_of("mechanisms/test_laplace_table.py")
    module.test_a_formal_table_is_paid_for_or_says_that_no_ledger_heard_of_it(folder)


def the_account_is_not_charged(patch: Patch) -> None:
    patch.setattr(LedgerAccount, "spend", lambda *_: "Counted in a ledger")


def the_claim_does_not_say_so(patch: Patch) -> None:
    module = importlib.import_module("understudy.dp.account")
    patch.setattr(module, "UNHEARD", "The noise is Laplace's")


def forgotten_units(_: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        module_of("test_units.py").test_a_mechanism_that_forgets_the_unit_is_refused(patch)


def units_are_not_asked_for(patch: Patch) -> None:
    patch.setattr("understudy.synthesis.check_claim", lambda *_: None)


def figures_are_added_as_they_are(patch: Patch) -> None:
    def unchanged(cost: Cost, relation: Any, unit: str, _records: int) -> Cost:
        return replace(cost, relations=(relation,), unit=unit)

    patch.setattr(Cost, "under", unchanged)


def marked_refusals(folder: Path) -> None:
    module = module_of("release/test_check.py")
    values = [*module.GOOD, None]
    module.test_all_three_refuse_with_the_mark_and_nothing_is_spent(
        folder, values, "", "has missing values"
    )


def refusals_without_a_mark(patch: Patch) -> None:
    patch.setattr("understudy.internal_mark.INTERNAL", "see the manual")


# -- all of them ---------------------------------------------------------------------------------

SIXTY = "test_sixty_kills_of_a_release_give_one_value_for_one_payment"
EDITED = "test_an_edited_file_does_not_open_a_fresh_cap"
MIXING = "another record's log-likelihood"
SUMS = "test_sums_are_in_one_unit_and_one_relation"
PLANTED: list[tuple[int, Callable[[Patch], None], Callable[[Path], None]]] = [
    (4, noise_is_not_kept, payments(SIXTY)),
    (5, fingerprint_of_typed_values, ledger_test("test_order_names_and_storage_do_not_matter")),
    (5, fingerprint_of_typed_values, four_codebooks),
    (5, names_mean_nothing, ledger_test(EDITED, "a dollar")),
    (6, draws_are_not_compared, payments("test_other_draws_are_paid_for_again")),
    (7, the_same_seed_by_default, chance_test("test_seeds_that_are_left_out_differ_between_calls")),
    (7, any_bytes_are_a_secret, chance_test("test_only_random_bytes_of_length_count_as_a_secret")),
    (8, nobody_compares, references_from_the_file),
    (8, chance_explains_everything, disguises),
    (9, censored_is_always_formal, kind_of_censored),
    (10, no_records_are_changed, refused_model("anchored", MIXING)),
    (10, no_records_are_changed, refused_model("counting", MIXING)),
    (10, one_bit_is_changed, refused_model("two_apart", MIXING)),
    (10, priors_are_believed, refused_model("infinitely_wide", "prior of `mean` is improper")),
    (11, the_account_is_not_charged, heard_tables),
    (11, the_claim_does_not_say_so, heard_tables),
    (11, units_are_not_asked_for, forgotten_units),
    (11, figures_are_added_as_they_are, ledger_test(SUMS)),
    (11, consecutive_seeds, chance_test("test_every_use_has_chance_of_its_own")),
    (11, refusals_without_a_mark, marked_refusals),
]  # fmt: skip


@pytest.mark.any_noise
@pytest.mark.parametrize(
    ("plant", "defence"),
    [(plant, defence) for _, plant, defence in PLANTED],
    ids=[f"{number}-{plant.__name__}-{k}" for k, (number, plant, _) in enumerate(PLANTED)],
)
def test_a_planted_mistake_turns_its_defence_red(
    plant: Callable[[Patch], None], defence: Callable[[Path], None], tmp_path: Path
) -> None:
    for name in ("sound", "planted"):
        (tmp_path / name).mkdir()
    defence(tmp_path / "sound")
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(FAILURES):
            defence(tmp_path / "planted")


def test_the_table_names_all_eleven_and_where_they_are() -> None:
    rows = re.findall(r"^\| (\d+) [^|]+\| (?:(\S+\.py) `(\w+)`|here) \|$", __doc__ or "", re.M)
    assert [int(number) for number, _, _ in rows] == list(range(1, 12))
    assert {n for n, _, _ in PLANTED} == {int(number) for number, file, _ in rows if not file}
    for _, file, test in rows:
        assert not file or f"def {test}(" in (HERE / file).read_text(encoding="utf-8")
