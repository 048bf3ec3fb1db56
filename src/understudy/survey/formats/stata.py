"""Stata .dta: labels, value labels, and missing codes as .a to .z."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from understudy.survey.labelled.format import Labelled

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.survey.survey import Survey


class Stata(Labelled):
    name = "Stata"
    endings = (".dta",)
    written = (".dta",)
    r_reads = "as.data.frame(haven::zap_labels(haven::read_dta(file)))"
    r_package = "haven"

    reader = "read_dta"
    day_format, moment_format = r"%-?(td|d)", r"%-?t[cC]"
    days_to_1970 = 3653
    ticks_in_a_day = 1
    ticks_in_a_second = 1000
    tells_integers = True

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:
        from understudy.survey.labelled.write import write_stata

        write_stata(survey, codebook, path)
