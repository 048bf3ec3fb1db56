# Writes calibrated_r.csv: R survey's calibrate (raking, linear, logit) on the generated surveys,
# then svytotal, svymean, svyratio and svyquantile's proportion. Run in this folder:
# Rscript calibrated.R
suppressMessages(library(survey))
options(warn = 2)
rows <- NULL
keep <- function(data, method, known, statistic, where, found) {
  rows <<- rbind(rows, data.frame(data, method, known, statistic, where,
    estimate = as.numeric(coef(found)), se = as.numeric(SE(found))))
}
each <- function(data, method, known, design) {
  for (where in c("", "x > 45", "a == 'low'")) {
    d <- if (where == "") design else subset(design, eval(parse(text = where)))
    keep(data, method, known, "total(y)", where, svytotal(~y, d, na.rm = TRUE))
    keep(data, method, known, "mean(y)", where, svymean(~y, d, na.rm = TRUE))
    keep(data, method, known, "count", where, svytotal(~one, d))
    keep(data, method, known, "ratio(y / x)", where, {
      r <- svyratio(~y, ~x, d, na.rm = TRUE)
      structure(as.numeric(r$ratio), var = r$var, class = "svystat", statistic = "ratio")
    })
  }
  g <- svyglm(y ~ x, design)
  rows <<- rbind(rows, data.frame(data, method, known, statistic = paste0("glm ", names(coef(g))),
    where = "", estimate = as.numeric(coef(g)), se = as.numeric(SE(g))))
}
surveys <- list(
  stratified = function(d) svydesign(~1, strata = ~h, weights = ~w, fpc = ~N_h, data = d),
  clustered = function(d) svydesign(~cluster, strata = ~h, weights = ~w, data = d))
for (data in names(surveys)) {
  d <- read.csv(file.path("data", paste0(data, ".csv")))
  d$one <- 1
  d$bf <- factor(d$b)
  design <- surveys[[data]](d)
  N <- sum(d$w)
  # totals away from those of the sample
  shares <- c(high = 0.2, low = 0.38, mid = 0.42)
  pb <- 1.1 * as.numeric(tapply(d$w, d$b, sum)); pb <- pb / sum(pb) * N * c(1.05, 0.95)[seq_along(pb)]
  pb <- pb / sum(pb) * N
  population <- c(N, (N * shares)[c("low", "mid")], pb[2])
  names(population) <- c("(Intercept)", "alow", "amid", "bf2")
  for (method in c("raking", "linear", "logit")) {
    bounds <- if (method == "logit") c(0.4, 2.5) else c(-Inf, Inf)
    cal <- calibrate(design, ~a + bf, population, calfun = method, bounds = bounds, epsilon = 1e-13,
                     maxit = 200)
    each(data, method, "base", cal)
    # the same final weights, the weights before calibration unknown
    d2 <- d
    d2$w <- as.numeric(weights(cal))
    d2$bf <- factor(d2$b)
    again <- calibrate(surveys[[data]](d2), ~a + bf, population, calfun = "linear")
    each(data, method, "final", again)
  }
  x_total <- 1.03 * sum(d$w * d$x)
  greg <- calibrate(design, ~x, c("(Intercept)" = N, x = x_total), calfun = "linear")
  each(data, "greg", "base", greg)
  rows <- rbind(rows, data.frame(data, method = "totals", known = c(names(population), "x"),
    statistic = "total", where = "", estimate = c(as.numeric(population), x_total), se = NA))
}
# replicate weights, each calibrated
d <- read.csv("data/jackknife.csv")
d$one <- 1
d$bf <- factor(d$b)
coefficients <- read.csv("data/jackknife_coefficients.csv")$coefficient
design <- svrepdesign(data = d, weights = ~w, repweights = d[grep("^jkn[0-9]+$", names(d))],
  type = "JKn", scale = 1, rscales = coefficients, combined.weights = TRUE, mse = TRUE)
N <- sum(d$w)
population <- c("(Intercept)" = N, bf2 = 0.55 * N)
cal <- calibrate(design, ~bf, population, calfun = "raking", epsilon = 1e-13, maxit = 200,
                 compress = FALSE)
for (where in c("", "x > 45")) {
  dd <- if (where == "") cal else subset(cal, x > 45)
  keep("jackknife", "raking", "base", "total(y)", where, svytotal(~y, dd, na.rm = TRUE))
  keep("jackknife", "raking", "base", "mean(y)", where, svymean(~y, dd, na.rm = TRUE))
}
rows <- rbind(rows, data.frame(data = "jackknife", method = "totals", known = names(population),
  statistic = "total", where = "", estimate = as.numeric(population), se = NA))
rows$estimate <- sprintf("%.17g", rows$estimate)
rows$se <- ifelse(is.na(rows$se), "", sprintf("%.17g", rows$se))
write.csv(rows, "calibrated_r.csv", row.names = FALSE, quote = FALSE)
