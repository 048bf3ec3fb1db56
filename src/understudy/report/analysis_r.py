"""The R program of a release: survey package, one design per file, the combining rule in full.

The rule is that of `tables/combine.py`; statistics are those of `tabulate`, spelled as R survey
does (svytotal, svymean, svyratio, svyquantile within svyby).
"""

from __future__ import annotations

import json
import re
from typing import Any

from understudy.report.material import PublicFacts
from understudy.survey.codebook import Column
from understudy.survey.design import Design, Replicates
from understudy.survey.file_format import Format
from understudy.tables.statistics import Statistic, parse_statistic

PARTIAL = """\
combine <- function(q, u, design_df) {  # partial synthesis (Reiter 2003)
  m <- ncol(q)
  estimate <- rowMeans(q)
  ubar <- rowMeans(u)                   # within: mean of the sampling variances
  if (m == 1) return(limits(estimate, ubar, design_df))
  b <- apply(q, 1, var)                 # between: variance of the m estimates
  total <- ubar + b / m
  df <- total^2 / ((b / m)^2 / (m - 1) + ubar^2 / design_df)
  df[total == 0] <- design_df
  limits(estimate, total, df)
}"""

FULL = """\
combine <- function(q, u, design_df) {  # full synthesis (Raghunathan, Reiter, Rubin 2003)
  m <- ncol(q)
  estimate <- rowMeans(q)
  ubar <- rowMeans(u)                   # within: mean of the sampling variances
  if (m == 1) return(limits(estimate, ubar, design_df))
  b <- apply(q, 1, var)                 # between: variance of the m estimates
  total <- (1 + 1 / m) * b - ubar
  df <- total^2 / (((1 + 1 / m) * b)^2 / (m - 1) + ubar^2 / design_df)
  bad <- is.na(total) | total <= 0      # Reiter's adjusted form
  total[bad] <- ubar[bad]
  df[bad] <- design_df
  limits(estimate, total, df)
}"""

LIMITS = """\
limits <- function(estimate, variance, df) {
  se <- sqrt(variance)
  data.frame(estimate, se, df, lower = estimate - qt(0.975, df) * se,
             upper = estimate + qt(0.975, df) * se)
}"""

TABLE = """\
# The table: one svyby per statistic and file, then combined cell by cell.
tables <- lapply(designs, function(design) estimates(known_sizes(design)))
key <- function(table) do.call(paste, c(table[c(by, "statistic")], sep = " | "))
cells <- do.call(rbind, lapply(tables, `[`, c(by, "statistic")))
cells <- cells[!duplicated(key(cells)), , drop = FALSE]
column <- function(name) {
  values <- sapply(tables, function(table) table[[name]][match(key(cells), key(table))])
  values <- matrix(values, nrow = nrow(cells))
  values[is.na(values) & grepl("^(count$|total)", cells$statistic)] <- 0  # no record in a file
  values
}
table <- cbind(cells, combine(column("estimate"), column("variance"), design_df))
rownames(table) <- NULL
print(table)"""


def r_program(facts: PublicFacts, regression: tuple[Column, list[Column]] | None) -> str:
    """The whole program."""
    columns = list(facts.codebook.columns)
    # a codebook may be silent about a column; the statistics then name it themselves
    statistics = [parse_statistic(text, _named(text, columns)) for text in facts.statistics]
    by = list(facts.by) or ["All"]
    parts = [
        "library(survey)",
        f'options(survey.lonely.psu = "{facts.design.lonely_psu}")',
        _reading(facts, statistics, regression),
        _design(facts.design),
        _estimates(statistics, by),
        LIMITS,
        PARTIAL if facts.kind == "partial" else FULL,
        f"files <- {_files(facts)}\n"
        f"{_known_sizes(facts)}\n"
        "designs <- lapply(files, function(file) design_of(read_file(file)))\n"
        "design_df <- min(sapply(designs, degf))\n"
        f"by <- {_vector(by)}",
        TABLE,
    ]
    if regression is not None:
        parts.append(_regression(*regression))
    return "\n\n".join(parts) + "\n"


