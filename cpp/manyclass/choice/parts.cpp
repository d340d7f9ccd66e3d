// See parts.hpp.
#include "manyclass/choice/parts.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

std::size_t as_size(Offset at) { return static_cast<std::size_t>(at); }

// v_i = base + x_i W of rows from `begin` on.
void set_tastes(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t begin, std::span<double> tastes) {
  const std::size_t w = parts.width, d = problem.form.n_chooser_features;
  const std::size_t n = w == 0 ? 0 : tastes.size() / w;
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
}

}  // namespace

void check_coefficients(const ChoiceProblem& problem, std::size_t n) {
  if (n == problem.form.size()) return;
  throw std::invalid_argument("there are " + std::to_string(n) + " coefficients; there must be " +
                              std::to_string(problem.form.size()));
}

void add_features(const ChoiceProblem& problem, std::span<const double> v, std::span<double> out) {
  const ChoiceData& data = problem.data;
  const std::size_t q = v.size();
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (data.Z_indptr.empty()) {
      out[k] += dot(data.Z.data() + k * q, v.data(), q);
    } else {
      for (std::size_t at = as_size(data.Z_indptr[k]); at < as_size(data.Z_indptr[k + 1]); ++at) {
        out[k] += data.Z[at] * v[static_cast<std::size_t>(data.Z_indices[at])];
      }
    }
  }
}

void add_features_transposed(const ChoiceProblem& problem, std::span<const double> v, std::span<double> out) {
  const ChoiceData& data = problem.data;
  const std::size_t q = out.size();
  for (std::size_t k = 0; k < v.size(); ++k) {
    if (data.Z_indptr.empty()) {
      for (std::size_t j = 0; j < q; ++j) out[j] += data.Z[k * q + j] * v[k];
    } else {
      for (std::size_t at = as_size(data.Z_indptr[k]); at < as_size(data.Z_indptr[k + 1]); ++at) {
        out[static_cast<std::size_t>(data.Z_indices[at])] += data.Z[at] * v[k];
      }
    }
  }
}

std::vector<double> dense_features(const ChoiceProblem& problem) {
  const ChoiceData& data = problem.data;
  if (data.Z_indptr.empty()) return {data.Z.begin(), data.Z.end()};
  const std::size_t q = problem.form.n_alternative_features;
  std::vector<double> out(problem.n_alternatives() * q);
  for (std::size_t k = 0; k < problem.n_alternatives(); ++k) {
    for (std::size_t at = as_size(data.Z_indptr[k]); at < as_size(data.Z_indptr[k + 1]); ++at) {
      out[k * q + static_cast<std::size_t>(data.Z_indices[at])] += data.Z[at];
    }
  }
  return out;
}

ChoiceParts parts_of(const ChoiceProblem& problem, std::span<const double> theta) {
  check_coefficients(problem, theta.size());
  const ChoiceForm& form = problem.form;
  ChoiceParts parts;
  parts.constants.assign(problem.data.constants.begin(), problem.data.constants.end());
  add_features(problem, theta.first(form.n_alternative_features), parts.constants);
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
      parts.features = dense_features(problem);
    }
  }
  parts.pair_coef = theta.subspan(form.pairs_at(), form.n_pair_features);
  parts.dissimilarity = theta.subspan(form.nests_at());
  return parts;
}

ChoicePiece::ChoicePiece(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t first, std::size_t last)
    : begin(first), end(last), tastes((last - first) * parts.width) {
  const ChoiceData& data = problem.data;
  const std::size_t n = size(), r = problem.form.n_pair_features;
  set_tastes(problem, parts, begin, tastes);
  ChoiceRows& rows = question.rows;
  rows.constants = parts.constants;
  rows.tastes = tastes;
  rows.features = parts.features;
  rows.n_features = parts.width;
  rows.own_tastes = parts.own_tastes;
  rows.pair_coef = parts.pair_coef;
  rows.listed_only = data.listed_only;
  rows.n_rows = static_cast<Index>(n);
  if (!data.indptr.empty()) {
    indptr_.assign(data.indptr.begin() + static_cast<std::ptrdiff_t>(begin),
                   data.indptr.begin() + static_cast<std::ptrdiff_t>(end) + 1);
    const std::size_t at = as_size(indptr_.front()), n_listed = as_size(indptr_.back()) - at;
    for (Offset& value : indptr_) value -= static_cast<Offset>(at);
    rows.indptr = indptr_;
    rows.alternatives = data.alternatives.subspan(at, n_listed);
    rows.pair_features = data.pair_features.subspan(at * r, n_listed * r);
    if (!data.offsets.empty()) rows.offsets = data.offsets.subspan(at, n_listed);
    if (!data.log_weights.empty()) rows.log_weights = data.log_weights.subspan(at, n_listed);
  }
  question.model.model = problem.form.model;
  question.model.nests = problem.form.nests;
  question.model.dissimilarity = parts.dissimilarity;
  if (!data.chosen.empty()) question.chosen = data.chosen.subspan(begin, n);
  if (!data.weights.empty()) question.weights = data.weights.subspan(begin, n);
  question.first = begin;
  question.n_threads = problem.n_threads;
  question.isa = problem.isa;
}

void add_products(const LeftFactor& A, std::size_t a, std::span<const double> B, std::size_t n, std::span<double> out,
                  int n_threads, Isa isa) {
  if (n == 0) return;
  constexpr std::size_t together = 32;
  parallel_for(n_threads, (a + together - 1) / together, [&](std::size_t chunk) {
    const std::size_t first = chunk * together, last = std::min(a, first + together);
    run_with(isa, [&] { add_block(A, B.data(), n, B.size() / n, first, last, out.data()); });
  });
}

}  // namespace manyclass
