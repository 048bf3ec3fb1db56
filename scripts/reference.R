# The numbers of R survey that the tests compare with.
#
#   Rscript scripts/reference.R [DIR]
#
# Reads tests/reference/designs.csv and tests/reference/data/*.csv and writes
# tests/reference/survey_r.csv (tables) and glm_r.csv (regressions). With DIR, the folder
# that `tests/reference/make_data.py --extract DIR` filled, it also writes the same two
# files for the public surveys (survey_r_public.csv, glm_r_public.csv) and stops if R does
# not give the published values. What the columns mean: tests/reference/README.md.

suppressMessages(library(survey))
options(warn = 2)  # a discarded replicate or a lonely PSU must not pass in silence

folder <- "tests/reference"
extracted <- commandArgs(trailingOnly = TRUE)
declared <- read.csv(file.path(folder, "designs.csv"), colClasses = "character",
                     na.strings = NULL)
QUANTILES <- c(0.25, 0.5, 0.9)

# ---- designs --------------------------------------------------------------------------

as_formula <- function(names) {
  names <- names[names != ""]
  if (length(names) == 0) NULL else reformulate(names)
}

taylor_design <- function(d, data) {
  psu <- as_formula(c(d$psu, d$ssu))
  weight <- if (d$weight == "") rep(1, nrow(data)) else data[[d$weight]]
  svydesign(ids = if (is.null(psu)) ~1 else psu, strata = as_formula(d$strata),
            weights = weight, fpc = as_formula(c(d$fpc, d$fpc2)),
            nest = d$nest == "yes", data = data)
}

replicate_design <- function(d, data) {
  number <- suppressWarnings(as.integer(substring(names(data), nchar(d$prefix) + 1)))
  chosen <- which(startsWith(names(data), d$prefix) & !is.na(number))
  chosen <- chosen[order(number[chosen])]
  replicates <- as.matrix(data[chosen])
  R <- length(chosen)
  arguments <- list(data = data, weights = data[[d$weight]], repweights = replicates,
                    combined.weights = TRUE, mse = d$centre == "estimate")
  more <- switch(d$kind,
    brr = list(type = "BRR"),
    fay = list(type = "Fay", rho = as.numeric(d$fay)),
    jk1 = list(type = "JK1", scale = (R - 1) / R, rscales = rep(1, R)),
    jkn = list(type = "JKn", scale = 1, rscales = read.csv(
      file.path(folder, "data", paste0(d$coefficients, ".csv")))$coefficient),
    bootstrap = list(type = "bootstrap"),
    sdr = list(type = "successive-difference"))
  do.call(svrepdesign, c(arguments, more))
}

make_design <- function(d, data) {
  if (d$prefix != "") return(replicate_design(d, data))
  design <- taylor_design(d, data)
  if (d$make == "") return(design)
  as.svrepdesign(design, type = c(jkn = "JKn", jk1 = "JK1", brr = "BRR")[[d$make]],
                 mse = d$centre == "estimate")
}

# ---- statistics -----------------------------------------------------------------------
# Each returns rows of (statistic, estimate, se, lower, upper, interval, note). `design` is
# the domain (a subset that keeps the full design's sizes), `df` belongs to the full design.

se_of <- function(result) as.numeric(sqrt(diag(as.matrix(attr(result, "var")))))

row_of <- function(text, estimate, se, df, lower = NA, upper = NA, interval = "", note = "") {
  if (interval == "") {
    lower <- estimate - qt(0.975, df) * se
    upper <- estimate + qt(0.975, df) * se
  }
  data.frame(statistic = text, estimate = estimate, se = se, lower = lower, upper = upper,
             interval = interval, note = note)
}

# R's rule "math" looks for the last cumulated weight at or below p and answers with the
# second smallest value where even the first is above p. Such limits are marked.
below_first <- function(values, weights, p) {
  values <- values[weights > 0]
  weights <- weights[weights > 0]
  order_of <- order(values)
  values <- values[order_of]
  length(values) > 1 && values[1] != values[2] && is.finite(p) &&
    p > 0 && p < weights[order_of[1]] / sum(weights)
}

