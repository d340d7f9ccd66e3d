// See sums.hpp.
#include "manyclass/choice/sums.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "manyclass/choice/drawn_rules.hpp"
#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

void check_size(std::size_t size, std::size_t wanted, const char* name) {
  if (size == 0 || size == wanted) return;
  throw std::invalid_argument(std::string(name) + " has " + std::to_string(size) + " values; it must have " +
                              std::to_string(wanted));
}

void check(const ChoiceQuestion& q, const ChoiceSums& sums) {
  check(q.rows);
  const auto n = static_cast<std::size_t>(q.rows.n_rows);
  const std::size_t width = q.rows.n_features, pairs = q.rows.n_pair_features(), both = width + pairs;
  check_size(q.chosen.size(), n, "chosen");
  check_size(q.weights.size(), n, "weights");
  check_size(sums.losses.size(), n, "losses");
  check_size(sums.inclusive_values.size(), n, "inclusive_values");
  check_size(sums.taste_gradient.size(), n * width, "taste_gradient");
  check_size(sums.pair_gradient.size(), n * pairs, "pair_gradient");
  check_size(sums.constant_gradient.size(), q.rows.n_alternatives(), "constant_gradient");
  check_size(sums.nest_gradient.size(), n * q.model.dissimilarity.size(), "nest_gradient");
  check_size(sums.covariances.size(), n * both * both, "covariances");
  check_size(sums.log_products.size(), n * NoiseNodes::size, "log_products");
  check_size(sums.probabilities.size(), q.rows.listed_only ? q.rows.alternatives.size() : n * q.rows.n_alternatives(),
             "probabilities");
  const bool learns = !sums.losses.empty() || !sums.taste_gradient.empty() || !sums.pair_gradient.empty() ||
                      !sums.constant_gradient.empty() || !sums.nest_gradient.empty();
  if (learns && q.chosen.size() != n) throw std::invalid_argument("losses and gradients need what was chosen");
  if (learns && !sums.probabilities.empty()) throw std::invalid_argument("probabilities are asked for by themselves");
  if (q.rows.own_tastes && !sums.covariances.empty()) throw std::invalid_argument("covariances need features");
  if (learns && !sums.covariances.empty()) throw std::invalid_argument("covariances are asked for by themselves");
}

void check_nests(const ChoiceModel& model, std::size_t n_alternatives) {
  if (model.nests.size() != n_alternatives || model.dissimilarity.empty()) {
    throw std::invalid_argument("nests do not have a value for each alternative");
  }
  const auto n = static_cast<Index>(model.dissimilarity.size());
  for (const Index nest : model.nests) {
    if (nest < 0 || nest >= n) throw std::invalid_argument("a nest is out of range");
  }
  for (const double lambda : model.dissimilarity) {
    if (!(lambda > 0)) throw std::invalid_argument("a dissimilarity is not more than 0");
  }
}

// Rows that one thread works through, and what they leave of sums over rows. What does not depend on the rule is
// compiled once for all rules.
class Strip {
 public:
  Strip(const ChoiceQuestion& question, std::span<const double> transposed, const ChoiceSums& sums,
        std::span<double> constants)
      : q_(question), transposed_(transposed), sums_(sums), constants_(constants) {}

