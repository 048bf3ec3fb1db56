# The rstan side of mixture_speed.py: the same mixture of regressions, on positive incomes.
#   Rscript mixture_speed.R FOLDER DEEPEST WARMUP DRAWS SEED
# Starts where a chain of ours would start; trees are at most DEEPEST deep. Says at once what it has
# measured, because it may be stopped: CPU seconds of compiling, of one gradient, then of the chain
# with its number of leapfrog steps. The draws go to FOLDER/draws.csv, what they cost to
# FOLDER/cost.csv.
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
seconds <- function(from) clock() - from
say <- function(...) { cat("\n", ..., "\n"); flush(stdout()) }
start <- clock()
model <- stan_model(model_code = code)
say("compiled", seconds(start))
initial <- function() {
  list(gamma = 1, share = components[, 1] / sum(components[, 1]), sigma = components[, 2],
       spread = table_of("spread.csv")[, 1], theta = theta)
}
given_data <- list(n = nrow(records), K = K, R = R, Q = records[, 1:R],
                   amount = records[, R + 1], L = table_of("L.csv"))
empty <- suppressMessages(sampling(model, data = given_data, chains = 0))
point <- unconstrain_pars(empty, initial())
start <- clock()
for (repeated in 1:20) grad_log_prob(empty, point)
say("gradient", seconds(start) / 20)
start <- clock()
fit <- sampling(model, data = given_data, chains = 1, warmup = warmup, iter = warmup + draws,
                refresh = 1, seed = seed, init = initial, control = list(max_treedepth = deepest))
sampled <- seconds(start)
steps <- sum(get_sampler_params(fit, inc_warmup = TRUE)[[1]][, "n_leapfrog__"])
write.csv(as.matrix(fit), file.path(given[1], "draws.csv"), row.names = FALSE)
write.csv(data.frame(seconds = sampled, steps = steps, iterations = warmup + draws),
          file.path(given[1], "cost.csv"), row.names = FALSE)
say("sampled", sampled, steps)