quantile_rows <- function(variable, design, df, probabilities) {
  values <- design$variables[[variable]]
  types <- if (inherits(design, "svyrep.design")) c("mean", "quantile") else "mean"
  do.call(rbind, lapply(types, function(type) {
    do.call(rbind, lapply(probabilities, function(p) {
      found <- suppressWarnings(svyquantile(reformulate(variable), design, p, qrule = "math",
                                            interval.type = type, df = df))[[1]]
      estimate <- found[1]
      share <- svymean(as.numeric(values <= estimate), design)
      limit <- as.numeric(coef(share)) - qt(0.975, df) * se_of(share)
      marked <- below_first(values, weights(design, "sampling"), p) ||
        (type == "mean" && below_first(values, weights(design, "sampling"), limit))
      row_of(sprintf("quantile(%s, %s)", variable, p), estimate, found[4], df, found[2],
             found[3], type, if (marked) "first" else "")
    }))
  }))
}

statistic_rows <- function(s, design, df) {
  v <- design$variables
  used <- switch(s$kind, count = rep(TRUE, nrow(v)),
                 ratio = !is.na(v[[s$variable]]) & !is.na(v[[s$second]]),
                 !is.na(v[[s$variable]]))
  if (!any(used)) return(NULL)  # R has no answer for an empty domain
  design <- design[used, ]
  v <- design$variables
  rows <- switch(s$kind,
    count = {
      r <- svytotal(rep(1, nrow(v)), design)
      row_of("count", as.numeric(coef(r)), se_of(r), df)
    },
    total = {
      r <- svytotal(reformulate(s$variable), design)
      row_of(sprintf("total(%s)", s$variable), as.numeric(coef(r)), se_of(r), df)
    },
    mean = {
      r <- svymean(reformulate(s$variable), design)
      row_of(sprintf("mean(%s)", s$variable), as.numeric(coef(r)), se_of(r), df)
    },
    ratio = {
      r <- svyratio(reformulate(s$variable), reformulate(s$second), design)
      row_of(sprintf("ratio(%s / %s)", s$variable, s$second), as.numeric(r$ratio),
             as.numeric(sqrt(r$var)), df)
    },
    proportion = {
      r <- svymean(as.numeric(v[[s$variable]] == s$second), design)
      level <- if (is.numeric(s$second)) s$second else sprintf('"%s"', s$second)
      row_of(sprintf("proportion(%s == %s)", s$variable, level), as.numeric(coef(r)),
             se_of(r), df)
    },
    quantile = quantile_rows(s$variable, design, df, s$second))
  rows$n <- nrow(v)
  rows
}

# ---- domains and by-cells ---------------------------------------------------------------

cells_of <- function(by, v) {
  if (length(by) == 0) return(list(list(levels = "", rows = rep(TRUE, nrow(v)))))
  combinations <- unique(v[by])
  combinations <- combinations[do.call(order, unname(as.list(combinations))), , drop = FALSE]
  lapply(seq_len(nrow(combinations)), function(i) {
    wanted <- combinations[i, , drop = FALSE]
    keep <- Reduce(`&`, lapply(by, function(name) v[[name]] == wanted[[name]]))
    list(levels = paste(unlist(lapply(wanted, as.character)), collapse = "|"), rows = keep)
  })
}

table_rows <- function(d, data, statistics, views) {
  options(survey.ultimate.cluster = d$ssu != "",
          survey.lonely.psu = if (d$lonely_psu == "") "fail" else d$lonely_psu)
  design <- make_design(d, data)
  df <- degf(design)
  out <- list()
  for (view in views) {
    inside <- if (view$where == "") rep(TRUE, nrow(data)) else
      eval(parse(text = view$where), data)
    inside <- inside & !is.na(inside)
    for (cell in cells_of(view$by, data[inside, , drop = FALSE])) {
      keep <- inside
      keep[inside] <- cell$rows
      part <- if (all(keep)) design else design[keep, ]
      for (s in statistics) {
        rows <- statistic_rows(s, part, df)
        if (is.null(rows)) next
        out[[length(out) + 1]] <- cbind(
          data = d$data, design = d$design, where = view$where,
          by = paste(view$by, collapse = "|"), levels = cell$levels, rows, df = df)
      }
    }
  }
  do.call(rbind, out)
}

glm_rows <- function(d, data, models) {
  options(survey.ultimate.cluster = d$ssu != "")
  design <- make_design(d, data)
  do.call(rbind, lapply(models, function(m) {
    family <- if (m$family == "gaussian") gaussian() else quasibinomial()
    fit <- withCallingHandlers(
      svyglm(as.formula(m$formula), design, family = family,
             control = glm.control(epsilon = 1e-14, maxit = 100)),
      warning = function(w) if (grepl("zero weight", conditionMessage(w))) {
        invokeRestart("muffleWarning")  # about a dispersion that svyglm does not use
      })
    data.frame(data = d$data, design = d$design, family = m$family, formula = m$formula,
               term = names(coef(fit)), estimate = as.numeric(coef(fit)),
               se = as.numeric(sqrt(diag(vcov(fit)))), n = length(fit$y),
               df = fit$df.residual, design_df = degf(design))
  }))
}

