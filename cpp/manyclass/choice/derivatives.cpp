// See derivatives.hpp.
#include "manyclass/choice/derivatives.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "manyclass/choice/rules.hpp"
#include "manyclass/core/parallel.hpp"

namespace manyclass {

namespace {

// out (a x b) += A' B, where A is n x a and B is n x b; the same for any number of threads.
void add_products(const LeftFactor& A, std::size_t a, std::span<const double> B, std::size_t n, std::span<double> out,
                  int n_threads, Isa isa) {
  if (n == 0) return;
  constexpr std::size_t together = 32;
  parallel_for(n_threads, (a + together - 1) / together, [&](std::size_t chunk) {
    const std::size_t first = chunk * together, last = std::min(a, first + together);
    run_with(isa, [&] { add_block(A, B.data(), n, B.size() / n, first, last, out.data()); });
  });
}

// Sums over the rows of pieces, and the gradient by coefficients that they make.
class Gradient {
 public:
  Gradient(const ChoiceProblem& problem, const ChoiceParts& parts)
      : problem_(problem),
        parts_(parts),
        constants_(problem.n_alternatives()),
        by_w_(parts.W.size()),
        pairs_(problem.form.n_pair_features),
        nests_(problem.form.n_nests) {}

  // Adds a piece; of drawn alternatives the losses of its rows are written, or their products.
  void add(const ChoicePiece& piece, ChoiceSums sums, const CarriedByRows& carried = {}) {
    const std::size_t n = piece.size();
    std::vector<double> row_losses(n);
    std::vector<double> tastes(piece.tastes.size()), pairs(n * pairs_.size()), nests(n * nests_.size());
    if (sums.losses.empty()) sums.losses = row_losses;
    sums.constant_gradient = constants_;
    sums.taste_gradient = tastes;
    sums.pair_gradient = pairs;
    sums.nest_gradient = nests;
    choice_sums(problem_, parts_, piece, sums, carried);
    const auto x = problem_.data.X.subspan(piece.begin * d(), n * d());
    if (transposed()) {
      add_products({tastes.data(), parts_.width, 1}, parts_.width, x, n, by_w_, problem_.n_threads, problem_.isa);
    } else {
      add_products({x.data(), d(), 1}, d(), tastes, n, by_w_, problem_.n_threads, problem_.isa);
    }
    for (std::size_t i = 0; i < n; ++i) {
      double loss = sums.losses[i];
      if (!carried.log_normalizers.empty()) {
        const double w = carried.log_normalizers[piece.begin + i];
        loss = w + growth(loss - w) - 1;
      }
      add_loss(problem_.weight(piece.begin + i) * loss);
      for (std::size_t j = 0; j < pairs_.size(); ++j) pairs_[j] += pairs[i * pairs_.size() + j];
      for (std::size_t g = 0; g < nests_.size(); ++g) nests_[g] += nests[i * nests_.size() + g];
    }
  }

  // The sum of the weighted losses.
  double loss() const { return loss_ + lost_; }

  void write(std::span<const double> theta, std::span<double> gradient) const {
    const ChoiceForm& form = problem_.form;
    std::ranges::fill(gradient, 0.0);
    add_features_transposed(problem_, constants_, gradient.first(form.pairs_at()));
    std::ranges::copy(pairs_, gradient.begin() + static_cast<std::ptrdiff_t>(form.pairs_at()));
    if (form.rank != 0) add_interactions(form, theta, by_w(), gradient);
    for (std::size_t k = 0; k < form.groups.size(); ++k) {
      if (form.groups[k] > 0)
        gradient[form.constants_at() + static_cast<std::size_t>(form.groups[k]) - 1] += constants_[k];
    }
    std::ranges::copy(nests_, gradient.begin() + static_cast<std::ptrdiff_t>(form.nests_at()));
  }

 private:
  std::size_t d() const { return problem_.form.n_chooser_features; }

  // With what rounding loses (Neumaier 1974), since a line search near the minimum looks at the last digits.
  void add_loss(double value) {
    const double sum = loss_ + value;
    lost_ += std::abs(loss_) >= std::abs(value) ? (loss_ - sum) + value : (value - sum) + loss_;
    loss_ = sum;
  }

  // Whether by_w_ is width x d, so that the inner sums of its products are the longer ones.
  bool transposed() const { return d() > parts_.width; }

  // The gradient by W, whose first column is no coefficient where tastes are those for alternatives themselves.
  std::vector<double> by_w() const {
    std::vector<double> out;
    for (std::size_t j = 0; j < d(); ++j) {
      for (std::size_t k = parts_.own_tastes ? 1 : 0; k < parts_.width; ++k) {
        out.push_back(by_w_[transposed() ? k * d() + j : j * parts_.width + k]);
      }
    }
    return out;
  }

