// See scores.hpp.
#include "manyclass/choice/scores.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "manyclass/choice/parts.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/core/simd.hpp"

namespace manyclass {

namespace {

// Coefficient j is that of the product of x[j] among (1, x) and z[j] among (z, constants, own tastes, s).
struct Products {
  std::vector<std::size_t> x, z;
  std::size_t width = 0;  // of (z, constants, own tastes, s)
};

Products products_of(const ChoiceForm& form) {
  const std::size_t q = form.n_alternative_features, constants = form.n_constants();
  const std::size_t own = form.has_own_tastes() ? form.width() : 0, s_at = q + constants + own;
  Products out;
  out.width = s_at + form.n_pair_features;
  const auto add = [&out](std::size_t x, std::size_t begin, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
      out.x.push_back(x);
      out.z.push_back(begin + j);
    }
  };
  add(0, 0, q);
  add(0, s_at, form.n_pair_features);
  for (std::size_t x = 0; form.rank != 0 && x < form.n_chooser_features; ++x) {
    add(x + 1, own > 0 ? q + constants : 0, form.width());
  }
  add(0, q, constants);
  return out;
}

// The same utilities with constants and tastes for alternatives as features.
ChoiceParts explicit_parts(const ChoiceProblem& problem, std::span<const double> theta, const Products& products) {
  const ChoiceForm& form = problem.form;
  if (!has_scores(form)) {
    throw std::invalid_argument(
        "standard errors need at most 300 features of alternatives, pairs and constants, and no interactions of low "
        "rank; give constants by group, or interactions='full'");
  }
  check_coefficients(problem, theta.size());
  const std::size_t q = form.n_alternative_features, k = problem.n_alternatives();
  ChoiceParts parts;
  parts.width = products.width - form.n_pair_features;
  parts.constants.assign(problem.data.constants.begin(), problem.data.constants.end());
  parts.base.resize(parts.width);
  parts.W.resize(form.n_chooser_features * parts.width);
  for (std::size_t j = 0; j < products.x.size(); ++j) {
    if (products.z[j] >= parts.width) continue;  // of a pair
    double* row = products.x[j] == 0 ? parts.base.data() : parts.W.data() + (products.x[j] - 1) * parts.width;
    row[products.z[j]] = theta[j];
  }
  const std::vector<double> z = dense_features(problem);
  parts.features.resize(k * parts.width);
  for (std::size_t a = 0; a < k; ++a) {
    double* row = parts.features.data() + a * parts.width;
    std::copy_n(z.data() + a * q, q, row);
    if (!form.groups.empty() && form.groups[a] > 0) row[q + static_cast<std::size_t>(form.groups[a]) - 1] = 1;
    if (form.has_own_tastes() && a > 0) row[q + form.n_constants() + a - 1] = 1;
  }
  parts.pair_coef = theta.subspan(form.pairs_at(), form.n_pair_features);
  parts.dissimilarity = theta.subspan(form.nests_at());
  return parts;
}

void differences(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const std::size_t n = theta.size();
  std::vector<double> moved(theta.begin(), theta.end()), up(n), down(n);
  for (std::size_t j = 0; j < n; ++j) {
    const double step = 1e-4 * std::max(1.0, std::abs(theta[j]));
    moved[j] = theta[j] + step;
    objective(problem, moved, up);
    moved[j] = theta[j] - step;
    objective(problem, moved, down);
    moved[j] = theta[j];
    for (std::size_t l = 0; l < n; ++l) out[j * n + l] = (up[l] - down[l]) / (2 * step);
  }
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t l = 0; l < j; ++l) out[j * n + l] = out[l * n + j] = 0.5 * (out[j * n + l] + out[l * n + j]);
  }
}

// The standard deviation of n numbers whose sum and sum of squares are given.
double deviation(double sum, double squares, std::size_t n) {
  const double mean = sum / static_cast<double>(n);
  return std::sqrt(std::max(squares / static_cast<double>(n) - mean * mean, 0.0));
}

}  // namespace

