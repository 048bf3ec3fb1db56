# Writes stages_r.csv: later stages with their fpc, and unequal probabilities without replacement
# (Brewer, Hartley-Rao with the population's sum of squares). Run in this folder: Rscript stages.R
suppressMessages(library(survey))
options(warn = 2, survey.lonely.psu = "certainty")
rows <- NULL
keep <- function(design, statistic, where, found) {
  rows <<- rbind(rows, data.frame(design, statistic, where,
    estimate = as.numeric(coef(found)), se = as.numeric(SE(found))))
}
each <- function(name, design) {
  for (where in c("", "x > 45")) {
    d <- if (where == "") design else subset(design, x > 45)
    keep(name, "total(y)", where, svytotal(~y, d, na.rm = TRUE))
    keep(name, "mean(y)", where, svymean(~y, d, na.rm = TRUE))
    keep(name, "count", where, svytotal(~one, d))
  }
}
d <- read.csv("data/two_stage.csv")
d$one <- 1
each("two_stage", svydesign(~psu + ssu, strata = ~h, weights = ~w, fpc = ~M1 + M2, data = d))
each("two_stage_calibrated", {
  design <- svydesign(~psu + ssu, strata = ~h, weights = ~w, fpc = ~M1 + M2, data = d)
  calibrate(design, ~x, c("(Intercept)" = sum(d$w), x = 1.02 * sum(d$w * d$x)))
})
# probabilities from a size that depends on the PSU
psus <- sort(unique(d$psu))
d$p1 <- 0.1 + 0.5 * match(d$psu, psus) / length(psus)
each("two_stage_brewer", svydesign(~psu + ssu, weights = ~w, fpc = ~p1 + f2, pps = "brewer",
  data = transform(d, f2 = ave(ssu, psu, FUN = function(s) length(unique(s))) / M2)))
s <- read.csv("data/stratified.csv")
s$one <- 1
s$p <- 0.05 + 0.4 * s$x / 100
s$w <- 1 / s$p
each("brewer", svydesign(~1, strata = ~h, weights = ~w, fpc = ~p, pps = "brewer", data = s))
square_sum <- 37
hr <- svydesign(~1, fpc = ~p, pps = HR(square_sum / nrow(s)), variance = "YG", data = s)
each("hartley_rao", hr)
each("hartley_rao_estimated", svydesign(~1, fpc = ~p, pps = HR(), variance = "YG", data = s))
rows$estimate <- sprintf("%.17g", rows$estimate)
rows$se <- sprintf("%.17g", rows$se)
write.csv(rows, "stages_r.csv", row.names = FALSE, quote = FALSE)
