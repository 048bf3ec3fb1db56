# The rstan side of fbs_speed.py: FBS with T's priors for Sigma and N(0, 10^2) coefficients.
# All records in one vectorised statement, which is far faster in Stan than record by record.
# Prints seconds of compiling, seconds of sampling (600 + 1000 iterations, one chain), least ESS.
suppressMessages(library(rstan))
# Debian keeps Boost with the system's headers, and its BH package has none of its own.
if (!nzchar(rstan_options("boost_lib"))) rstan_options(boost_lib = "/usr/include")
records <- as.matrix(read.csv(commandArgs(TRUE)[1]))
K <- ncol(records) - 2
code <- "
data { int<lower=1> n; int<lower=1> K; matrix[n, K] X; vector[2] Y[n]; }
parameters { matrix[K, 2] B; vector<lower=0>[2] scale; cholesky_factor_corr[2] L; }
model {
  matrix[n, 2] fitted = X * B;
  vector[2] mu[n];
  matrix[2, 2] factor = diag_pre_multiply(scale, L);
  for (i in 1:n) mu[i] = to_vector(fitted[i]);
  to_vector(B) ~ normal(0, 10);
  scale ~ student_t(3, 0, 10);
  L ~ lkj_corr_cholesky(6);
  Y ~ multi_normal_cholesky(mu, factor);
}"
seconds <- function(from) as.numeric(Sys.time() - from, units = "secs")
start <- Sys.time()
model <- stan_model(model_code = code)
compiling <- seconds(start)
initial <- function() {
  list(B = rbind(c(11.5, 0), matrix(0, K - 1, 2)), scale = c(.6, .6), L = diag(2))
}
start <- Sys.time()
fit <- sampling(model, data = list(n = nrow(records), K = K, X = records[, 1:K],
                                   Y = records[, K + 1:2]),
                chains = 1, warmup = 600, iter = 1600, refresh = 0, init = initial)
sampled <- seconds(start)
cat("\n", compiling, sampled, min(summary(fit)$summary[, "n_eff"], na.rm = TRUE), "\n")
