"""A synthetic file that knows the set of noisy tables, or the draw, that it was made from."""

from __future__ import annotations

from typing import Self

from understudy.survey.survey import Survey


class DrawnFile(Survey):
    """One file of set `dataset`, from 1 on.

    `stands_for` is how many records of the confidential sample each of its records stands for: 1 in
    a released file, n/N in a further file for which N records were drawn. The sampling error of an
    estimate is that of the sample, however many records are drawn from its tables, so variances of
    a file with N records are divided by `stands_for`. `where` is the condition that all of its
    records meet.
    """

    dataset: int
    stands_for: float
    where: str | None

    @classmethod
    def of(
        cls, survey: Survey, dataset: int, stands_for: float = 1.0, where: str | None = None
    ) -> Self:
        """The same survey, which was checked when it was made."""
        made = cls.__new__(cls)
        made.__dict__.update(survey.__dict__)
        made.dataset, made.stands_for, made.where = dataset, stands_for, where
        return made