def read_in_r(facts: PublicFacts) -> Format:
    """The format that R reads without a package, or the first one that was asked for."""
    readable = [one for one in (*facts.formats[1:], facts.formats[0]) if one.r_reads]
    return min(readable, key=lambda one: one.r_package != "")


def _files(facts: PublicFacts) -> str:
    suffix = read_in_r(facts).written[0]
    stems = [re.sub(r"\.[A-Za-z]+$", "", name) for name in facts.files]
    stems = list(dict.fromkeys(stems))
    return _vector([stem + suffix for stem in stems])


def _reading(
    facts: PublicFacts,
    statistics: list[Statistic],
    regression: tuple[Column, list[Column]] | None,
) -> str:
    lines = ["read_file <- function(file) {", f"  data <- {read_in_r(facts).r_reads}"]
    for column in facts.codebook:
        if column.missing:
            codes = _vector(list(column.missing))
            place = f"data[[{_text(column.name)}]]"
            lines.append(f"  {place}[{place} %in% {codes}] <- NA")
    lines.append("  data$one <- 1")
    for number, statistic in enumerate(statistics, start=1):
        if statistic.kind == "proportion":
            value = f"data[[{_text(str(statistic.x))}]] == {_value(statistic.level)}"
            lines.append(f"  data$share{number} <- as.numeric({value})")
    if not facts.by:
        lines.append('  data$All <- "All"')
    for column in regression[1] if regression is not None else ():
        if column.type == "categorical":
            place = f"data[[{_text(column.name)}]]"
            lines.append(f"  {place} <- factor({place})")
    return "\n".join([*lines, "  data", "}"])


def _design(design: Design) -> str:
    if design.replicates is not None and design.weight is not None:
        return _replicate_design(design.weight, design.replicates)
    arguments = [f"ids = {_formula([design.psu]) if design.psu else '~1'}"]
    if design.strata:
        arguments.append(f"strata = {_formula([design.strata])}")
    weight = _formula([design.weight]) if design.weight else "rep(1, nrow(data))"
    arguments.append(f"weights = {weight}")
    if design.fpc:
        arguments.append(f"fpc = {_formula([design.fpc])}")
    if design.nest:
        arguments.append("nest = TRUE")
    return f"design_of <- function(data) {{\n  svydesign({', '.join(arguments)}, data = data)\n}}"


def _known_sizes(facts: PublicFacts) -> str:
    """Post-stratification where the weights add up to public stratum sizes, as `tabulate` does."""
    strata = facts.design.strata
    sizes = facts.codebook.population_by.get(strata or "", {})
    if not strata or not sizes or facts.design.replicates is not None:
        return "known_sizes <- function(design) design"
    public = ", ".join(f"{_text(str(level))} = {size!r}" for level, size in sizes.items())
    return (
        "known_sizes <- function(design) {  # strata whose sizes are public have no variance\n"
        f"  public <- c({public})\n"
        f"  strata <- design$variables[{_text(strata)}]\n"
        "  sizes <- aggregate(list(Freq = weights(design)), strata, sum)\n"
        "  known <- public[as.character(sizes[[1]])]\n"
        "  if (anyNA(known) || any(abs(sizes$Freq / known - 1) > 1e-6)) return(design)\n"
        f"  postStratify(design, {_formula([strata])}, sizes)\n"
        "}"
    )


