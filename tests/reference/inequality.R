# Writes inequality_r.csv: gini, qsr and arpr of laeken on the generated surveys (laeken has no
# linearised variance; the tests derive it numerically). Run in this folder: Rscript inequality.R
suppressMessages(library(laeken))
rows <- NULL
for (name in c("stratified", "clustered")) {
  d <- read.csv(file.path("data", paste0(name, ".csv")))
  d$a <- factor(d$a)
  for (what in c("gini", "quintile_share_ratio", "poverty_rate")) {
    f <- list(gini = gini, quintile_share_ratio = qsr, poverty_rate = arpr)[[what]]
    scale <- if (what == "quintile_share_ratio") 1 else 100
    v <- f("x", weights = "w", breakdown = "a", data = d, na.rm = TRUE)
    rows <- rbind(rows, data.frame(data = name, statistic = what,
      level = c("", as.character(v$valueByStratum$stratum)),
      value = c(v$value, v$valueByStratum$value) / scale))
  }
}
rows$value <- sprintf("%.17g", rows$value)
write.csv(rows, "inequality_r.csv", row.names = FALSE, quote = FALSE)
