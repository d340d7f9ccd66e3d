// See sums.hpp.
#include "manyclass/choice/sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "manyclass/choice/rules.hpp"
#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

// Rows that one thread works through, and what they leave of sums over rows. What does not depend on the rule is
// compiled once for all rules.
class Strip {
 public:
  Strip(const ChoiceProblem& problem, const ChoiceParts& parts, const ChoicePiece& piece, const ChoiceSums& sums,
        const CarriedByRows& carried, std::span<double> constants)
      : problem_(problem),
        data_(problem.data),
        parts_(parts),
        piece_(piece),
        sums_(sums),
        carried_(carried),
        constants_(constants),
        needs_choice_(!sums.losses.empty() || !sums.log_products.empty() ||
                      (!sums.covariances.empty() && problem.form.model != "gumbel")) {}

  // Works through row i of the piece.
  template <class Rule>
  void row(std::size_t i, Rule& rule) {
    const std::size_t row = piece_.begin + i, n = data_.set_size(row);
    if (n == 0) throw std::invalid_argument("row " + std::to_string(row) + " has no alternative to choose from");
    u_.resize(n);
    c_.resize(n);
    run_with(problem_.isa, [&] { set_utilities(data_, parts_, piece_.tastes.data() + i * parts_.width, row, u_); });
    const bool drawn = !data_.log_weights.empty();
    const auto log_weights = drawn ? data_.log_weights.subspan(data_.begin(row), n) : std::span<const double>{};
    if constexpr (requires { rule.log_weights; }) {
      rule.log_weights = log_weights;
    } else {
      for (std::size_t p = 0; p < log_weights.size(); ++p) u_[p] += log_weights[p];
    }
    if constexpr (requires { rule.node_weights; }) {
      constexpr std::size_t m = NoiseNodes::size;
      if (!carried_.node_weights.empty()) rule.node_weights = carried_.node_weights.subspan(row * m, m);
      rule.log_products = sums_.log_products.subspan(i * m, m);
    }
    if constexpr (requires { rule.nests; }) rule.nests = nests_of(row, n);
    const std::size_t y = needs_choice_ ? place_of(row) : n;
    ChoiceLoss found{};
    run_with(problem_.isa, [&] { found = rule.set(u_, y, c_); });
    if (!sums_.losses.empty()) sums_.losses[i] = found.loss;
    if (!sums_.inclusive_values.empty()) sums_.inclusive_values[i] = found.inclusive_value;
    if (!sums_.covariances.empty()) return curvature(i, y, rule);
    if (!needs_choice_) return;
    double weight = problem_.weight(row);
    if (!carried_.log_normalizers.empty()) weight *= growth(found.loss - carried_.log_normalizers[row]);
    if constexpr (requires { rule.slopes(); }) {
      const auto slopes = rule.slopes();
      for (std::size_t g = 0; g < slopes.size() && !sums_.nest_gradient.empty(); ++g) {
        sums_.nest_gradient[i * slopes.size() + g] = weight * slopes[g];
      }
    }
    run_with(problem_.isa, [&] { write_gradients(i, weight); });
  }

 private:
  std::span<const Index> nests_of(std::size_t i, std::size_t n) {
    if (!data_.listed_only) return problem_.form.nests;
    nests_.resize(n);
    for (std::size_t p = 0; p < n; ++p) nests_[p] = problem_.form.nests[data_.member(i, p)];
    return nests_;
  }

  // Where in its set row i has what it chose.
  std::size_t place_of(std::size_t i) const {
    if (data_.chosen.empty()) throw std::invalid_argument("losses and gradients need what was chosen");
    const Index y = data_.chosen[i];
    std::size_t place = static_cast<std::size_t>(y);
    bool there = y >= 0 && place < data_.n_alternatives();
    if (there && data_.listed_only) {
      const auto own = data_.alternatives.subspan(data_.begin(i), u_.size());
      place = static_cast<std::size_t>(std::find(own.begin(), own.end(), y) - own.begin());
      there = place < own.size();
    }
    if (there && u_[place] > -std::numeric_limits<double>::infinity()) return place;
    throw std::invalid_argument("row " + std::to_string(i) + " has chosen alternative " + std::to_string(y) +
                                ", which is not available to it");
  }