void scores(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceForm& form = problem.form;
  const Products products = products_of(form);
  const ChoiceParts parts = explicit_parts(problem, theta, products);
  const std::size_t d = form.n_chooser_features, r = form.n_pair_features, g = form.n_nests, w = parts.width;
  for_pieces(problem, parts, w + r + g, [&](ChoicePiece& piece) {
    std::vector<double> tastes(piece.size() * w), pairs(piece.size() * r), nests(piece.size() * g);
    ChoiceSums sums;
    sums.taste_gradient = tastes;
    sums.pair_gradient = pairs;
    sums.nest_gradient = nests;
    piece.question.weights = {};
    choice_sums(piece.question, sums);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const double* x = problem.data.X.data() + (piece.begin + i) * d;
      double* row = out.data() + (piece.begin + i) * form.size();
      for (std::size_t j = 0; j < products.x.size(); ++j) {
        const std::size_t z = products.z[j];
        row[j] = (products.x[j] == 0 ? 1.0 : x[products.x[j] - 1]) * (z < w ? tastes[i * w + z] : pairs[i * r + z - w]);
      }
      std::copy_n(nests.data() + i * g, g, row + products.x.size());
    }
  });
}

void hessian(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceForm& form = problem.form;
  if (form.model == "nested") return differences(problem, theta, out);
  const Products products = products_of(form);
  const ChoiceParts parts = explicit_parts(problem, theta, products);
  const std::size_t d1 = form.n_chooser_features + 1, s = products.width, n_pairs = d1 * (d1 + 1) / 2;
  // Sums over rows of x_a x_b times covariances, for a >= b of (1, x).
  std::vector<double> whole(n_pairs * s * s);
  for_pieces(problem, parts, s * s + n_pairs, [&](ChoicePiece& piece) {
    std::vector<double> covariances(piece.size() * s * s), outer(piece.size() * n_pairs), x1(d1, 1.0);
    ChoiceSums sums;
    sums.covariances = covariances;
    if (form.model == "gumbel") piece.question.chosen = {};
    choice_sums(piece.question, sums);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      std::copy_n(problem.data.X.data() + (piece.begin + i) * (d1 - 1), d1 - 1, x1.data() + 1);
      std::size_t pair = 0;
      for (std::size_t a = 0; a < d1; ++a) {
        for (std::size_t b = 0; b <= a; ++b) {
          outer[pair++ * piece.size() + i] = problem.weight(piece.begin + i) * x1[a] * x1[b];
        }
      }
    }
    const LeftFactor left{outer.data(), 1, piece.size()};
    add_products(left, n_pairs, covariances, piece.size(), whole, problem.n_threads, problem.isa);
  });
  const std::size_t n = form.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t l = 0; l < n; ++l) {
      const std::size_t a = std::max(products.x[j], products.x[l]), b = std::min(products.x[j], products.x[l]);
      out[j * n + l] = whole[((a * (a + 1) / 2 + b) * s + products.z[j]) * s + products.z[l]];
    }
  }
}

void metric(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceForm& form = problem.form;
  if (form.rank <= 0) return hessian(problem, theta, out);
  check_coefficients(problem, theta.size());
  ChoiceProblem full = problem;
  full.form = with_full_interactions(form);
  const std::size_t n = form.size(), m = full.form.size(), at = form.interactions_at();
  const std::size_t w = full.form.n_interactions(), own = form.n_interactions();
  const std::vector<double> W = interactions(form, theta);
  std::vector<double> of_full(theta.begin(), theta.begin() + static_cast<std::ptrdiff_t>(at));
  of_full.insert(of_full.end(), W.begin(), W.end());
  of_full.insert(of_full.end(), theta.begin() + static_cast<std::ptrdiff_t>(at + own), theta.end());
  std::vector<double> H(m * m), half(n * m), row(n);
  hessian(full, of_full, H);
  // The gradient by the coefficients, of that by those of the full form.
  const auto reduced = [&](std::span<const double> gradient) {
    std::ranges::fill(row, 0.0);
    std::copy_n(gradient.begin(), at, row.begin());
    std::copy(gradient.begin() + static_cast<std::ptrdiff_t>(at + w), gradient.end(),
              row.begin() + static_cast<std::ptrdiff_t>(at + own));
    add_interactions(form, theta, gradient.subspan(at, w), row);
  };
  for (std::size_t j = 0; j < m; ++j) {
    reduced(std::span(H).subspan(j * m, m));
    for (std::size_t l = 0; l < n; ++l) half[l * m + j] = row[l];
  }
  for (std::size_t l = 0; l < n; ++l) {
    reduced(std::span(half).subspan(l * m, m));
    std::ranges::copy(row, out.begin() + static_cast<std::ptrdiff_t>(l * n));
  }
}

