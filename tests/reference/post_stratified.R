# Writes post_stratified_r.csv: R survey's postStratify on the design's own strata, then svytotal,
# svymean and svyby. Run in this folder: Rscript post_stratified.R
suppressMessages(library(survey))
rows <- NULL
keep <- function(data, design, fpc, by, levels, where, statistic, found) {
  row <- data.frame(data, design, fpc, by, levels, where, statistic,
                    estimate = as.numeric(coef(found)), se = as.numeric(SE(found)))
  rows <<- rbind(rows, row)
}
statistics <- list(count = ~one, "mean(y)" = ~y, "total(y)" = ~y)
estimate <- function(statistic, d) {
  if (statistic == "mean(y)") svymean(~y, d, na.rm = TRUE) else
    svytotal(statistics[[statistic]], d, na.rm = TRUE)
}
all_of <- function(data, name, fpc, design, totals) {
  post <- postStratify(design, ~h, totals)
  for (statistic in names(statistics)) {
    keep(data, name, fpc, "", "", "", statistic, estimate(statistic, post))
    keep(data, name, fpc, "", "", "x > 45", statistic, estimate(statistic, subset(post, x > 45)))
    for (level in c("high", "low", "mid"))
      keep(data, name, fpc, "a", level, "", statistic, estimate(statistic, subset(post, a == level)))
    for (level in c("high", "low", "mid")) for (b_level in 1:2)
      keep(data, name, fpc, "a|b", paste(level, b_level, sep = "|"), "", statistic,
           estimate(statistic, subset(post, a == level & b == b_level)))
  }
}
d <- read.csv("data/stratified.csv")
d$one <- 1
sizes <- data.frame(h = sort(unique(d$h)))
sizes$Freq <- 1000 * seq_len(nrow(sizes))
all_of("stratified", "strata", "", svydesign(~1, strata = ~h, weights = ~w, data = d), sizes)
all_of("stratified", "strata", "N_h",
       svydesign(~1, strata = ~h, weights = ~w, fpc = ~N_h, data = d), sizes)
d <- read.csv("data/clustered.csv")
d$one <- 1
sizes <- data.frame(h = sort(unique(d$h)))
sizes$Freq <- 1000 * seq_len(nrow(sizes))
all_of("clustered", "cluster", "", svydesign(~cluster, strata = ~h, weights = ~w, data = d), sizes)
write.csv(format(rows, digits = 15, trim = TRUE), "post_stratified_r.csv", row.names = FALSE,
          quote = FALSE)