  template <class Rule>
  void row(std::size_t i, Rule& rule) {
    const ChoiceRows& rows = q_.rows;
    const std::size_t n = rows.set_size(i);
    if (n == 0)
      throw std::invalid_argument("row " + std::to_string(q_.first + i) + " has no alternative to choose from");
    u_.resize(n);
    c_.resize(n);
    utilities(i);
    const bool drawn = !rows.log_weights.empty();
    const auto log_weights = drawn ? rows.log_weights.subspan(rows.begin(i), n) : std::span<const double>{};
    if constexpr (requires { rule.log_weights; }) {
      rule.log_weights = log_weights;
    } else {
      for (std::size_t p = 0; p < log_weights.size(); ++p) u_[p] += log_weights[p];
    }
    if constexpr (requires { rule.node_weights; }) {
      constexpr std::size_t m = NoiseNodes::size;
      if (!q_.model.node_weights.empty()) rule.node_weights = q_.model.node_weights.subspan(i * m, m);
      rule.log_products = sums_.log_products.subspan(i * m, m);
    }
    if constexpr (requires { rule.nests; }) rule.nests = nests_of(i, n);
    if constexpr (requires { rule.log_normalizer; }) rule.log_normalizer = q_.model.log_normalizers[i];
    const bool known = sums_.probabilities.empty() && !q_.chosen.empty();
    const std::size_t y = known ? place_of(i) : n;
    ChoiceLoss found{};
    run_with(q_.isa, [&] { found = rule.set(u_, y, c_); });
    if (!sums_.losses.empty()) sums_.losses[i] = found.loss;
    if (!sums_.inclusive_values.empty()) sums_.inclusive_values[i] = found.inclusive_value;
    if (!sums_.probabilities.empty()) {
      std::copy(c_.begin(), c_.end(), sums_.probabilities.data() + (rows.listed_only ? rows.begin(i) : i * n));
    }
    if (!sums_.covariances.empty()) return curvature(i, y, rule);
    if (!known) return;
    if constexpr (requires { rule.slopes(); }) {
      const auto slopes = rule.slopes();
      for (std::size_t g = 0; g < slopes.size() && !sums_.nest_gradient.empty(); ++g) {
        sums_.nest_gradient[i * slopes.size() + g] = weight(i) * slopes[g];
      }
    }
    gradients(i);
  }

 private:
  double weight(std::size_t i) const { return q_.weights.empty() ? 1.0 : q_.weights[i]; }
  std::size_t member(std::size_t i, std::size_t p) const {
    return q_.rows.listed_only ? static_cast<std::size_t>(q_.rows.alternatives[q_.rows.begin(i) + p]) : p;
  }

  std::span<const Index> nests_of(std::size_t i, std::size_t n) {
    if (!q_.rows.listed_only) return q_.model.nests;
    nests_.resize(n);
    for (std::size_t p = 0; p < n; ++p) nests_[p] = q_.model.nests[member(i, p)];
    return nests_;
  }

  // Where in its set row i has what it chose.
  std::size_t place_of(std::size_t i) const {
    const Index y = q_.chosen[i];
    std::size_t place = static_cast<std::size_t>(y);
    bool there = y >= 0 && place < q_.rows.n_alternatives();
    if (there && q_.rows.listed_only) {
      const auto own = q_.rows.alternatives.subspan(q_.rows.begin(i), u_.size());
      place = static_cast<std::size_t>(std::find(own.begin(), own.end(), y) - own.begin());
      there = place < own.size();
    }
    if (there && u_[place] > -std::numeric_limits<double>::infinity()) return place;
    throw std::invalid_argument("row " + std::to_string(q_.first + i) + " has chosen alternative " + std::to_string(y) +
                                ", which is not available to it");
  }

  void utilities(std::size_t i) {
    run_with(q_.isa, [&] { utilities_of(q_.rows, transposed_, i, u_); });
  }
  void gradients(std::size_t i) {
    run_with(q_.isa, [&] { write_gradients(i); });
  }
  // Around means, so that nothing cancels.
  void covariance(std::size_t i, std::size_t s, double* out) {
    differences_of(i, {});
    run_with(q_.isa, [&] { write_covariance(s, out); });
  }
  // Features of the alternatives of row i less those of the one at `from`, or less their mean.
  void differences_of(std::size_t i, std::optional<std::size_t> from) {
    run_with(q_.isa, [&] { write_differences(i, from); });
  }

