"""Records over four devices (of the processor), in a process of their own; 103 of them, which four
does not divide."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import understudy as us
from understudy.fitting.record_devices import over_devices
from understudy.models.density import density_at

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np, polars as pl
import understudy as us
from understudy.fitting import nuts
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import log_density
from understudy.fitting.record_devices import over_devices, several_devices
from understudy.mechanisms.contract import plain_terms

assert jax.device_count() == 4
n = 103
y = np.random.default_rng(1).beta(2, 5, n)
column = us.Column("y", role="sensitive", bounds=(0.0, 1.0))
survey = us.Survey(pl.DataFrame({"y": y}), None, us.Codebook({"y": column}))
model = us.Beta("y").for_survey(survey)
settings = Settings(1000, chains=2, warmup=200)
fitter = ModelFitter(model, survey, model.prepare(survey), np.zeros(n, bool), settings, 3)
terms = plain_terms(fitter, np.linspace(0.4, 0.9, n), limit=1.0)
inputs = fitter._inputs(terms, None, None)
inputs["units"] = jnp.arange(n) // 2

# the same density and gradient, with every device holding a quarter
density, placed = over_devices(fitter.density, inputs)
assert not several_devices(inputs) and several_devices(placed)
assert {shard.data.shape for shard in placed["arrays"]["y"].addressable_shards} == {(26,)}
points = np.random.default_rng(2).normal([-1.0, 2.0], 0.3, (5, 2))
programs = [
    jax.jit(jax.value_and_grad(lambda q, of=of, given=given: log_density(of, q, given)))
    for of, given in ((density, placed), (fitter.density, inputs))
]
for point in points:
    ours, theirs = (program(point) for program in programs)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-10)
print("the same density")
"""

CHAINS = """
# chains by it have the posterior of a lattice that one device computed
posterior = fitter.fit(terms, "test")
assert not posterior.diagnostics.failures
draws = posterior.positions
centre, spread = draws.mean(axis=0), draws.std(axis=0)
steps = np.linspace(-6, 6, 61)
lattice = centre + spread * np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
own = fitter._inputs(terms, None, None)
height = np.asarray(jax.jit(jax.vmap(lambda q: log_density(fitter.density, q, own)))(lattice))
mass = np.exp(height - height.max())
mass /= mass.sum()
mean = mass @ lattice
error = spread / np.sqrt(posterior.diagnostics.least_ess_bulk)
assert (np.abs(centre - mean) < 6 * error).all(), (centre, mean, error)
assert (error < 0.12 * spread).all()
print("the same posterior")
"""


def said_on_four_devices(tmp_path: Path, program: str) -> str:
    script = tmp_path / "four_devices.py"
    script.write_text(program, encoding="utf-8")
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr


def test_with_one_device_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = jax.devices()[:1]
    monkeypatch.setattr(jax, "devices", lambda: alone)
    arrays = {"y": np.array([0.2, 0.4, 0.7])}
    density = density_at(us.Beta("y", (0.0, 1.0)), arrays)
    inputs = {"arrays": arrays, "alpha": np.ones(3)}
    assert over_devices(density, inputs)[1] is inputs


def test_four_devices_have_the_density_of_one(tmp_path: Path) -> None:
    assert said_on_four_devices(tmp_path, PROGRAM) == "the same density"


@pytest.mark.slow
def test_four_devices_have_the_posterior_of_one(tmp_path: Path) -> None:
    said = said_on_four_devices(tmp_path, PROGRAM + CHAINS)
    assert said.splitlines() == ["the same density", "the same posterior"]
