"""Everything public about an answer by influence, settled before a confidential record is read.

The released estimate, the influences of the synthetic files, the clip that they suggest, what it
cuts off there, and the design-based error: all from the synthetic files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

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
    sampling_se: Floats  # design-based, of the confidential estimate
    scale: Floats  # what the clip counts in: a standard error, but for units outside of the domain
    held_se: Floats  # of the corrected estimate but for the noise: clipped sampling error, tails
    constant: Floats  # taken off the sums: of totals without a public size
    per_unit: Floats  # the same, shared out among units whose number is public
    cut_se: Floats  # what clipping, and jumps of the estimate, leave in the differences
    df: float
    heaviest: float  # share of the sampling variance that the heaviest 1 % of units make
    equal_weights: bool  # whether the synthetic files have weights, all of them the same
    notes: tuple[str, ...] = field(default=())

    @property
    def steps(self) -> Floats:
        """How many grid steps a unit of each estimate is."""
        return np.asarray(GRID / (self.clip.size * self.scale))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for question in self.questions for name in question.names)


@dataclass(frozen=True, eq=False)
class MeasuredInfluence:
    """The synthetic files' influences on the estimates: what every clip is judged by."""

    questions: tuple[InfluenceQuestion, ...]
    files: tuple[SyntheticFile, ...]
    released: tuple[ReleasedEquation, ...]
    by_record: tuple[Floats, ...]  # (records, k) of each file
    by_unit: tuple[Floats, ...]  # (units, k), less the number per unit
    constant: Floats
    expected: float  # units of the confidential file
    shared: bool  # whether that is public, and the constant is shared out

    @property
    def ratio(self) -> Floats:
        """The sizes of the files in sizes of the confidential one: a file of another size has
        weights, and influences, that are larger or smaller by that ratio."""
        return np.array([file.units for file in self.files]) / self.expected

    @cached_property
    def sampling_se(self) -> Floats:
        """Of an estimate from a file of the confidential one's size."""
        if not self.varies.all():
            raise Refused(
                "The estimate has no sampling error in the synthetic files, so there is nothing to "
                "scale the noise by; ask about another one."
            )
        return self._error

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """Which of the estimates have a sampling error in the synthetic files."""
        estimates = np.concatenate([at.estimates for at in self.released])
        return np.asarray(self._error > ROUNDING * np.abs(estimates))

    @cached_property
    def _error(self) -> Floats:
        return np.sqrt(self.variance(self.by_record))

    @cached_property
    def scale(self) -> Floats:
        """Standard errors times sqrt(n/n_j), with n_j units that have an influence on estimate j:
        the cells of a table then have noise of the size of their own units' influences."""
        active = [
            np.count_nonzero(file.by_unit(made), axis=0) / file.units
            for file, made in zip(self.files, self.by_record, strict=True)
        ]
        share = np.maximum(np.mean(active, axis=0), 1e-12)
        return np.asarray(self.sampling_se / np.sqrt(share))

    def only(self, kept: NDArray[np.int64]) -> MeasuredInfluence:
        """The same for some of the questions, each of which has one estimate."""
        return replace(
            self,
            questions=tuple(self.questions[k] for k in kept),
            released=tuple(self.released[k] for k in kept),
            by_record=tuple(made[:, kept] for made in self.by_record),
            by_unit=tuple(made[:, kept] for made in self.by_unit),
            constant=self.constant[kept],
        )

    def variance(self, records: Sequence[Floats]) -> Floats:
        each = [
            np.diag(file.covariance(made)) for file, made in zip(self.files, records, strict=True)
        ]
        return np.asarray(np.mean(each * self.ratio[:, None], axis=0))

    def prepared(self, noise_variance: float, norm: Norm) -> PreparedInfluence:
        """Settle the clip; `noise_variance` is that of one estimate for a clip of 1."""
        scale, ratio = self.scale, self.ratio
        in_ses = [made * r / scale for made, r in zip(self.by_unit, ratio, strict=True)]
        whole = np.concatenate(in_ses)
        clip = choose_clip(
            whole, self.expected, len(self.files), noise_variance, norm,
            (scale / self.sampling_se) ** 2,
        )  # fmt: skip
        cut = [
            (made - clipped(made, clip.size, norm)) * scale / r
            for made, r in zip(in_ses, ratio, strict=True)
        ]
        held = self.variance(
            [
                made - file.by_record(e)
                for file, made, e in zip(self.files, self.by_record, cut, strict=True)
            ]
        )
        # the loss that is put back has the spread of the synthetic files' tails, and their bias
        put_back = clip.spread**2 / (len(self.files) + 1) + clip.tail**2
        constant = self.constant
        jumps = [np.tile(at.remainder, (len(at.constant), 1)) for at in self.released]
        corrected, difference = np.concatenate(jumps).T
        return PreparedInfluence(
            questions=self.questions,
            released=self.released,
            estimates=np.concatenate([at.estimates for at in self.released]),
            clip=clip,
            norm=norm,
            loss=np.mean([e.sum(axis=0) for e in cut], axis=0),
            sampling_se=self.sampling_se,
            scale=scale,
            held_se=np.sqrt(held + put_back * scale**2 + corrected**2),
            constant=constant,
            per_unit=constant / self.expected if self.shared else np.zeros(len(constant)),
            cut_se=np.hypot(clip.cut_se * scale, difference),
            df=min(file.df for file in self.files),
            heaviest=_heaviest(whole),
            equal_weights=all(f.weight.min() == f.weight.max() != 1 for f in self.files),
            notes=tuple(dict.fromkeys(at.note for at in self.released if at.note)),
        )


def measure_influence(
    questions: Sequence[InfluenceQuestion],
    files: Sequence[SyntheticFile],
    units: int | None = None,
) -> MeasuredInfluence:
    """The influences of synthetic files; `units` is the number of confidential units where it is
    public, else that of the synthetic files is taken."""
    solved = [released_at(question, files) for question in questions]
    constant = np.concatenate([at.constant for at, _ in solved])
    by_record, by_unit = [], []
    for number, file in enumerate(files):
        parts = [
            influence
            for question, (at, columns) in zip(questions, solved, strict=True)
            for influence in question.equation.influences(
                at, columns[number].columns, file.drawn_weight, columns[number].inside
            )
        ]
        made = np.column_stack([np.broadcast_to(part, file.weight.shape) for part in parts])
        by_record.append(made)
        by_unit.append(file.by_unit(made) - (constant / file.units if units is not None else 0.0))
    size = float(np.mean([file.units for file in files]))
    return MeasuredInfluence(
        questions=tuple(questions),
        files=tuple(files),
        released=tuple(at for at, _ in solved),
        by_record=tuple(by_record),
        by_unit=tuple(by_unit),
        constant=constant,
        expected=size if units is None else float(units),
        shared=units is not None,
    )


def _heaviest(influences: Floats) -> float:
    """The share of the sum of squares that the 1 % largest units make."""
    squares = np.sort((influences**2).sum(axis=1))[::-1]
    top = max(1, len(squares) // 100)
    return float(squares[:top].sum() / squares.sum()) if squares.sum() > 0 else 0.0
