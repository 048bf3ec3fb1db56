# Writes comparisons_r.csv: contrasts between cells (svyby with covmat, svycontrast), design effects,
# Rao and Scott's test (svychisq) and t tests (svyttest). Run in this folder: Rscript comparisons.R
suppressMessages(library(survey))
options(warn = 1)
rows <- NULL
keep <- function(design, what, name, ...) {
  numbers <- unlist(list(...))
  rows <<- rbind(rows, data.frame(design, what, name, number = names(numbers),
                                  value = as.numeric(numbers)))
}
coefficients <- read.csv("data/jackknife_coefficients.csv")$coefficient
with_one <- function(name) transform(read.csv(file.path("data", paste0(name, ".csv"))), one = 1)
s <- with_one("stratified"); k <- with_one("clustered"); j <- with_one("jackknife")
designs <- list(
  strata_fpc_count = svydesign(~1, strata = ~h, weights = ~w, fpc = ~N_h, data = s),
  strata_psu = svydesign(~cluster, strata = ~h, weights = ~w, data = k),
  jkn_estimate = svrepdesign(data = j, weights = ~w, repweights = j[grep("^jkn[0-9]+$", names(j))],
    type = "JKn", scale = 1, rscales = coefficients, combined.weights = TRUE, mse = TRUE))
for (name in names(designs)) {
  d <- designs[[name]]
  for (statistic in c("mean(y)", "total(y)")) {
    f <- if (statistic == "mean(y)") svymean else svytotal
    # svyby stops at missing values when it is asked for covariances
    cells <- svyby(~y, ~a, subset(d, !is.na(y)), f, covmat = TRUE)
    found <- svycontrast(cells, list("low - high" = c(-1, 1, 0), "mid - high" = c(-1, 0, 1),
                                     "mid - low" = c(0, -1, 1), curve = c(0.5, -1, 0.5)))
    for (i in seq_along(coef(found)))
      keep(name, statistic, names(coef(found))[i], estimate = coef(found)[[i]], se = SE(found)[[i]])
  }
  whole <- d
  for (statistic in c("mean(y)", "total(y)", "mean(z)")) {
    x <- if (statistic == "mean(z)") ~z else ~y
    f <- if (statistic == "total(y)") svytotal else svymean
    keep(name, "deff", statistic, deff = deff(f(x, d, na.rm = TRUE, deff = TRUE))[[1]])
    keep(name, "deff low", statistic,
         deff = deff(f(x, subset(d, a == "low"), na.rm = TRUE, deff = TRUE))[[1]])
  }
  for (formula in list(~a + b, ~z + a)) {
    test <- svychisq(formula, d, statistic = "F")
    first <- svychisq(formula, d, statistic = "Chisq")
    keep(name, "association", paste(all.vars(formula), collapse = "|"),
         F = test$statistic[[1]], df = test$parameter[[1]], df_error = test$parameter[[2]],
         p = test$p.value[[1]], chi_square = first$statistic[[1]], p_first_order = first$p.value[[1]])
  }
  t2 <- svyttest(y ~ b, d)
  keep(name, "t_test", "y by b", t = t2$statistic[[1]], df = t2$parameter[[1]], p = t2$p.value[[1]],
       estimate = t2$estimate[[1]])
  t1 <- svyttest(I(x - 50) ~ 0, d)
  keep(name, "t_test", "x", t = t1$statistic[[1]], df = t1$parameter[[1]], p = t1$p.value[[1]],
       estimate = t1$estimate[[1]])
}
rows$value <- sprintf("%.17g", rows$value)
write.csv(rows, "comparisons_r.csv", row.names = FALSE, quote = FALSE)
