"""Synthetic files as T §2 makes them, from the draws of any fit; and T's pictures of weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import understudy as us
from understudy_studies.framework import Vector


def paper_files(
    result: us.Synthesis, model: Any, survey: us.Survey, count: int, seed: int
) -> list[dict[str, Vector]]:
    """y* and smoothed weights scaled to N, of `count` spaced draws (`tables="paper"`)."""
    if result.posterior is None:
        raise us.Refused("The release has no posterior draws to make files from.")
    paper = replace(model, tables="paper").for_survey(survey)
    arrays = paper.prepare(survey)
    density = us.density_of(paper, arrays)
    outcome, weight = paper.sensitive
    files = []
    for number, position in enumerate(result.posterior.spaced(count)):
        key = jax.random.fold_in(jax.random.key(seed), number)
        made = _generate(density, key, jnp.asarray(position), arrays)
        columns = paper.restore({k: np.asarray(v) for k, v in made.items()}, survey)
        files.append({"y": columns[outcome].to_numpy(), "w": columns[weight].to_numpy()})
    return files


@partial(jax.jit, static_argnums=0)
def _generate(density: us.Density, key: Array, position: Array, arrays: Any) -> dict[str, Array]:
    return density.generate(key, position, arrays)


def weight_pictures(
    model: us.OutcomeModel, result: us.Synthesis, smoothed: dict[str, Vector], survey: us.Survey
) -> dict[str, Vector]:
    """What T's Figures 4, 8 and 9 show: salaries with confidential, synthesized and smoothed
    weights, all scaled to the same total."""
    frame = survey.frame(["salary", "weight"])
    name = type(model).__name__
    synthesized = synthesized_weights(model, result.draws[0], smoothed, survey)
    total = smoothed["w"].sum()
    return {
        "confidential_y": frame["salary"].to_numpy(),
        "confidential_w": frame["weight"].to_numpy(),
        f"{name}_y": smoothed["y"],
        f"{name}_smoothed": smoothed["w"],
        f"{name}_synthesized": synthesized * total / synthesized.sum(),
    }


def synthesized_weights(
    model: us.OutcomeModel, draw: dict[str, Any], smoothed: dict[str, Vector], survey: us.Survey
) -> Vector:
    """Weights drawn given the synthetic salaries: T eq. 5 for FBP, and eq. 2 for FBS, whose
    smoothed weights are the mean of that distribution of log w."""
    z = np.random.default_rng(0).standard_normal(len(smoothed["w"]))
    if isinstance(model, us.FBP):
        design = np.asarray(model.for_survey(survey).prepare(survey)["X"]) @ draw["kappa_x"]
        log_pi = draw["kappa_y"] * np.log(smoothed["y"]) + design + draw["sigma_pi"] * z
        return np.asarray(np.exp(-log_pi))
    spread = draw["scale"][-1] * draw["correlation"][-1, -1]
    return np.asarray(smoothed["w"] * np.exp(spread * z))