  void write_gradients(std::size_t i) {
    const ChoiceRows& rows = q_.rows;
    const std::size_t q = rows.n_features, r = rows.n_pair_features(), n = u_.size();
    const double w = weight(i);
    if (w != 1) {
      for (double& c : c_) c *= w;
    }
    const std::size_t begin = rows.begin(i), end = rows.end(i);
    if (!sums_.constant_gradient.empty()) {
      for (std::size_t p = 0; p < n; ++p) constants_[member(i, p)] += c_[p];
    }
    if (!sums_.taste_gradient.empty()) {
      double* out = sums_.taste_gradient.data() + i * q;
      if (rows.own_tastes) {
        std::fill_n(out, q, 0.0);
        for (std::size_t p = 0; p < n; ++p) out[member(i, p)] = c_[p];
      } else if (rows.listed_only) {
        std::fill_n(out, q, 0.0);
        for (std::size_t p = 0; p < n; ++p) {
          const double* z = rows.features.data() + member(i, p) * q;
          for (std::size_t j = 0; j < q; ++j) out[j] += c_[p] * z[j];
        }
      } else {
        for (std::size_t j = 0; j < q; ++j) out[j] = dot(c_.data(), transposed_.data() + j * n, n);
      }
    }
    if (!sums_.pair_gradient.empty()) {
      double* out = sums_.pair_gradient.data() + i * r;
      std::fill_n(out, r, 0.0);
      for (std::size_t at = begin; at < end; ++at) {
        const double c = c_[rows.listed_only ? at - begin : static_cast<std::size_t>(rows.alternatives[at])];
        for (std::size_t j = 0; j < r; ++j) out[j] += c * rows.pair_features[at * r + j];
      }
    }
  }

  // Second derivatives by coefficients of (z, s): of Gumbel noise their covariance under the probabilities in c_.
  template <class Rule>
  void curvature(std::size_t i, std::size_t y, Rule& rule) {
    const std::size_t s = q_.rows.n_features + q_.rows.n_pair_features();
    double* const out = sums_.covariances.data() + i * s * s;
    const std::span<const double> differences = feature_;
    if constexpr (requires { rule.curvature(differences, s, out); }) {
      differences_of(i, y);
      run_with(q_.isa, [&] { rule.curvature(feature_, s, out); });
    } else {
      covariance(i, s, out);
    }
  }

  void write_covariance(std::size_t s, double* out) {
    const std::size_t n = u_.size();
    weighted_.resize(n);
    for (std::size_t a = 0; a < s; ++a) {
      for (std::size_t p = 0; p < n; ++p) weighted_[p] = c_[p] * feature_[a * n + p];
      for (std::size_t b = 0; b <= a; ++b) {
        out[a * s + b] = out[b * s + a] = dot(weighted_.data(), feature_.data() + b * n, n);
      }
    }
  }

  void write_differences(std::size_t i, std::optional<std::size_t> from) {
    const ChoiceRows& rows = q_.rows;
    const std::size_t q = rows.n_features, r = rows.n_pair_features(), s = q + r, n = u_.size();
    feature_.assign(n * s, 0.0);  // by feature, s x n
    for (std::size_t j = 0; j < q; ++j) {
      for (std::size_t p = 0; p < n; ++p) {
        feature_[j * n + p] = rows.listed_only ? rows.features[member(i, p) * q + j] : transposed_[j * n + p];
      }
    }
    for (std::size_t at = rows.begin(i); at < rows.end(i); ++at) {
      const std::size_t p = rows.listed_only ? at - rows.begin(i) : static_cast<std::size_t>(rows.alternatives[at]);
      for (std::size_t j = 0; j < r; ++j) feature_[(q + j) * n + p] = rows.pair_features[at * r + j];
    }
    for (std::size_t j = 0; j < s; ++j) {
      double* const own = feature_.data() + j * n;
      const double middle = from ? own[*from] : dot(c_.data(), own, n);
      for (std::size_t p = 0; p < n; ++p) own[p] -= middle;
    }
  }

  const ChoiceQuestion& q_;
  std::span<const double> transposed_;
  const ChoiceSums& sums_;
  std::span<double> constants_;
  std::vector<double> u_, c_, feature_, weighted_;
  std::vector<Index> nests_;
};