  const ChoiceProblem& problem_;
  const ChoiceParts& parts_;
  std::vector<double> constants_, by_w_, pairs_, nests_;
  double loss_ = 0, lost_ = 0;
};

// Calls f(piece) for the pieces of a problem, whose rows have as many numbers as gradients need, and `more`.
template <class F>
void for_gradients(const ChoiceProblem& problem, const ChoiceParts& parts, std::size_t more, const F& f) {
  for_pieces(problem, parts, parts.width + problem.form.n_pair_features + problem.form.n_nests + 1 + more, f);
}

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

}  // namespace

void losses(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = make_parts(problem, theta);
  for_gradients(problem, parts, 0, [&](const ChoicePiece& piece) {
    ChoiceSums sums;
    sums.losses = out.subspan(piece.begin, piece.size());
    choice_sums(problem, parts, piece, sums);
  });
}

double objective(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> gradient) {
  const ChoiceParts parts = make_parts(problem, theta);
  Gradient sums(problem, parts);
  for_gradients(problem, parts, 0, [&](const ChoicePiece& piece) { sums.add(piece, {}); });
  sums.write(theta, gradient);
  return sums.loss();
}

void inclusive_values(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = make_parts(problem, theta);
  for_gradients(problem, parts, 0, [&](const ChoicePiece& piece) {
    ChoiceSums sums;
    sums.inclusive_values = out.subspan(piece.begin, piece.size());
    choice_sums(problem, parts, piece, sums);
  });
}

double double_sum(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> log_normalizers,
                  std::span<double> row_losses, std::span<double> gradient) {
  if (problem.form.model != "gumbel") throw std::invalid_argument("the double sum is that of Gumbel noise");
  if (log_normalizers.size() != problem.n_rows()) throw std::invalid_argument("log_normalizers do not fit the rows");
  const ChoiceParts parts = make_parts(problem, theta);
  Gradient all(problem, parts);
  for_gradients(problem, parts, 0, [&](const ChoicePiece& piece) {
    ChoiceSums sums;
    sums.losses = row_losses.subspan(piece.begin, piece.size());
    all.add(piece, sums, {log_normalizers, {}});
  });
  all.write(theta, gradient);
  return all.loss();
}

void log_products(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> node_weights,
                  std::span<double> products, std::span<double> gradient) {
  constexpr std::size_t nodes = NoiseNodes::size;
  if (problem.form.model != "normal" && problem.form.model != "logistic") {
    throw std::invalid_argument("products are those of normal or logistic noise");
  }
  if (!node_weights.empty() && node_weights.size() != products.size()) {
    throw std::invalid_argument("nodes do not fit the rows");
  }
  const ChoiceParts parts = make_parts(problem, theta);
  Gradient all(problem, parts);
  for_gradients(problem, parts, nodes, [&](const ChoicePiece& piece) {
    ChoiceSums sums;
    sums.log_products = products.subspan(piece.begin * nodes, piece.size() * nodes);
    if (node_weights.empty()) return choice_sums(problem, parts, piece, sums);
    all.add(piece, sums, {{}, node_weights});
  });
  if (!node_weights.empty()) all.write(theta, gradient);
}

void scores(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceForm& form = problem.form;
  const Products products = products_of(form);
  const ChoiceParts parts = make_explicit_parts(problem, theta);
  ChoiceProblem unweighted = problem;
  unweighted.data.weights = {};
  const std::size_t d = form.n_chooser_features, r = form.n_pair_features, g = form.n_nests, w = parts.width;
  for_pieces(problem, parts, w + r + g, [&](const ChoicePiece& piece) {
    std::vector<double> row_losses(piece.size()), tastes(piece.size() * w), pairs(piece.size() * r);
    std::vector<double> nests(piece.size() * g);
    ChoiceSums sums;
    sums.losses = row_losses;
    sums.taste_gradient = tastes;
    sums.pair_gradient = pairs;
    sums.nest_gradient = nests;
    choice_sums(unweighted, parts, piece, sums);
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
  if (form.model == "nested") throw std::invalid_argument("nests have no second derivatives in closed form");
  const Products products = products_of(form);
  const ChoiceParts parts = make_explicit_parts(problem, theta);
  const std::size_t d1 = form.n_chooser_features + 1, s = products.width, n_pairs = d1 * (d1 + 1) / 2;
  // Sums over rows of x_a x_b times covariances, for a >= b of (1, x).
  std::vector<double> whole(n_pairs * s * s);
  for_pieces(problem, parts, s * s + n_pairs, [&](const ChoicePiece& piece) {
    std::vector<double> covariances(piece.size() * s * s), outer(piece.size() * n_pairs), x1(d1, 1.0);
    ChoiceSums sums;
    sums.covariances = covariances;
    choice_sums(problem, parts, piece, sums);
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

}  // namespace manyclass
