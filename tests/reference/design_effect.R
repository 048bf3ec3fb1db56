# Writes design_effect_r.csv: how many times as large the variance of a mean or a share is with the
# PSUs of data/psus.csv as without them, with the same weights and strata, and R's own deff where
# the file has neither (`flat`). Run in this folder: Rscript design_effect.R
suppressMessages(library(survey))
d <- read.csv(file.path("data", "psus.csv"))
d$one <- 1
rows <- NULL
for (weighted in c("no", "yes")) {
  w <- if (weighted == "yes") ~w else ~one
  with_psus <- svydesign(ids = ~psu, strata = ~h, weights = w, data = d)
  without <- svydesign(ids = ~1, strata = ~h, weights = w, data = d)
  flat <- svydesign(ids = ~psu, weights = ~one, data = d)
  for (name in c("y", "x", "b", "c", "d")) {
    term <- if (name %in% c("b", "c", "d")) paste0("factor(", name, ")") else name
    f <- as.formula(paste0("~", term))
    variance <- function(design) as.numeric(SE(svymean(f, design)))^2
    own <- as.numeric(deff(svymean(f, flat, deff = "replace")))
    rows <- rbind(rows, data.frame(weighted = weighted, column = name,
      level = seq_along(own) - 1, ratio = variance(with_psus) / variance(without), flat = own))
  }
}
for (name in c("ratio", "flat")) rows[[name]] <- sprintf("%.17g", rows[[name]])
write.csv(rows, "design_effect_r.csv", row.names = FALSE, quote = FALSE)