def _replicate_design(weight: str, replicates: Replicates) -> str:
    lines = ["design_of <- function(data) {"]
    if replicates.columns is not None:
        lines.append(f"  names <- {_vector(list(replicates.columns))}")
    else:
        prefix = str(replicates.prefix)
        lines += [
            f"  number <- suppressWarnings(as.integer(sub({_text(prefix)}, "
            '"", names(data), fixed = TRUE)))',
            f"  chosen <- which(startsWith(names(data), {_text(prefix)}) & !is.na(number))",
            "  names <- names(data)[chosen[order(number[chosen])]]",
        ]
    kinds = {
        "brr": 'type = "BRR"',
        "fay": f'type = "Fay", rho = {replicates.fay}',
        "jk1": 'type = "JK1", scale = 1 - 1 / length(names), rscales = rep(1, length(names))',
        "jkn": f'type = "JKn", scale = 1, rscales = {_vector(list(replicates.coefficients or ()))}',
        "bootstrap": 'type = "bootstrap"',
        "sdr": 'type = "successive-difference"',
    }
    mse = "TRUE" if replicates.centre == "estimate" else "FALSE"
    lines += [
        f"  svrepdesign(data = data, weights = data[[{_text(weight)}]],",
        "              repweights = as.matrix(data[names]), combined.weights = TRUE,",
        f"              {kinds[replicates.kind]}, mse = {mse})",
        "}",
    ]
    return "\n".join(lines)


def _estimates(statistics: list[Statistic], by: list[str]) -> str:
    lines = [
        "rows <- function(statistic, found) {",
        "  data.frame(as.data.frame(found)[by], statistic = statistic,",
        "             estimate = as.numeric(coef(found)), variance = as.numeric(SE(found))^2,",
        "             check.names = FALSE)",
        "}",
        "estimates <- function(design) {",
        f"  cell <- {_formula(by)}",
        "  rbind(",
    ]
    calls = [
        f"    rows({_text(statistic.text)}, {_call(number, statistic)})"
        for number, statistic in enumerate(statistics, start=1)
    ]
    return "\n".join([*lines, ",\n".join(calls), "  )", "}"])


def _call(number: int, statistic: Statistic) -> str:
    names = [_name(name) for name in statistic.columns]
    match statistic.kind:
        case "count":
            return "svyby(~one, cell, design, svytotal)"
        case "total":
            return f"svyby(~{names[0]}, cell, design, svytotal, na.rm = TRUE)"
        case "mean":
            return f"svyby(~{names[0]}, cell, design, svymean, na.rm = TRUE)"
        case "proportion":
            return f"svyby(~share{number}, cell, design, svymean, na.rm = TRUE)"
        case "ratio":
            return (
                f"svyby(~{names[0]}, cell, design, svyratio, denominator = ~{names[1]}, "
                "na.rm = TRUE)"
            )
        case "quantile":
            return (
                f"svyby(~{names[0]}, cell, design, svyquantile,\n"
                f"         quantiles = {statistic.probability}, qrule = "
                '"math", df = degf(design), ci = TRUE,\n         vartype = "se", na.rm = TRUE)'
            )


def _regression(outcome: Column, predictors: list[Column]) -> str:
    left = f"log({_name(outcome.name)})" if outcome.transform == "log" else _name(outcome.name)
    formula = f"{left} ~ {' + '.join(_name(column.name) for column in predictors)}"
    return (
        "# A regression, combined coefficient by coefficient.\n"
        f"fits <- lapply(designs, function(design) svyglm({formula}, design = design))\n"
        "coefficients <- cbind(term = names(coef(fits[[1]])), combine(\n"
        "  matrix(sapply(fits, coef), ncol = length(fits)),\n"
        "  matrix(sapply(fits, function(fit) diag(vcov(fit))), ncol = length(fits)),\n"
        '  min(sapply(fits, `[[`, "df.residual"))))\n'
        "rownames(coefficients) <- NULL\n"
        "print(coefficients)"
    )


def _named(text: str, columns: list[str]) -> list[str]:
    words = re.findall(r"`([^`]+)`|([^\W\d][\w.]*)", text)
    return [*columns, *(quoted or bare for quoted, bare in words)]


def _formula(names: list[str]) -> str:
    return "~" + " + ".join(_name(name) for name in names)


def _name(name: str) -> str:
    """A name as R reads it in a formula."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.]*", name) else f"`{name}`"


def _vector(values: list[Any]) -> str:
    return "c(" + ", ".join(_value(value) for value in values) + ")"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
