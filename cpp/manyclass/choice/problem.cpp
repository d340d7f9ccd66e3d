// See problem.hpp.
#include "manyclass/choice/problem.hpp"

#include <stdexcept>
#include <string>

#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

std::size_t as_size(Offset at) { return static_cast<std::size_t>(at); }

// Calls f(k, j, z_kj) for the features of alternatives.
template <class F>
void for_features(const ChoiceProblem& problem, const F& f) {
  const ChoiceData& data = problem.data;
  const std::size_t q = problem.form.n_alternative_features;
  for (std::size_t k = 0; k < problem.n_alternatives(); ++k) {
    if (data.Z_indptr.empty()) {
      for (std::size_t j = 0; j < q; ++j) f(k, j, data.Z[k * q + j]);
    } else {
      for (std::size_t at = as_size(data.Z_indptr[k]); at < as_size(data.Z_indptr[k + 1]); ++at) {
        f(k, static_cast<std::size_t>(data.Z_indices[at]), data.Z[at]);
      }
    }
  }
}

void check_coefficients(const ChoiceProblem& problem, std::size_t n) {
  if (n == problem.form.size()) return;
  throw std::invalid_argument("there are " + std::to_string(n) + " coefficients; there must be " +
                              std::to_string(problem.form.size()));
}

// Features of alternatives, K x width, whose first ones are z.
void set_features(const ChoiceProblem& problem, ChoiceParts& parts) {
  const std::size_t k = problem.n_alternatives(), w = parts.width;
  parts.features.assign(k * w, 0.0);
  for_features(problem, [&](std::size_t a, std::size_t j, double z) { parts.features[a * w + j] += z; });
}

// The same by feature, for loops over all alternatives.
void transpose_features(const ChoiceProblem& problem, ChoiceParts& parts) {
  const std::size_t k = problem.n_alternatives(), w = parts.width;
  if (problem.data.listed_only || parts.own_tastes) return;
  parts.by_feature.resize(k * w);
  for (std::size_t a = 0; a < k; ++a) {
    for (std::size_t j = 0; j < w; ++j) parts.by_feature[j * k + a] = parts.features[a * w + j];
  }
}

ChoiceParts begin_parts(const ChoiceProblem& problem, std::span<const double> theta) {
  check_coefficients(problem, theta.size());
  ChoiceParts parts;
  parts.constants.assign(problem.data.constants.begin(), problem.data.constants.end());
  parts.pair_coef = theta.subspan(problem.form.pairs_at(), problem.form.n_pair_features);
  parts.dissimilarity = theta.subspan(problem.form.nests_at());
  return parts;
}

void check_lists(const ChoiceProblem& problem) {
  const ChoiceData& data = problem.data;
  const std::size_t n_listed = data.alternatives.size(), k = data.n_alternatives();
  require(k > 0, "there is no alternative");
  require(data.indptr.size() == (data.indptr.empty() ? 0 : problem.n_rows() + 1),
          "indptr does not have a value for each row");
  require(!data.indptr.empty() || (n_listed == 0 && !data.listed_only), "alternatives are listed without indptr");
  require(data.indptr.empty() || (data.indptr.front() == 0 && data.indptr.back() == static_cast<Offset>(n_listed) &&
                                  std::ranges::is_sorted(data.indptr)),
          "indptr does not fit the lists");
  require(data.pair_features.size() == n_listed * problem.form.n_pair_features,
          "features of pairs do not fit the lists");
  require(data.offsets.empty() || data.offsets.size() == n_listed, "offsets do not fit the lists");
  require(data.log_weights.empty() ||
              (data.listed_only && data.log_weights.size() == n_listed && problem.form.model != "nested"),
          "weights of drawn alternatives do not fit the lists, or the model");
  const auto in_range = [k](Index id) { return id >= 0 && static_cast<std::size_t>(id) < k; };
  require(std::ranges::all_of(data.alternatives, in_range), "an alternative is out of range");
}

}  // namespace

void check(const ChoiceProblem& problem) {
  const ChoiceForm& form = problem.form;
  const ChoiceData& data = problem.data;
  const std::size_t k = data.n_alternatives(), q = form.n_alternative_features;
  check(form);
  require(data.n_rows >= 0 && data.X.size() == problem.n_rows() * form.n_chooser_features, "X does not fit the rows");
  require(form.n_own_tastes == 0 || form.n_own_tastes == k, "tastes for alternatives do not fit these");
  require(form.groups.empty() || form.groups.size() == k, "groups do not have a value for each alternative");
  require(form.nests.empty() || form.nests.size() == k, "nests do not have a value for each alternative");
  require(form.model != "nested" || !form.nests.empty(), "nests do not have a value for each alternative");
  require(data.chosen.empty() || data.chosen.size() == problem.n_rows(), "chosen does not fit the rows");
  require(data.weights.empty() || data.weights.size() == problem.n_rows(), "weights do not fit the rows");
  if (data.Z_indptr.empty()) {
    require(data.Z.size() == k * q, "Z does not fit the alternatives");
  } else {
    const auto outside = [q](Index j) { return j < 0 || static_cast<std::size_t>(j) >= q; };
    require(data.Z_indptr.size() == k + 1 && data.Z_indptr.front() == 0 && std::ranges::is_sorted(data.Z_indptr) &&
                static_cast<std::size_t>(data.Z_indptr.back()) == data.Z.size() &&
                data.Z_indices.size() == data.Z.size() && std::ranges::none_of(data.Z_indices, outside),
            "Z does not fit the alternatives");
  }
  check_lists(problem);
}

