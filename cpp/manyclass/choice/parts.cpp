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
  std::vector<double> transposed;  // of W, for sums over d where these are the longer ones
  if (d > w) {
    transposed.resize(d * w);
    for (std::size_t j = 0; j < d; ++j) {
      for (std::size_t k = 0; k < w; ++k) transposed[k * d + j] = parts.W[j * w + k];
    }
  }
  constexpr std::size_t together = 64;
  parallel_for(problem.n_threads, (n + together - 1) / together, [&](std::size_t chunk) {
    run_with(problem.isa, [&] {
      for (std::size_t i = chunk * together; i < std::min(n, (chunk + 1) * together); ++i) {
        const double* x = problem.data.X.data() + (begin + i) * d;
        double* out = tastes.data() + i * w;
        for (std::size_t k = 0; k < w; ++k) {
          out[k] = parts.base.empty() ? 0.0 : parts.base[k];
          if (d > w) out[k] += dot(x, transposed.data() + k * d, d);
        }
        for (std::size_t j = 0; d <= w && j < d; ++j) {
          const double* row = parts.W.data() + j * w;
          for (std::size_t k = 0; k < w; ++k) out[k] += x[j] * row[k];
        }
      }
    });
  });
}

// row (b) += sum_i a_i B_i, four rows at a time, by which the row is read and written a quarter as often.
inline void add_rows(const double* a, std::size_t stride, const double* B, std::size_t b, std::size_t n, double* row) {
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const double a0 = a[i * stride], a1 = a[(i + 1) * stride], a2 = a[(i + 2) * stride], a3 = a[(i + 3) * stride];
    const double *B0 = B + i * b, *B1 = B0 + b, *B2 = B1 + b, *B3 = B2 + b;
    for (std::size_t k = 0; k < b; ++k) row[k] += (a0 * B0[k] + a1 * B1[k]) + (a2 * B2[k] + a3 * B3[k]);
  }
  for (; i < n; ++i) {
    for (std::size_t k = 0; k < b; ++k) row[k] += a[i * stride] * B[i * b + k];
  }
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

void add_products(std::span<const double> A, std::span<const double> B, std::size_t n, std::span<double> out,
                  int n_threads, Isa isa) {
  if (n == 0 || A.empty() || B.empty()) return;
  const std::size_t a = A.size() / n, b = B.size() / n;
  const bool swapped = a > b;  // the longer sums are the inner ones
  std::vector<double> turned(swapped ? a * b : 0);
  parallel_for(n_threads, swapped ? b : a, [&](std::size_t j) {
    run_with(isa, [&] {
      if (swapped) {
        add_rows(B.data() + j, b, A.data(), a, n, turned.data() + j * a);
      } else {
        add_rows(A.data() + j, a, B.data(), b, n, out.data() + j * b);
      }
    });
  });
  for (std::size_t j = 0; swapped && j < b; ++j) {
    for (std::size_t x = 0; x < a; ++x) out[x * b + j] += turned[j * a + x];
  }
}

}  // namespace manyclass