  void write_gradients(std::size_t i, double weight) {
    const std::size_t row = piece_.begin + i, q = parts_.width, r = parts_.pair_coef.size(), n = u_.size();
    if (weight != 1) {
      for (double& c : c_) c *= weight;
    }
    if (!sums_.constant_gradient.empty()) {
      for (std::size_t p = 0; p < n; ++p) constants_[data_.member(row, p)] += c_[p];
    }
    if (!sums_.taste_gradient.empty()) {
      double* out = sums_.taste_gradient.data() + i * q;
      std::fill_n(out, q, 0.0);
      if (parts_.own_tastes) {
        for (std::size_t p = 0; p < n; ++p) out[data_.member(row, p)] = c_[p];
      } else if (data_.listed_only) {
        for (std::size_t p = 0; p < n; ++p) {
          const double* z = parts_.features.data() + data_.member(row, p) * q;
          for (std::size_t j = 0; j < q; ++j) out[j] += c_[p] * z[j];
        }
      } else {
        for (std::size_t j = 0; j < q; ++j) out[j] = dot(c_.data(), parts_.by_feature.data() + j * n, n);
      }
    }
    if (!sums_.pair_gradient.empty()) {
      double* out = sums_.pair_gradient.data() + i * r;
      std::fill_n(out, r, 0.0);
      for (std::size_t at = data_.begin(row); at < data_.end(row); ++at) {
        const double c = c_[place_of_entry(row, at)];
        for (std::size_t j = 0; j < r; ++j) out[j] += c * data_.pair_features[at * r + j];
      }
    }
  }

  // Where in the set of a row an entry of its list stands.
  std::size_t place_of_entry(std::size_t row, std::size_t at) const {
    return data_.listed_only ? at - data_.begin(row) : static_cast<std::size_t>(data_.alternatives[at]);
  }

  // Second derivatives by coefficients of (z, s): of Gumbel noise their covariance under the probabilities in c_,
  // around means, so that nothing cancels.
  template <class Rule>
  void curvature(std::size_t i, std::size_t y, Rule& rule) {
    const std::size_t s = parts_.width + parts_.pair_coef.size(), row = piece_.begin + i;
    double* const out = sums_.covariances.data() + i * s * s;
    run_with(problem_.isa, [&] { write_differences(row, s, y); });
    run_with(problem_.isa, [&] {
      if constexpr (requires { rule.curvature(feature_, s, out); }) {
        rule.curvature(feature_, s, out);
      } else {
        write_covariance(s, out);
      }
    });
  }

  // E[a (b - E b)] of each two features: a is centred, too, or where it is 0 for most alternatives, as constants are,
  // as it stands, so that it costs what is not 0. Of 250 constants a fit takes 4.9 s for 23.9.
  void write_covariance(std::size_t s, double* out) {
    const std::size_t n = u_.size();
    weighted_.resize(n);
    for (std::size_t a = 0; a < s; ++a) {
      const double* const own = feature_.data() + a * n;
      places_.clear();
      for (std::size_t p = 0; p < n; ++p) {
        if (c_[p] > 0 && own[p] != -middles_[a]) places_.push_back(p);
      }
      const bool sparse = 4 * places_.size() <= n;
      for (std::size_t p = 0; p < n; ++p) weighted_[p] = c_[p] * (sparse ? own[p] + middles_[a] : own[p]);
      for (std::size_t b = 0; b <= a; ++b) {
        const double* const other = feature_.data() + b * n;
        double sum = sparse ? 0.0 : dot(weighted_.data(), other, n);
        for (std::size_t at = 0; sparse && at < places_.size(); ++at) {
          sum += weighted_[places_[at]] * other[places_[at]];
        }
        out[a * s + b] = out[b * s + a] = sum;
      }
    }
  }