# ---- writing ----------------------------------------------------------------------------

write_rows <- function(rows, name) {
  for (column in names(rows)) {
    if (is.numeric(rows[[column]])) {
      number <- sprintf("%.17g", rows[[column]])
      rows[[column]] <- ifelse(is.finite(rows[[column]]), number, "")
    }
  }
  texts <- c("where", "statistic", "levels", "formula", "term")
  write.table(rows, file.path(folder, name), sep = ",", row.names = FALSE,
              quote = which(names(rows) %in% texts), qmethod = "double")
  cat(name, nrow(rows), "rows\n")
}

pick <- function(kind, variable = "", second = "") {
  list(kind = kind, variable = variable, second = second)
}
view <- function(where = "", by = character()) list(where = where, by = by)

# ---- the generated surveys --------------------------------------------------------------

statistics <- list(
  pick("count"), pick("total", "y"), pick("mean", "y"), pick("ratio", "y", "x"),
  pick("proportion", "z", 1), pick("proportion", "a", "mid"),
  pick("quantile", "t", QUANTILES), pick("quantile", "y", QUANTILES))
views <- list(view(), view("x > 45"), view(by = "a"), view(by = c("a", "b")),
              view("x > 45", by = "a"))
lonely_views <- list(view(), view("x > 45"), view(by = "a"), view("x > 60"))
models <- list(list(family = "gaussian", formula = "y ~ x + a"),
               list(family = "binomial", formula = "z ~ x + b"))
WITH_GLM <- c("weight", "strata", "strata_psu", "strata_psu_fpc_count", "two_stage_strata_fpc",
              "brr_estimate", "brr_mean", "fay_estimate", "jkn_estimate", "jkn_mean",
              "jk1_estimate", "bootstrap_estimate", "bootstrap_mean", "sdr_estimate")

tables <- list()
regressions <- list()
for (i in seq_len(nrow(declared))) {
  d <- declared[i, ]
  path <- file.path(folder, "data", paste0(d$data, ".csv"))
  if (!file.exists(path)) next
  data <- read.csv(path)
  # BRR made by R depends on R's Hadamard matrix, except for the SE of totals
  chosen <- if (d$make == "brr") statistics[1:2]
    else if (d$make != "" || d$data == "lonely") statistics[1:6] else statistics
  tables[[i]] <- table_rows(d, data, chosen, if (d$data == "lonely") lonely_views else views)
  if (d$design %in% WITH_GLM) regressions[[i]] <- glm_rows(d, data, models)
}
write_rows(do.call(rbind, tables), "survey_r.csv")
write_rows(do.call(rbind, regressions), "glm_r.csv")

# ---- the public surveys -----------------------------------------------------------------

if (length(extracted) == 0) quit(save = "no")

whole <- list(view())
plan <- list(
  apistrat = list(
    views = list(view(), view(by = "stype"), view("api99 > 600", by = "awards")),
    statistics = list(pick("count"), pick("mean", "api00"), pick("mean", "api99"),
                      pick("total", "enroll"), pick("proportion", "awards", "Yes"),
                      pick("quantile", "api00", QUANTILES))),
  apiclus1 = list(
    views = list(view(), view(by = "stype"), view("api99 > 600")),
    statistics = list(pick("count"), pick("mean", "api00"), pick("total", "enroll"),
                      pick("ratio", "api.stu", "enroll"), pick("quantile", "api00", QUANTILES))),
  apiclus2 = list(
    views = list(view(), view(by = "awards"), view("meals > 40")),
    statistics = list(pick("count"), pick("mean", "api00"), pick("total", "enroll"),
                      pick("ratio", "api.stu", "enroll"), pick("quantile", "api00", QUANTILES))),
  hospital = list(views = whole,
    statistics = list(pick("count"), pick("mean", "births"), pick("total", "births"))),
  fpc = list(views = list(view(), view("x > 4")),
    statistics = list(pick("count"), pick("mean", "x"), pick("total", "x"))),
  nhanes2 = list(
    views = list(view(), view(by = "race"), view("region > 2"), view(by = c("region", "highbp"))),
    statistics = list(pick("count"), pick("mean", "zinc"), pick("total", "zinc"),
                      pick("proportion", "highlead", 1), pick("ratio", "zinc", "region"),
                      pick("quantile", "zinc", QUANTILES))),
  namcs = list(
    views = list(view(), view(by = "AGER"), view(by = c("AGER", "SEX")), view("AGE < 15")),
    statistics = list(pick("count"), pick("mean", "NUMMED"), pick("total", "NUMMED"),
                      pick("mean", "AGE"), pick("proportion", "SEX", "Female"))),
  nhanes2brr = list(
    views = list(view(), view(by = "region"), view("age > 50")),
    statistics = list(pick("count"), pick("mean", "weight"), pick("total", "female"),
                      pick("ratio", "weight", "height"), pick("mean", "zinc"),
                      pick("quantile", "weight", 0.5))),
  acs_hi = list(
    views = list(view(), view("AGEP < 5"), view(by = "SEX")),
    statistics = list(pick("count"), pick("mean", "AGEP"), pick("mean", "PINCP"))))
