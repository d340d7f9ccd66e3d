// Numbers that follow from how many points each class has, for models with biases only and for the double sum.
#pragma once

#include <optional>
#include <span>

namespace manyclass {

// The largest one-vs-each bound, sum_k N_k sum_{m != k} log(N_k / (N_k + N_m)), over classes that have points.
double maximum_one_vs_each(std::span<const double> counts);

// Fagan & Iyengar's constants of a model without intercepts whose rows have norms of at most `max_norm`.
struct DoubleSumConstants {
  double weight_norm = 0;     // B_w
  double log_normalizer = 0;  // B_u
  double gradient_norm = 0;   // B_f
  double strong_convexity = 0;
};

// B_u = log(1 + (K - 1) e^(2 B_x B_w)), the most that log A can be, in nats.
double largest_log_normalizer(double max_norm, double largest_x, double n_classes);

// Without `max_norm` it is that of the optimum, sqrt(2 log K / alpha). Throws std::invalid_argument unless there are
// two classes or more and one point or more.
DoubleSumConstants double_sum_constants(std::span<const double> counts, double largest_x, double alpha,
                                        std::optional<double> max_norm);

}  // namespace manyclass
