"""Record log-likelihoods of a Gaussian model, settled by cell and block of records.

For all records that share their predictors f_i is one quadratic function of the record's own
values, whatever the model's coordinates are. Its coefficients at a draw follow from the model's own
density at a few made-up records of the cell (dp/quadratics.py), and what is asked of many draws and
all records is then settled by block (dp/record_blocks.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from understudy.dp.quadratics import points, through
from understudy.dp.record_blocks import Quadratics, RecordBlocks, record_blocks
from understudy.models.contract import Arrays
from understudy.models.density import FEW_RECORDS, Density, density_at, loglik_at
from understudy.models.gaussian import GaussianModel

LEAST_PER_CELL = 64  # records on average; below it a pass over all of them costs less
CELLS, DRAWS = 32, 64  # whose coefficients are computed together

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CellQuadratics:
    """f of a record in each cell, as a function of (its values - origin) / unit."""

    model: GaussianModel
    X: Floats  # (cells, K)
    origin: Floats  # (d,)
    unit: Floats  # (d,)

    def at(self, positions: Floats, reference: Floats | None = None) -> Quadratics:
        """Coefficients (draws, q) of a cell's f at positions (draws, D), less those of f at the
        reference (D,)."""

        @lru_cache(maxsize=1)
        def group(number: int) -> Floats:
            return self._coefficients(number, positions)

        @lru_cache(maxsize=1)
        def of_reference(number: int) -> Floats:
            assert reference is not None
            return self._coefficients(number, reference[None])

        def of_cell(cell: int) -> Floats:
            number, rank = divmod(cell, CELLS)
            own = group(number)[:, rank]
            return own if reference is None else own - of_reference(number)[:, rank]

        return of_cell

    def _coefficients(self, number: int, positions: Floats) -> Floats:
        """(draws, CELLS, q) of a group of cells; the last group is filled up with the last cell,
        and the last draws with the last one, so that one program serves all."""
        made_up = points(len(self.unit)) * self.unit + self.origin
        q = len(made_up)
        cells = np.minimum(np.arange(CELLS) + number * CELLS, len(self.X) - 1)
        arrays: Arrays = {"X": np.repeat(self.X[cells], q, axis=0), "cell": np.repeat(cells, q)}
        for j, name in enumerate(self.model.targets):
            arrays[name] = np.tile(made_up[:, j], CELLS)
        density = density_at(self.model, arrays)
        draws = np.minimum(np.arange(-(-len(positions) // DRAWS) * DRAWS), len(positions) - 1)
        values = [
            np.asarray(loglik_at(density, positions[chosen], arrays))
            for chosen in draws.reshape(-1, DRAWS)
        ]
        return through(np.concatenate(values)[: len(positions)].reshape(-1, CELLS, q))


@dataclass(frozen=True, eq=False)
class GaussianRecords:
    """The records of one survey, in blocks."""

    quadratics: CellQuadratics
    blocks: RecordBlocks

    def lowest_and_highest(self, positions: Floats) -> tuple[Floats, Floats]:
        """f_i over the positions, (n,) each."""
        return self.blocks.lowest_and_highest(self.quadratics.at(positions))

    def clipped_sums(
        self, positions: Floats, reference: Floats | None, alpha: Floats, limit: float
    ) -> Floats:
        """sum_i clip(alpha_i (f_i - f_i(reference)), -limit, limit) at each position, (draws,)."""
        return self.blocks.clipped_sums(self.quadratics.at(positions, reference), alpha, limit)


def gaussian_records(
    density: Density, arrays: Arrays, units: object = None
) -> GaussianRecords | None:
    """None where a pass over the records is as cheap, or their order counts: few records, few of
    them in each cell, units, or another kind of model."""
    model = density.model
    if not isinstance(model, GaussianModel) or units is not None or density.n <= FEW_RECORDS:
        return None
    X, cell, _ = model.gaussian_cells(arrays)
    if density.n < LEAST_PER_CELL * len(X):
        return None
    values = np.stack([np.asarray(arrays[name]) for name in model.targets], axis=1)
    origin, unit = values.mean(axis=0), values.std(axis=0)
    return GaussianRecords(
        CellQuadratics(model, X, origin, unit), record_blocks(cell, values, origin, unit)
    )