void scales(const ChoiceProblem& problem, std::span<double> out) {
  constexpr std::size_t most_rows = 1000;  // whose pairs are looked at
  const ChoiceForm& form = problem.form;
  const ChoiceData& data = problem.data;
  check_coefficients(problem, out.size());
  const std::size_t q = form.n_alternative_features, r = form.n_pair_features, d = form.n_chooser_features;
  const std::size_t n = problem.n_rows(), k = problem.n_alternatives();
  std::ranges::fill(out, 1.0);
  std::vector<double> sums(q), squares(q);
  for (std::size_t at = 0; at < data.Z.size(); ++at) {
    const std::size_t j = data.Z_indptr.empty() ? at % q : static_cast<std::size_t>(data.Z_indices[at]);
    sums[j] += data.Z[at];
    squares[j] += data.Z[at] * data.Z[at];
  }
  for (std::size_t j = 0; j < q; ++j) out[j] = deviation(sums[j], squares[j], k);
  const std::size_t n_listed =
      data.indptr.empty() ? 0 : static_cast<std::size_t>(data.indptr[std::min(n, most_rows)] - data.indptr[0]);
  for (std::size_t j = 0; n_listed > 0 && j < r; ++j) {
    double sum = 0, square = 0;
    for (std::size_t at = 0; at < n_listed; ++at) {
      const double value = data.pair_features[at * r + j];
      sum += value;
      square += value * value;
    }
    out[form.pairs_at() + j] = deviation(sum, square, n_listed);
  }
  for (std::size_t x = 0; form.rank < 0 && x < d; ++x) {
    double square = 0;
    for (std::size_t i = 0; i < n; ++i) square += data.X[i * d + x] * data.X[i * d + x];
    const double root = std::sqrt(square / static_cast<double>(n)), w = static_cast<double>(form.width());
    for (std::size_t z = 0; z < form.width(); ++z) {
      out[form.interactions_at() + x * form.width() + z] = root * (form.has_own_tastes() ? 1 / std::sqrt(w) : out[z]);
    }
  }
  if (form.n_constants() > 0) {
    std::vector<double> counts(form.n_groups, 1.0);
    for (const Index y : data.chosen) counts[static_cast<std::size_t>(form.groups[static_cast<std::size_t>(y)])] += 1;
    for (std::size_t g = 1; g < form.n_groups; ++g) {
      out[form.constants_at() + g - 1] = std::sqrt(counts[g] / static_cast<double>(n));
    }
  }
  for (double& value : out) value = value > 0 ? value : 1.0;
}

double squared_spread(const ChoiceProblem& problem, std::span<const double> directions, std::size_t n) {
  const std::size_t size = problem.form.size();
  if (directions.size() != n * size) throw std::invalid_argument("directions do not fit the coefficients");
  const std::vector<double> no_constants(problem.n_alternatives());
  ChoiceProblem moved = problem;  // utilities are those of the coefficients alone
  moved.data.constants = no_constants;
  moved.data.offsets = {};
  std::vector<double> squares(problem.n_rows());
  for (std::size_t j = 0; j < n; ++j) {
    const ChoiceParts parts = parts_of(moved, directions.subspan(j * size, size));
    for_pieces(moved, parts, parts.width + 1, [&](const ChoicePiece& piece) {
      const ChoiceRows& rows = piece.question.rows;
      const std::vector<double> transposed = rows.listed_only ? std::vector<double>{} : by_feature(rows);
      parallel_for(problem.n_threads, piece.size(), [&](std::size_t i) {
        poll(rows.set_size(i) + 64);
        std::vector<double> u(rows.set_size(i));
        run_with(problem.isa, [&] { utilities_of(rows, transposed, i, u); });
        if (u.empty()) return;
        const auto [low, high] = std::ranges::minmax(u);
        squares[piece.begin + i] += (high - low) * (high - low);
      });
    });
  }
  return squares.empty() ? 0.0 : std::ranges::max(squares);
}

}  // namespace manyclass
