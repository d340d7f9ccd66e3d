// See row_softmax.hpp.
#include "manyclass/words/row_softmax.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/weights/dense_products.hpp"

namespace manyclass {

namespace {

constexpr std::size_t lot_floats = 1 << 23;  // scores in hand: 32 MB
constexpr std::size_t strip = 64;            // rows of v whose gradients are in the nearest cache at once

// Some rows of one group, with their list.
struct Lot {
  std::size_t first;  // in groups.rows
  std::span<const Index> rows;
  std::span<const Index> list;  // none: all rows of v
  std::size_t n_listed, n_found;
  float drawn_log_weight;

  std::size_t listed(std::size_t c) const { return list.empty() ? c : static_cast<std::size_t>(list[c]); }
};

class Softmax {
 public:
  Softmax(const RowSoftmax& question, const RowSums& sums) : q_(question), sums_(sums) {}

  void add(const Lot& lot) {
    scores_.resize(lot.rows.size() * lot.n_listed);
    const std::size_t n_pieces = (lot.rows.size() + rows_together - 1) / rows_together;
    parallel_for(q_.n_threads, n_pieces, [&](std::size_t piece) {
      const std::size_t begin = piece * rows_together;
      run_with(q_.isa, [&](Isa isa) { of_rows(lot, begin, std::min(lot.rows.size(), begin + rows_together), isa); });
    });
    if (sums_.output_gradient.empty()) return;
    parallel_for(q_.n_threads, (lot.n_found + strip - 1) / strip, [&](std::size_t s) {
      run_with(q_.isa, [&](Isa isa) { of_columns(lot, s * strip, std::min(lot.n_found, (s + 1) * strip), isa); });
    });
  }

 private:
  const float* h(Index row) const { return q_.input.data() + static_cast<std::size_t>(row) * q_.width; }
  const float* v(std::size_t row) const { return q_.output.data() + row * q_.width; }

  // log Z of the rows [begin, end) of a lot and their expectations; leaves q_x p_xy in the scores.
  void of_rows(const Lot& lot, std::size_t begin, std::size_t end, Isa isa) {
    const std::size_t n = lot.n_listed;
    float* const z = scores_.data() + begin * n;
    const float* x[rows_together];
    for (std::size_t i = begin; i < end; ++i) x[i - begin] = h(lot.rows[i]);
    const RowsTogether<float> together(std::span<const float* const>(x, end - begin), q_.width);
    together.scores([&](std::size_t c) { return v(lot.listed(c)); }, n, isa, z, n);
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<float> p(z + (i - begin) * n, n);
      const auto row = static_cast<std::size_t>(lot.rows[i]);
      for (std::size_t c = lot.n_found; c < n; ++c) p[c] += lot.drawn_log_weight;
      const float top = max_of(p, p[0]);
      for (float& score : p) score = vec::exp(score - top);
      const double sum = sum_of(p);
      if (!sums_.log_z.empty()) sums_.log_z[row] = static_cast<double>(top) + std::log(sum);
      const auto share = static_cast<float>(1 / sum);
      for (float& score : p) score *= share;
    }
    if (!sums_.input_gradient.empty()) add_expectations(lot, begin, end, z, isa);
    if (sums_.output_gradient.empty()) return;
    for (std::size_t i = begin; i < end; ++i) {
      float* const p = z + (i - begin) * n;
      for (const Index y : sums_.left_out.of(lot.first + i)) p[y] = 0;
      const auto weight = static_cast<float>(sums_.weights[static_cast<std::size_t>(lot.rows[i])]);
      for (std::size_t c = 0; c < n; ++c) p[c] *= weight;
    }
  }

  void add_expectations(const Lot& lot, std::size_t begin, std::size_t end, const float* p, Isa isa) const {
    const std::size_t n_rows = end - begin, n = lot.n_listed;
    float by_column[strip * rows_together];
    const float* x[strip];
    for (std::size_t first = 0; first < n; first += strip) {
      const std::size_t size = std::min(strip, n - first);
      for (std::size_t c = 0; c < size; ++c) {
        x[c] = v(lot.listed(first + c));
        for (std::size_t i = 0; i < n_rows; ++i) by_column[c * n_rows + i] = p[i * n + first + c];
      }
      const auto row_of = [&](std::size_t i) {
        return sums_.input_gradient.data() + static_cast<std::size_t>(lot.rows[begin + i]) * q_.width;
      };
      add_products<float>(std::span<const float* const>(x, size), q_.width, by_column, n_rows, row_of, n_rows, isa);
    }
  }

