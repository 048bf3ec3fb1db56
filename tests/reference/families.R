# Writes families_r.csv: Poisson, probit, ordered and multinomial logit, and text outcomes. R survey
# has no multinomial model: its scores come from nnet's fit, and its variance from svytotal
# (Taylor) or withReplicates. Run in this folder: Rscript families.R
suppressMessages({library(survey); library(MASS); library(nnet)})
rows <- NULL
keep <- function(design, family, formula, names, estimate, se) {
  rows <<- rbind(rows, data.frame(design, family, formula, term = names, estimate, se))
}
tight <- glm.control(epsilon = 1e-14, maxit = 200)
coefficients <- read.csv("data/jackknife_coefficients.csv")$coefficient
fixed <- function(name) {
  d <- read.csv(file.path("data", paste0(name, ".csv")))
  d$af <- factor(d$a, levels = c("low", "mid", "high"), ordered = TRUE)
  d$xs <- d$x / 100  # svyolr takes its information by differences of 0.001
  d$a2 <- ifelse(d$a == "high", "up", "down")
  d[complete.cases(d[c("y", "z", "x", "a", "b")]), ]
}
s <- fixed("stratified"); k <- fixed("clustered"); j <- fixed("jackknife")
designs <- list(
  strata = svydesign(~1, strata = ~h, weights = ~w, data = s),
  strata_psu = svydesign(~cluster, strata = ~h, weights = ~w, data = k),
  jkn_estimate = svrepdesign(data = j, weights = ~w, repweights = j[grep("^jkn[0-9]+$", names(j))],
    type = "JKn", scale = 1, rscales = coefficients, combined.weights = TRUE, mse = TRUE))
multinomial <- function(weights, data) {
  data$wt <- weights / mean(weights)
  m <- multinom(af ~ x + b, data = transform(data, af = factor(as.character(af), levels = levels(af))),
                weights = wt, trace = FALSE, reltol = 1e-16, abstol = 1e-16, maxit = 2000)
  list(b = as.vector(t(coef(m))), p = fitted(m), X = model.matrix(~x + b, data))
}
for (name in names(designs)) {
  d <- designs[[name]]
  add <- function(family, formula, fit) keep(name, family, formula, names(coef(fit)),
    as.numeric(coef(fit)), as.numeric(SE(fit)))
  add("poisson", "t ~ x + b", svyglm(t ~ x + b, d, family = quasipoisson(), control = tight))
  add("probit", "z ~ x + b", svyglm(z ~ x + b, d, family = quasibinomial("probit"), control = tight))
  add("binomial", "a2 ~ x", svyglm(I(a2 == "up") ~ x, d, family = quasibinomial(), control = tight))
  o <- svyolr(af ~ xs + b, d, control = list(reltol = 1e-16, maxit = 1000))
  se <- sqrt(diag(vcov(o)))
  ordered_by <- function(w, data) {
    data$wt <- w / mean(w)
    m <- suppressWarnings(polr(af ~ xs + b, data = data, weights = wt,
                               control = list(reltol = 1e-16, maxit = 1000)))
    c(m$coefficients, m$zeta)
  }
  # svyolr's variance by replicates is that of its optimiser's noise (4.1.1): they are refitted here
  if (inherits(d, "svyrep.design")) se <- as.numeric(SE(withReplicates(d, ordered_by)))
  keep(name, "ordered", "af ~ xs + b", c(names(o$coefficients), names(o$zeta)),
       ordered_by(weights(d, "sampling"), d$variables), se)
  data <- d$variables
  fit <- multinomial(weights(d, "sampling"), data)
  labels <- as.vector(outer(colnames(fit$X), c("mid", "high"), function(t, l) paste0(l, ": ", t)))
  if (inherits(d, "svyrep.design")) {
    r <- withReplicates(d, function(w, data) multinomial(w, data)$b)
    se <- as.numeric(SE(r))
  } else {
    w <- weights(d, "sampling")
    y <- outer(as.character(data$af), c("mid", "high"), "==") + 0
    p <- fit$p[, c("mid", "high")]
    u <- cbind(fit$X * (y - p)[, 1], fit$X * (y - p)[, 2])
    H <- rbind(cbind(crossprod(fit$X, w * p[, 1] * (1 - p[, 1]) * fit$X),
                     -crossprod(fit$X, w * p[, 1] * p[, 2] * fit$X)),
               cbind(-crossprod(fit$X, w * p[, 1] * p[, 2] * fit$X),
                     crossprod(fit$X, w * p[, 2] * (1 - p[, 2]) * fit$X)))
    se <- sqrt(diag(vcov(svytotal(u %*% solve(H), d))))
  }
  keep(name, "multinomial", "af ~ x + b", labels, fit$b, se)
}
rows$estimate <- sprintf("%.17g", rows$estimate)
rows$se <- sprintf("%.17g", rows$se)
write.csv(rows, "families_r.csv", row.names = FALSE, quote = FALSE)