  // Features of the alternatives of a row less those of its choice at y, or less their mean where none is needed.
  void write_differences(std::size_t row, std::size_t s, std::size_t y) {
    const std::size_t q = parts_.width, r = s - q, n = u_.size();
    feature_.assign(n * s, 0.0);  // by feature, s x n
    for (std::size_t j = 0; j < q; ++j) {
      for (std::size_t p = 0; p < n; ++p) feature_[j * n + p] = parts_.features[data_.member(row, p) * q + j];
    }
    for (std::size_t at = data_.begin(row); at < data_.end(row); ++at) {
      const std::size_t p = place_of_entry(row, at);
      for (std::size_t j = 0; j < r; ++j) feature_[(q + j) * n + p] = data_.pair_features[at * r + j];
    }
    middles_.resize(s);
    for (std::size_t j = 0; j < s; ++j) {
      double* const own = feature_.data() + j * n;
      middles_[j] = y < n ? own[y] : dot(c_.data(), own, n);
      for (std::size_t p = 0; p < n; ++p) own[p] -= middles_[j];
    }
  }

  const ChoiceProblem& problem_;
  const ChoiceData& data_;
  const ChoiceParts& parts_;
  const ChoicePiece& piece_;
  const ChoiceSums& sums_;
  const CarriedByRows& carried_;
  std::span<double> constants_;
  bool needs_choice_;
  std::vector<double> u_, c_, feature_, middles_, weighted_;
  std::vector<std::size_t> places_;
  std::vector<Index> nests_;
};

}  // namespace

void choice_sums(const ChoiceProblem& problem, const ChoiceParts& parts, const ChoicePiece& piece,
                 const ChoiceSums& sums, const CarriedByRows& carried) {
  const std::size_t n = piece.size(), k = problem.n_alternatives();
  // Sums over rows by strip, in order: 64 strips, or fewer where their K sums would take more than 256 MB.
  constexpr std::size_t most_sums = std::size_t{1} << 25;
  const bool adds = !sums.constant_gradient.empty();
  const std::size_t most = adds ? std::clamp(most_sums / k, std::size_t{2}, std::size_t{64}) : 64;
  const std::size_t n_strips = std::clamp(n / 16, std::size_t{1}, most);
  std::vector<double> constants(adds ? n_strips * k : 0);
  const auto pass = [&](const auto& first_rule) {
    parallel_for(problem.n_threads, n_strips, [&](std::size_t s) {
      auto rule = first_rule;
      const auto own = adds ? std::span(constants).subspan(s * k, k) : std::span<double>{};
      Strip strip(problem, parts, piece, sums, carried, own);
      const std::size_t end = n * (s + 1) / n_strips;
      for (std::size_t i = n * s / n_strips; i < end; ++i) {
        poll(problem.data.set_size(piece.begin + i) + 64);
        strip.row(i, rule);
      }
    });
  };
  const std::string& model = problem.form.model;
  if (model == "gumbel") {
    pass(GumbelChoice{});
  } else if (model == "nested") {
    pass(NestedChoice(parts.dissimilarity));
  } else if (model == "normal" && !sums.log_products.empty()) {
    pass(AugmentedChoice<NormalNoise>{});
  } else if (model == "logistic" && !sums.log_products.empty()) {
    pass(AugmentedChoice<LogisticNoise>{});
  } else if (model == "normal") {
    pass(NoisyChoice<NormalNoise>(problem.isa));
  } else {
    pass(NoisyChoice<LogisticNoise>(problem.isa));
  }
  for (std::size_t s = 0; adds && s < n_strips; ++s) {
    for (std::size_t a = 0; a < k; ++a) sums.constant_gradient[a] += constants[s * k + a];
  }
}

}  // namespace manyclass
