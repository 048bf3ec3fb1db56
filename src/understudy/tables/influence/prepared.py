"""Everything public about an answer by influence, settled before a confidential record is read.

The released estimate, the influences of the synthetic files, the clip that they suggest, what it
cuts off there, and the design-based error: all from the synthetic files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.tables.influence.clip import Clip, Norm, choose_clip, clipped
from understudy.tables.influence.equation import ReleasedEquation
from understudy.tables.influence.question import InfluenceQuestion, SyntheticFile, released_at
from understudy.tables.influence.unit_sums import GRID

Floats = NDArray[np.float64]
ROUNDING = 1e-12  # a standard error below this part of the estimate is rounding


@dataclass(frozen=True, eq=False)
class PreparedInfluence:
    """Arrays have one entry per estimate, in the order of the questions."""

    questions: tuple[InfluenceQuestion, ...]
    released: tuple[ReleasedEquation, ...]
    estimates: Floats
    clip: Clip
    norm: Norm
    loss: Floats  # what clipping cuts off the sums of the synthetic files, on average
    sampling_se: Floats  # design-based, of the confidential estimate; the clip counts in it
    held_se: Floats  # of the corrected estimate but for the noise: clipped sampling error, tails
    constant: Floats  # taken off the sums: of totals without a public size
    per_unit: Floats  # the same, shared out among units whose number is public
    df: float
    heaviest: float  # share of the sampling variance that the heaviest 1 % of units make
    notes: tuple[str, ...] = field(default=())

    @property
    def steps(self) -> Floats:
        """How many grid steps a unit of each estimate is."""
        return np.asarray(GRID / (self.clip.size * self.sampling_se))

    @property
    def cut_se(self) -> Floats:
        """What clipping leaves in the differences."""
        return self.clip.cut_se * self.sampling_se

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for question in self.questions for name in question.names)


def prepare_influence(
    questions: Sequence[InfluenceQuestion],
    files: Sequence[SyntheticFile],
    noise_variance: float,
    norm: Norm,
    units: int | None = None,
) -> PreparedInfluence:
    """Settle an answer. `noise_variance` is that of one estimate for a clip of 1; `units` is the
    number of confidential units where it is public, else that of the synthetic files is taken."""
    solved = [released_at(question, files) for question in questions]
    released = tuple(at for at, _ in solved)
    constant = np.concatenate([at.constant for at in released])
    shared = units is not None
    per_file, unit_influences = [], []
    for number, file in enumerate(files):
        parts = [
            influence
            for question, (at, columns) in zip(questions, solved, strict=True)
            for influence in question.equation.influences(
                at, columns[number].columns, file.weight, columns[number].inside
            )
        ]
        made = np.column_stack([np.broadcast_to(part, file.weight.shape) for part in parts])
        per_file.append(made)
        unit_influences.append(file.by_unit(made) - (constant / file.units if shared else 0.0))
    size = np.array([file.units for file in files], dtype=np.float64)
    expected = float(units if units is not None else size.mean())
    # the confidential file's errors are those of a synthetic file of its size: a file of another
    # size has weights, and influences, that are larger or smaller by that ratio
    ratio = size / expected

    def variance(records: Sequence[Floats]) -> Floats:
        each = [np.diag(file.covariance(made)) for file, made in zip(files, records, strict=True)]
        return np.asarray(np.mean(each * ratio[:, None], axis=0))

    scale = np.sqrt(variance(per_file))
    estimates = np.concatenate([at.estimates for at in released])
    if not np.all(scale > ROUNDING * np.abs(estimates)):
        raise Refused(
            "The estimate has no sampling error in the synthetic files, so there is nothing to "
            "scale the noise by; ask about another one."
        )
    in_ses = [made * r / scale for made, r in zip(unit_influences, ratio, strict=True)]
    clip = choose_clip(np.concatenate(in_ses), expected, len(files), noise_variance, norm)
    cut = [
        (made - clipped(made, clip.size, norm)) * scale / r
        for made, r in zip(in_ses, ratio, strict=True)
    ]
    loss = np.mean([e.sum(axis=0) for e in cut], axis=0)
    held = variance([d - f.by_record(e) for f, d, e in zip(files, per_file, cut, strict=True)])
    # the loss that is put back has the spread of the synthetic files' tails, and their bias
    put_back = clip.spread**2 / (len(files) + 1) + clip.tail**2
    return PreparedInfluence(
        questions=tuple(questions),
        released=released,
        estimates=estimates,
        clip=clip,
        norm=norm,
        loss=loss,
        sampling_se=scale,
        held_se=np.sqrt(held + put_back * scale**2),
        constant=constant,
        per_unit=constant / expected if shared else np.zeros(len(constant)),
        df=min(file.df for file in files),
        heaviest=_heaviest(np.concatenate(in_ses)),
        notes=tuple(dict.fromkeys(at.note for at in released if at.note)),
    )


def _heaviest(influences: Floats) -> float:
    """The share of the sum of squares that the 1 % largest units make."""
    squares = np.sort((influences**2).sum(axis=1))[::-1]
    top = max(1, len(squares) // 100)
    return float(squares[:top].sum() / squares.sum()) if squares.sum() > 0 else 0.0
