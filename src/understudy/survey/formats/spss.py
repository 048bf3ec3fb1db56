"""SPSS .sav (and compressed .zsav, read only): labels, value labels and missing codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from understudy.survey.labelled.format import Labelled

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.survey.survey import Survey


class Spss(Labelled):
    name = "SPSS"
    endings = (".sav", ".zsav")
    written = (".sav",)
    r_reads = "as.data.frame(haven::zap_labels(haven::read_sav(file)))"
    r_package = "haven"

    reader = "read_sav"
    day_format, moment_format = r"([AEJS]?DATE|MOYR|QYR|WKYR)\d", r"(DATETIME|YMDHMS)"
    days_to_1970 = 141428
    ticks_in_a_day = 86400
    ticks_in_a_second = 1
    tells_integers = False

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:
        from understudy.survey.labelled.write import write_sav

        write_sav(survey, codebook, path)
