"""A stratified PPS sample in the order of the file, to see what the order of selection does.

Systematic selection along a file that lists men before women in every field spreads the sample
over both, like strata of gender; in random order (doctorates.py) it does not.
"""

from __future__ import annotations

import numpy as np
import polars as pl

import understudy as us


def sample_in_file_order(persons: pl.DataFrame, n: int, rng: np.random.Generator) -> pl.DataFrame:
    """field, gender, salary, weight of n persons; `persons` has the column `size` too."""
    sizes = us.proportional_allocation(persons["field"].to_numpy(), n)
    parts = []
    for (field,), members in persons.group_by("field", maintain_order=True):
        pi = us.inclusion_probabilities(members["size"].to_numpy(), sizes[field])
        drawn = us.systematic_pps(pi, rng)
        chosen = members.select("field", "gender", "salary")[drawn.index]
        parts.append(chosen.with_columns(pl.Series("weight", 1.0 / drawn.inclusion)))
    return pl.concat(parts)
