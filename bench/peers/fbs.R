# The rstan side of bench/cases/fbs.py: FBS with T's priors for Sigma and N(0, 10^2) coefficients.
#   Rscript fbs.R FOLDER sums|records KEPT
# `sums` goes through X'X, X'Y and Y'Y, which it makes itself, `records` through every record. A model
# is compiled once and kept in the file KEPT, unless this program is newer. Writes the draws, and prints CPU seconds of compiling (0 where
# it was kept) and of sampling: 600 + 1000 iterations, one chain.
suppressMessages(library(rstan))
# Debian keeps Boost with the system's headers, and its BH package has none of its own.
if (!nzchar(rstan_options("boost_lib"))) rstan_options(boost_lib = "/usr/include")
folder <- commandArgs(TRUE)[1]
way <- commandArgs(TRUE)[2]
records <- as.matrix(read.csv(file.path(folder, "records.csv")))
K <- ncol(records) - 2
priors <- "
  to_vector(B) ~ normal(0, 10);
  scale ~ student_t(3, 0, 10);
  L ~ lkj_corr_cholesky(6);"
parameters <- "parameters { matrix[K, 2] B; vector<lower=0>[2] scale; cholesky_factor_corr[2] L; }"
code <- list(
  records = paste0("data { int<lower=1> n; int<lower=1> K; matrix[n, K] X; vector[2] Y[n]; }",
    parameters, "
model {
  matrix[n, 2] fitted = X * B;
  vector[2] mu[n];
  for (i in 1:n) mu[i] = to_vector(fitted[i]);", priors, "
  Y ~ multi_normal_cholesky(mu, diag_pre_multiply(scale, L));
}"),
  sums = paste0("data { int n; int K; matrix[K, K] XX; matrix[K, 2] XY; matrix[2, 2] YY; }",
    parameters, "
model {
  matrix[2, 2] factor = diag_pre_multiply(scale, L);
  matrix[2, 2] rest = YY - B' * XY - XY' * B + B' * XX * B;", priors, "
  target += -n * sum(log(diagonal(factor)))
    - 0.5 * trace(mdivide_left_tri_low(factor, mdivide_left_tri_low(factor, rest)'));
}"))
clock <- function() sum(proc.time()[c(1, 2, 4, 5)])  # CPU seconds, the compiler's too
start <- clock()
kept <- commandArgs(TRUE)[3]
program <- sub("--file=", "", grep("--file=", commandArgs(), value = TRUE))
if (!file.exists(kept) || file.mtime(kept) < file.mtime(program)) {
  model <- stan_model(model_code = code[[way]], save_dso = TRUE)
  saveRDS(model, kept)
} else model <- readRDS(kept)
compiling <- clock() - start
X <- records[, 1:K]
Y <- records[, K + 1:2]
initial <- function() {
  list(B = rbind(c(11.5, 0), matrix(0, K - 1, 2)), scale = c(.6, .6), L = diag(2))
}
start <- clock()
given_data <- if (way == "records") list(n = nrow(X), K = K, X = X, Y = Y) else
  list(n = nrow(X), K = K, XX = crossprod(X), XY = crossprod(X, Y), YY = crossprod(Y))
fit <- sampling(model, data = given_data, chains = 1, warmup = 600, iter = 1600, refresh = 0,
                init = initial)
sampled <- clock() - start
write.csv(as.matrix(fit)[, 1:(2 * K + 2)], file.path(folder, "draws.csv"), row.names = FALSE)
cat(sprintf("\n{\"compiling\": %f, \"sampling\": %f}\n", compiling, sampled))
