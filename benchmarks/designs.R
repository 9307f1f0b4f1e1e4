# What R's packages say of surveys with randomised answers, and the counts that they say it of.
#
#   Rscript benchmarks/designs.R PACKAGES OUT
#
# PACKAGES holds the unpacked sources of RRTCS, RRreg, GLMMRR and rr; only their R code and data are
# read. Writes designs_r.csv and design_counts.csv, which `python -m benchmarks.designs` compares with.
given <- commandArgs(trailingOnly = TRUE)
for (package in c("RRTCS", "GLMMRR", "rr", "RRreg")) {
  for (file in list.files(file.path(given[1], package, "R"), full.names = TRUE))
    try(source(file), silent = TRUE) # some need lme4, which nothing here does
  for (file in list.files(file.path(given[1], package, "data"), full.names = TRUE)) load(file)
}
varest <- function(y, pik) { # of the package sampling: Deville's estimate of a variance
  a <- (1 - pik) / sum(1 - pik)
  sum((1 - pik) * (y / pik - sum(a * y / pik))^2) / (1 - sum(a^2))
}
said <- counts <- list()
say <- function(data, package, names, estimate, error)
  said[[length(said) + 1]] <<- data.frame(data, package, quantity = names, estimate, error)
count <- function(data, answers, covariates = data.frame(all = rep(1, length(answers)))) {
  cells <- aggregate(cbind(no = 1 - answers, yes = answers), covariates, sum)
  names <- do.call(paste, lapply(names(covariates), function(x) paste0(x, "=", cells[[x]])))
  counts[[length(counts) + 1]] <<- data.frame(data, cell = names, cells[c("no", "yes")])
}
share <- function(data, answers, found) {
  say(data, "RRTCS", "yes", found$Estimation, sqrt(found$Variance))
  count(data, answers)
}
regression <- function(data, package, fit, error, answers, covariates) {
  say(data, package, c("intercept", names(covariates)), unname(fit), unname(error))
  if (!data %in% unlist(lapply(counts, `[[`, "data"))) count(data, answers, covariates)
}

asked <- list(copied = 1 / 12, fought = 1 / 10, bullied = 2 / 3, bullying = 1 / 10, drug = 1 / 3,
              sex = 1 / 12)
for (name in names(asked)) {
  z <- HorvitzDataRealSurvey[[name]]
  share(name, z, Horvitz(z, 0.5, asked[[name]], rep(710 / 10777, 710), "mean", 0.95, 10777))
}
with(WarnerData, share("alcohol", z, Warner(z, 0.7, Pi, "mean", 0.95, 802)))
with(ForcedResponseData,
     share("forced", z, ForcedResponse(z, 0.2, 0.2, Pi, "mean", 0.95, round(sum(1 / Pi)))))
set.seed(123) # the first example of RRreg's vignette
W <- RRgen(n = 1000, pi.true = 0.3, model = "Warner", p = 1 / 6)
found <- RRuni(response, W, "Warner", 1 / 6)
say("cocaine", "RRreg", "yes", found$pi, found$piSE)
count("cocaine", W$response)

N <- na.omit(nigeria[c("rr.q1", "cov.female", "cov.married", "civic")])
names(N) <- c("answer", "female", "married", "civic")
N$civic <- as.numeric(N$civic)
fit <- rrreg(answer ~ female + married + civic, data = N, p = 2 / 3, p1 = 1 / 6, p0 = 1 / 6,
             design = "forced-known")
regression("nigeria", "rr", fit$est, fit$se, N$answer, N[-1])
fit <- RRlog(answer ~ female + married + civic, N, "FR", c(1 / 6, 1 / 6), LR.test = FALSE)
regression("nigeria", "RRreg", fit$coefficients, sqrt(diag(fit$vcov)), N$answer, N[-1])
of_glm <- function(data, d, covariates) {
  fit <- RRglm(reformulate(covariates, "answer"), link = "RRlink.logit", RRmodel = RRmodel,
               p1 = RRp1, p2 = RRp2, data = d, etastart = rep(0.01, nrow(d)))
  table <- coef(summary.glm(fit))
  regression(data, "GLMMRR", table[, 1], table[, 2], d$answer, d[covariates])
}
P <- na.omit(with(subset(Plagiarism, RR == 1 & pp == 1),
                  data.frame(answer = response, female = Gender, RRmodel, RRp1, RRp2)))
of_glm("plagiarism", P, "female")
M <- na.omit(with(subset(MTURK, RRmodel == "Forced" & Question == "non voting"),
                  data.frame(answer = RR_response, gender, RRmodel, RRp1, RRp2)))
of_glm("voting", M, "gender")
write.csv(do.call(rbind, said), file.path(given[2], "designs_r.csv"), row.names = FALSE, quote = FALSE)
write.csv(do.call(rbind, counts), file.path(given[2], "design_counts.csv"), row.names = FALSE, quote = FALSE)
