"""Weights that are adjusted for nonresponse inside each partition (V §3.2).

Weights that an agency adjusted over the whole file know the other records: one unit moves the
weights of all, and with them every partition. Here the file holds those who were asked, with the
weights of the design; in each partition the weight of those who did not answer is shared out among
those of the same class who did. A unit's answer then moves the weights of its own partition alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.survey.codebook import Codebook
from understudy.verify.exact_sums import exact_decimal
from understudy.verify.partitions import PARTITION

RESPONDED = "__responded"


@dataclass(frozen=True)
class Nonresponse:
    """`responded` is a condition, such as `status == 1`; `classes` are columns with levels."""

    responded: str
    classes: tuple[str, ...] = ()

    def check(self, codebook: Codebook) -> None:
        """Refuse classes without declared levels: records would make them."""
        for name in self.classes:
            if name not in codebook or not codebook[name].declared("levels"):
                raise Refused(
                    f"`{name}` cannot be a class of nonresponse; it needs levels that the codebook "
                    "declares."
                )

    def adjusted(self, table: ir.Table, weight: str, exact_weight: str) -> ir.Table:
        """The respondents of each partition, with the weight of their class in it.

        Sums are exact, so that a factor depends on its partition's records and not on their order.
        """
        answered: Any = table[RESPONDED]
        zero = ibis.literal(0).cast(table[exact_weight].type())
        cell = ibis.window(group_by=[table[PARTITION], *(table[name] for name in self.classes)])
        every = table[exact_weight].sum().over(cell).cast("float64")
        those = answered.ifelse(table[exact_weight], zero).sum().over(cell).cast("float64")
        made = table.mutate(**{weight: table[weight] * every / those})
        made = made.filter(made[RESPONDED])
        return made.mutate(**{exact_weight: exact_decimal(made[weight])})
