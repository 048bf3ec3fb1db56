# The rstan side of bench/cases/mixture.py: the same mixture of regressions, on positive incomes.
#   Rscript mixture.R FOLDER DEEPEST WARMUP DRAWS SEED
# Starts where a chain of ours would start; trees are at most DEEPEST deep. The model is compiled once
# and kept in FOLDER, the draws go to FOLDER/draws.csv; prints the CPU seconds of the chain.
suppressMessages(library(rstan))
# Debian keeps Boost with the system's headers, and its BH package has none of its own.
if (!nzchar(rstan_options("boost_lib"))) rstan_options(boost_lib = "/usr/include")
given <- commandArgs(TRUE)
table_of <- function(name) unname(as.matrix(read.csv(file.path(given[1], name))))
deepest <- as.integer(given[2])
warmup <- as.integer(given[3])
draws <- as.integer(given[4])
seed <- as.integer(given[5])
records <- table_of("records.csv")
theta <- table_of("theta.csv")
components <- table_of("components.csv")
R <- ncol(theta)
K <- nrow(theta)
code <- "
data { int n; int K; int R; matrix[n, R] Q; vector[n] amount; matrix[R, R] L; }
parameters {
  real<lower=0> gamma;
  simplex[K] share;
  vector<lower=0.2>[K] sigma;
  vector<lower=0.02>[R] spread;
  matrix[K, R] theta;
}
model {
  matrix[n, K] mu = Q * theta';
  matrix[R, K] beta = mdivide_left_tri_low(L, theta');
  vector[K] log_share = log(share);
  gamma ~ gamma(1, 1);
  share ~ dirichlet(rep_vector(gamma / K, K));
  sigma ~ student_t(3, 0, 1);
  spread ~ student_t(3, 0, 1);
  for (r in 1:R) beta[r] ~ normal(0, spread[r]);
  for (i in 1:n) {
    vector[K] joint = log_share;
    for (k in 1:K) joint[k] += normal_lpdf(amount[i] | mu[i, k], sigma[k]);
    target += log_sum_exp(joint);
  }
}"
clock <- function() sum(proc.time()[c(1, 2, 4, 5)])  # CPU seconds, the compiler's too
kept <- file.path(given[1], "mixture.rds")
if (!file.exists(kept)) {
  model <- stan_model(model_code = code, save_dso = TRUE)
  saveRDS(model, kept)
} else model <- readRDS(kept)
initial <- function() {
  list(gamma = 1, share = components[, 1] / sum(components[, 1]), sigma = components[, 2],
       spread = table_of("spread.csv")[, 1], theta = theta)
}
given_data <- list(n = nrow(records), K = K, R = R, Q = records[, 1:R],
                   amount = records[, R + 1], L = table_of("L.csv"))
start <- clock()
fit <- sampling(model, data = given_data, chains = 1, warmup = warmup, iter = warmup + draws,
                refresh = 0, seed = seed, init = initial, control = list(max_treedepth = deepest))
sampled <- clock() - start
write.csv(as.matrix(fit), file.path(given[1], "draws.csv"), row.names = FALSE)
cat(sprintf("\n{\"sampling\": %f}\n", sampled))