plan_models <- list(
  apistrat = list(list(family = "gaussian", formula = "api00 ~ ell + meals + mobility")),
  apiclus1 = list(list(family = "gaussian", formula = "api00 ~ ell + meals + mobility")),
  nhanes2 = list(list(family = "binomial", formula = "highbp ~ zinc + race"),
                 list(family = "gaussian", formula = "zinc ~ highbp + region")))

tables <- list()
regressions <- list()
for (i in seq_len(nrow(declared))) {
  d <- declared[i, ]
  path <- file.path(extracted[1], paste0(d$data, ".csv"))
  if (!(d$data %in% names(plan)) || !file.exists(path)) next
  data <- read.csv(path)
  tables[[i]] <- table_rows(d, data, plan[[d$data]]$statistics, plan[[d$data]]$views)
  if (d$data %in% names(plan_models)) {
    regressions[[i]] <- glm_rows(d, data, plan_models[[d$data]])
  }
}
tables <- do.call(rbind, tables)
regressions <- do.call(rbind, regressions)
write_rows(tables, "survey_r_public.csv")
write_rows(regressions, "glm_r_public.csv")

# ---- the published values -----------------------------------------------------------------

# Half a unit of the last printed digit, relative: 5e-5 unless the source prints fewer.
published <- function(data, design, statistic, estimate, se = NA, where = "", levels = "",
                      tolerance = 5e-5) {
  row <- tables[tables$data == data & tables$design == design & tables$statistic == statistic &
                tables$where == where & tables$levels == levels, ]
  if (nrow(row) != 1) stop("no such row: ", data, " ", statistic)
  same <- function(ours, theirs) is.na(theirs) || abs(ours / theirs - 1) < tolerance
  if (!same(row$estimate, estimate) || !same(row$se, se)) {
    stop("R does not give the published value: ", data, " ", statistic, " ",
         format(row$estimate, digits = 10), " ", format(row$se, digits = 10))
  }
}
published("apistrat", "public", "mean(api00)", 662.29, 9.4089)
published("apiclus1", "public", "mean(api00)", 644.17, 23.542)
published("apiclus1", "public", "total(enroll)", 3404940, 932235)
published("apiclus1", "public", "ratio(api.stu / enroll)", 0.8497087, 0.008386297,
          tolerance = 1e-7)
published("hospital", "public", "mean(births)", 1164.4, 215.28)
published("hospital", "public", "total(births)", 183983)
published("fpc", "public", "mean(x)", 5.4481, 0.7413, tolerance = 1e-4)
published("fpc", "public", "mean(x)", 6.195, where = "x > 4", tolerance = 1e-4)
# Stata's figure, whose replicated estimates have 32 bits: test_stata_rounding.py
published("nhanes2brr", "public_estimate", "mean(weight)", NA, 0.1656454)
published("nhanes2brr", "public_estimate", "total(female)", NA, 1396159, tolerance = 1e-6)
published("namcs", "public", "count", 117917e3, 14097e3, levels = "Under 15 years")
published("acs_hi", "public_estimate", "count", 86452, 944, where = "AGEP < 5",
          tolerance = 5e-4)
means <- tables[tables$data == "apistrat" & tables$levels == "" & tables$where == "", ]
growth <- means$estimate[means$statistic == "mean(api00)"] -
  means$estimate[means$statistic == "mean(api99)"]
if (abs(growth / 32.893 - 1) > 2e-5) stop("apistrat: growth")
slope <- regressions[regressions$data == "apistrat" & regressions$term == "meals", "estimate"]
if (abs(slope / -3.1415 - 1) > 2e-5) stop("apistrat: glm")
cat("all published values agree\n")