template <class MakeRule>
void pass(const ChoiceQuestion& question, const ChoiceSums& sums, const MakeRule& make_rule) {
  const auto n = static_cast<std::size_t>(question.rows.n_rows);
  const std::size_t k = question.rows.n_alternatives();
  const std::vector<double> transposed = question.rows.listed_only ? std::vector<double>{} : by_feature(question.rows);
  // Sums over rows by strip, in order: 64 strips, or fewer where their K sums would take more than 256 MB.
  constexpr std::size_t most_sums = std::size_t{1} << 25;
  const bool adds = !sums.constant_gradient.empty();
  const std::size_t most = adds ? std::clamp(most_sums / k, std::size_t{2}, std::size_t{64}) : 64;
  const std::size_t n_strips = std::clamp(n / 16, std::size_t{1}, most);
  std::vector<double> constants(adds ? n_strips * k : 0);
  parallel_for(question.n_threads, n_strips, [&](std::size_t s) {
    auto rule = make_rule();
    Strip strip(question, transposed, sums, adds ? std::span(constants).subspan(s * k, k) : std::span<double>{});
    const std::size_t end = n * (s + 1) / n_strips;
    for (std::size_t i = n * s / n_strips; i < end; ++i) {
      poll(question.rows.set_size(i) + 64);
      strip.row(i, rule);
    }
  });
  if (!adds) return;
  std::ranges::fill(sums.constant_gradient, 0.0);
  for (std::size_t s = 0; s < n_strips; ++s) {
    for (std::size_t a = 0; a < k; ++a) sums.constant_gradient[a] += constants[s * k + a];
  }
}

}  // namespace

void choice_sums(const ChoiceQuestion& question, const ChoiceSums& sums) {
  check(question, sums);
  const ChoiceModel& model = question.model;
  const bool noisy = model.model == "normal" || model.model == "logistic";
  if (!sums.covariances.empty() &&
      (noisy ? question.chosen.empty() : model.model != "gumbel" || !question.chosen.empty())) {
    throw std::invalid_argument("covariances are those of a choice, or of Gumbel noise without one");
  }
  if (model.model == "nested" && !question.rows.log_weights.empty()) {
    throw std::invalid_argument("a nested model has no drawn alternatives");
  }
  if (model.model == "gumbel") {
    pass(question, sums, [] { return GumbelChoice{}; });
  } else if (model.model == "drawn") {
    if (model.log_normalizers.size() != static_cast<std::size_t>(question.rows.n_rows) || question.chosen.empty()) {
      throw std::invalid_argument("drawn alternatives need a log-normaliser and a choice for each row");
    }
    pass(question, sums, [] { return DrawnChoice{}; });
  } else if (model.model == "drawn_normal" || model.model == "drawn_logistic") {
    if (sums.log_products.empty() || question.chosen.empty()) {
      throw std::invalid_argument("drawn alternatives need products and a choice for each row");
    }
    check_size(model.node_weights.size(), sums.log_products.size(), "node_weights");
    if (model.model == "drawn_normal") return pass(question, sums, [] { return AugmentedChoice<NormalNoise>{}; });
    pass(question, sums, [] { return AugmentedChoice<LogisticNoise>{}; });
  } else if (model.model == "nested") {
    check_nests(model, question.rows.n_alternatives());
    pass(question, sums, [&] { return NestedChoice(model.dissimilarity); });
  } else if (model.model == "normal") {
    pass(question, sums, [&] { return NoisyChoice<NormalNoise>(question.isa); });
  } else if (model.model == "logistic") {
    pass(question, sums, [&] { return NoisyChoice<LogisticNoise>(question.isa); });
  } else {
    throw std::invalid_argument(
        "model is '" + model.model +
        "'; it must be one of 'gumbel', 'normal', 'logistic', 'nested', 'drawn', 'drawn_normal', 'drawn_logistic'");
  }
}

}  // namespace manyclass