  // Sums of floats over the rows of a lot, which are then added to sums of doubles.
  void of_columns(const Lot& lot, std::size_t begin, std::size_t end, Isa isa) const {
    std::vector<float> sums((end - begin) * q_.width);
    std::vector<const float*> x(lot.rows.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = h(lot.rows[i]);
    const auto row_of = [&](std::size_t c) { return sums.data() + c * q_.width; };
    add_products<float>(std::span<const float* const>(x), q_.width, scores_.data() + begin, lot.n_listed, row_of,
                        end - begin, isa);
    for (std::size_t c = begin; c < end; ++c) {
      double* const to = sums_.output_gradient.data() + lot.listed(c) * q_.width;
      const float* const from = row_of(c - begin);
      for (std::size_t j = 0; j < q_.width; ++j) to[j] += static_cast<double>(from[j]);
    }
  }

  const RowSoftmax& q_;
  const RowSums& sums_;
  std::vector<float> scores_;
};

void refuse(const char* what) { throw std::invalid_argument(what); }

void check_ids(std::span<const Index> ids, std::size_t n) {
  const auto fits = [n](Index id) { return id >= 0 && static_cast<std::size_t>(id) < n; };
  if (!std::ranges::all_of(ids, fits)) refuse("a row of a group is out of range");
}

void check_starts(std::span<const Offset> starts, std::size_t n_groups, std::size_t size) {
  if (starts.size() != n_groups + 1 || starts.front() != 0 || starts.back() != static_cast<Offset>(size) ||
      !std::ranges::is_sorted(starts)) {
    refuse("the groups of rows do not fit their lists");
  }
}

void check(const RowSoftmax& q) {
  if (q.width == 0 || q.input.size() % q.width != 0 || q.output.size() % q.width != 0 || q.output.empty()) {
    refuse("the tables do not have rows of one width");
  }
  check_ids(q.groups.rows, q.n_inputs());
  check_distinct(q.groups.rows, q.n_inputs());
}

void check(const RowSoftmax& q, const RowSums& sums) {
  check(q);
  const RowGroups& g = q.groups;
  const std::size_t n_groups = g.row_starts.empty() ? 0 : g.row_starts.size() - 1;
  check_starts(g.row_starts, n_groups, g.rows.size());
  if (!g.list_starts.empty()) {
    check_starts(g.list_starts, n_groups, g.list.size());
    check_ids(g.list, q.n_outputs());
    if (g.n_found.size() != n_groups || g.drawn_log_weights.size() != n_groups) refuse("each group needs its numbers");
    for (std::size_t i = 0; i < n_groups; ++i) {
      const Offset n = g.list_starts[i + 1] - g.list_starts[i];
      if (n == 0 || g.n_found[i] < 0 || g.n_found[i] > n) refuse("a list is shorter than what was found");
    }
  }
  const auto fits = [](std::size_t size, std::size_t wanted) { return size == 0 || size == wanted; };
  if (!fits(sums.log_z.size(), q.n_inputs()) || !fits(sums.input_gradient.size(), q.input.size()) ||
      !fits(sums.output_gradient.size(), q.output.size()) ||
      (!sums.output_gradient.empty() && sums.weights.size() != q.n_inputs())) {
    refuse("the sums do not have the sizes of the tables");
  }
  if (sums.left_out.indptr.empty()) return;
  if (!g.list_starts.empty()) refuse("rows are left out of lists of all rows only");
  check(sums.left_out, g.rows.size(), q.n_outputs(), "rows left out");
}

}  // namespace

void add_row_softmax(const RowSoftmax& question, const RowSums& sums) {
  check(question, sums);
  const RowGroups& groups = question.groups;
  Softmax softmax(question, sums);
  for (std::size_t g = 0; g + 1 < groups.row_starts.size(); ++g) {
    Lot lot{0, {}, {}, question.n_outputs(), question.n_outputs(), 0};
    if (!groups.list_starts.empty()) {
      const auto at = static_cast<std::size_t>(groups.list_starts[g]);
      lot.n_listed = static_cast<std::size_t>(groups.list_starts[g + 1]) - at;
      lot.list = groups.list.subspan(at, lot.n_listed);
      lot.n_found = static_cast<std::size_t>(groups.n_found[g]);
      lot.drawn_log_weight = groups.drawn_log_weights[g];
    }
    const std::size_t most = std::max(lot_floats / lot.n_listed, rows_together) / rows_together * rows_together;
    const auto end = static_cast<std::size_t>(groups.row_starts[g + 1]);
    for (lot.first = static_cast<std::size_t>(groups.row_starts[g]); lot.first < end; lot.first += most) {
      lot.rows = groups.rows.subspan(lot.first, std::min(most, end - lot.first));
      softmax.add(lot);
    }
  }
}

void tree_losses(const RowSoftmax& q, const TreePaths& tree, const CsrView& observed, std::span<double> losses) {
  check(q);
  const std::span<const Index> rows = q.groups.rows;
  check_starts(tree.starts, static_cast<std::size_t>(observed.n_cols), tree.nodes.size());
  check_ids(tree.nodes, q.n_outputs());
  if (static_cast<std::size_t>(observed.n_rows()) != q.n_inputs() || losses.size() != rows.size() ||
      tree.signs.size() != tree.nodes.size()) {
    refuse("the rows, what is observed and the tree do not fit each other");
  }
  parallel_for(q.n_threads, rows.size(), [&](std::size_t i) {
    std::vector<double> z(q.n_outputs());
    const float* const h = q.input.data() + static_cast<std::size_t>(rows[i]) * q.width;
    for (std::size_t k = 0; k < z.size(); ++k) {
      const float* const v = q.output.data() + k * q.width;
      for (std::size_t j = 0; j < q.width; ++j) z[k] += static_cast<double>(h[j]) * static_cast<double>(v[j]);
    }
    const SparseRow words = observed.row(rows[i]);
    double loss = 0;
    for (std::size_t w = 0; w < words.indices.size(); ++w) {
      const auto word = static_cast<std::size_t>(words.indices[w]);
      double of_word = 0;
      for (auto at = static_cast<std::size_t>(tree.starts[word]); at < static_cast<std::size_t>(tree.starts[word + 1]);
           ++at) {
        of_word += softplus(-static_cast<double>(tree.signs[at]) * z[static_cast<std::size_t>(tree.nodes[at])]);
      }
      loss += static_cast<double>(words.values[w]) * of_word;
    }
    losses[i] = loss;
  });
}

}  // namespace manyclass
