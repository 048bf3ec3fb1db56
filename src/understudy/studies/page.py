"""Moved: see understudy.report.page."""

from __future__ import annotations

from understudy.report.page import (
    Fold as Fold,
    Grid as Grid,
    Heading as Heading,
    Part as Part,
    Picture as Picture,
    Points as Points,
    Words as Words,
    write_page as write_page,
)