void add_features_transposed(const ChoiceProblem& problem, std::span<const double> v, std::span<double> out) {
  for_features(problem, [&](std::size_t k, std::size_t j, double z) { out[j] += z * v[k]; });
}

ChoiceParts make_parts(const ChoiceProblem& problem, std::span<const double> theta) {
  const ChoiceForm& form = problem.form;
  ChoiceParts parts = begin_parts(problem, theta);
  for_features(problem, [&](std::size_t k, std::size_t j, double z) { parts.constants[k] += z * theta[j]; });
  for (std::size_t k = 0; k < form.groups.size(); ++k) {
    if (form.groups[k] > 0) parts.constants[k] += theta[form.constants_at() + as_size(form.groups[k]) - 1];
  }
  if (form.rank != 0) {
    parts.own_tastes = form.has_own_tastes();
    parts.width = parts.own_tastes ? form.n_own_tastes : form.width();
    parts.W = interactions(form, theta);
    if (parts.own_tastes) {
      std::vector<double> padded(form.n_chooser_features * parts.width);
      for (std::size_t j = 0; j < form.n_chooser_features; ++j) {
        const auto w = static_cast<std::ptrdiff_t>(form.width()), row = static_cast<std::ptrdiff_t>(j);
        std::copy_n(parts.W.begin() + row * w, w, padded.begin() + row * (w + 1) + 1);
      }
      parts.W = std::move(padded);
    } else {
      set_features(problem, parts);
    }
  }
  transpose_features(problem, parts);
  return parts;
}

ChoiceParts make_explicit_parts(const ChoiceProblem& problem, std::span<const double> theta) {
  const ChoiceForm& form = problem.form;
  if (!form.has_scores()) {
    throw std::invalid_argument(
        "standard errors need at most 300 features of alternatives, pairs and constants, and no interactions of low "
        "rank; give constants by group, or interactions='full'");
  }
  ChoiceParts parts = begin_parts(problem, theta);
  const std::size_t q = form.n_alternative_features, c = form.n_constants();
  const std::size_t own = form.has_own_tastes() ? form.width() : 0, w = q + c + own, first = own > 0 ? q + c : 0;
  parts.width = w;
  parts.base.assign(theta.begin(), theta.begin() + static_cast<std::ptrdiff_t>(q));
  const auto constants = theta.subspan(form.constants_at(), c);
  parts.base.insert(parts.base.end(), constants.begin(), constants.end());
  parts.base.resize(w);
  parts.W.resize(form.n_chooser_features * w);
  const auto full = theta.subspan(form.interactions_at(), form.n_interactions());
  for (std::size_t j = 0; j < full.size(); ++j) parts.W[j / form.width() * w + first + j % form.width()] = full[j];
  set_features(problem, parts);
  for (std::size_t a = 0; a < problem.n_alternatives(); ++a) {
    double* row = parts.features.data() + a * w;
    if (!form.groups.empty() && form.groups[a] > 0) row[q + as_size(form.groups[a]) - 1] = 1;
    if (own > 0 && a > 0) row[q + c + a - 1] = 1;
  }
  transpose_features(problem, parts);
  return parts;
}

ChoicePiece make_piece(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t begin, std::size_t end) {
  const std::size_t w = parts.width, d = problem.form.n_chooser_features;
  const std::size_t n = w == 0 ? 0 : end - begin;
  ChoicePiece piece{begin, end, std::vector<double>(n * w)};
  std::vector<double>& tastes = piece.tastes;
  const bool by_dots = d > w && w < 16;  // sums over d, where rows of W are too short for vectors
  std::vector<double> transposed;
  if (by_dots) {
    transposed.resize(d * w);
    for (std::size_t j = 0; j < d; ++j) {
      for (std::size_t k = 0; k < w; ++k) transposed[k * d + j] = parts.W[j * w + k];
    }
  }
  constexpr std::size_t together = 64;
  parallel_for(problem.n_threads, (n + together - 1) / together, [&](std::size_t chunk) {
    const std::size_t first = chunk * together, last = std::min(n, first + together);
    const double* x = problem.data.X.data() + begin * d;
    for (std::size_t at = first * w; at < last * w; ++at) tastes[at] = parts.base.empty() ? 0.0 : parts.base[at % w];
    run_with(problem.isa, [&] {
      if (!by_dots) return add_block({x, 1, d}, parts.W.data(), d, w, first, last, tastes.data());
      for (std::size_t i = first; i < last; ++i) {
        for (std::size_t k = 0; k < w; ++k) tastes[i * w + k] += dot(x + i * d, transposed.data() + k * d, d);
      }
    });
  });
  return piece;
}

}  // namespace manyclass
