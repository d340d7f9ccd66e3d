// See problem.hpp.
#include "manyclass/choice/problem.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "manyclass/choice/drawn_rules.hpp"
#include "manyclass/choice/parts.hpp"

namespace manyclass {

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
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

  void add(const ChoicePiece& piece, ChoiceSums sums) {
    const std::size_t n = piece.size();
    std::vector<double> of_rows(n), constants(constants_.size());
    std::vector<double> tastes(piece.tastes.size()), pairs(n * pairs_.size()), nests(n * nests_.size());
    sums.losses = of_rows;
    sums.constant_gradient = constants;
    sums.taste_gradient = tastes;
    sums.pair_gradient = pairs;
    sums.nest_gradient = nests;
    choice_sums(piece.question, sums);
    for (std::size_t k = 0; k < constants.size(); ++k) constants_[k] += constants[k];
    const auto x = problem_.data.X.subspan(piece.begin * d(), n * d());
    if (transposed()) {
      add_products({tastes.data(), parts_.width, 1}, parts_.width, x, n, by_w_, problem_.n_threads, problem_.isa);
    } else {
      add_products({x.data(), d(), 1}, d(), tastes, n, by_w_, problem_.n_threads, problem_.isa);
    }
    for (std::size_t i = 0; i < n; ++i) {
      add_loss(problem_.weight(piece.begin + i) * of_rows[i]);
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

std::size_t numbers_of(const ChoiceProblem& problem, const ChoiceParts& parts) {
  return parts.width + problem.form.n_pair_features + problem.form.n_nests + 1;
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
  ChoiceRows rows;
  const std::vector<double> coefficients(form.n_pair_features);
  rows.constants = data.constants;
  rows.indptr = data.indptr;
  rows.alternatives = data.alternatives;
  rows.pair_features = data.pair_features;
  rows.pair_coef = coefficients;
  rows.offsets = data.offsets;
  rows.log_weights = data.log_weights;
  rows.listed_only = data.listed_only;
  rows.n_rows = data.n_rows;
  check(rows);
}

void losses(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = parts_of(problem, theta);
  for_pieces(problem, parts, numbers_of(problem, parts), [&](ChoicePiece& piece) {
    ChoiceSums sums;
    sums.losses = out.subspan(piece.begin, piece.size());
    choice_sums(piece.question, sums);
  });
}

double objective(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> gradient) {
  const ChoiceParts parts = parts_of(problem, theta);
  Gradient sums(problem, parts);
  for_pieces(problem, parts, numbers_of(problem, parts), [&](const ChoicePiece& piece) { sums.add(piece, {}); });
  sums.write(theta, gradient);
  return sums.loss();
}

void inclusive_values(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = parts_of(problem, theta);
  for_pieces(problem, parts, numbers_of(problem, parts), [&](ChoicePiece& piece) {
    ChoiceSums sums;
    sums.inclusive_values = out.subspan(piece.begin, piece.size());
    piece.question.chosen = {};
    choice_sums(piece.question, sums);
  });
}

void log_sums(const ChoiceProblem& problem, std::span<const double> theta, std::span<double> out) {
  const ChoiceParts parts = parts_of(problem, theta);
  const std::vector<double> zeros(problem.n_rows());
  for_pieces(problem, parts, numbers_of(problem, parts), [&](ChoicePiece& piece) {
    piece.question.model.model = "drawn";
    piece.question.model.log_normalizers = std::span(zeros).first(piece.size());
    ChoiceSums found;
    found.inclusive_values = out.subspan(piece.begin, piece.size());
    choice_sums(piece.question, found);
  });
}

double double_sum(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> log_normalizers,
                  std::span<double> sums, std::span<double> gradient) {
  if (log_normalizers.size() != problem.n_rows()) throw std::invalid_argument("log_normalizers do not fit the rows");
  const ChoiceParts parts = parts_of(problem, theta);
  Gradient all(problem, parts);
  for_pieces(problem, parts, numbers_of(problem, parts), [&](ChoicePiece& piece) {
    piece.question.model.model = "drawn";
    piece.question.model.log_normalizers = log_normalizers.subspan(piece.begin, piece.size());
    ChoiceSums found;
    found.inclusive_values = sums.subspan(piece.begin, piece.size());
    all.add(piece, found);
  });
  all.write(theta, gradient);
  return all.loss();
}

void log_products(const ChoiceProblem& problem, std::span<const double> theta, std::span<const double> node_weights,
                  std::span<double> products, std::span<double> gradient) {
  constexpr std::size_t nodes = NoiseNodes::size;
  if (products.size() != problem.n_rows() * nodes ||
      (!node_weights.empty() && node_weights.size() != products.size())) {
    throw std::invalid_argument("nodes do not fit the rows");
  }
  const ChoiceParts parts = parts_of(problem, theta);
  Gradient all(problem, parts);
  for_pieces(problem, parts, numbers_of(problem, parts) + nodes, [&](ChoicePiece& piece) {
    piece.question.model.model = "drawn_" + problem.form.model;
    ChoiceSums found;
    found.log_products = products.subspan(piece.begin * nodes, piece.size() * nodes);
    if (node_weights.empty()) return choice_sums(piece.question, found);
    piece.question.model.node_weights = node_weights.subspan(piece.begin * nodes, piece.size() * nodes);
    all.add(piece, found);
  });
  if (!node_weights.empty()) all.write(theta, gradient);
}

}  // namespace manyclass
