// Loss and gradient of one point from the classes that a search finds (Yen et al., ICML 2018, Algorithms 1 and 2).
//
// With z = sum_j z_j over B blocks of columns, a convex loss has (Theorem 1; lambda_j in R^K)
//
//   L(z) = min over sum_j lambda_j = 0   of   (1/B) sum_j L(B (z_j + lambda_j)),   at lambda_j = z/B - z_j.
//
// Greedy message passing moves lambda there from 0 for classes that have a gradient in some block, the active ones:
//
//   S_j          the classes that a search of block j finds, beside the labels P: other scores of the block are masked,
//                or count as 0
//   repeat T times:
//     A          = P and the classes with |dL(B (z_j + lambda_j))/dz_k| > tau_2 in some block j
//     lambda_j   <- eta (z/B - z_j) + (1 - eta) lambda_j   on A,   eta = 1 ("full") or 2 / (t + 2)
//   answer       the means over j of L(B (z_j + lambda_j)) and of its gradient ("blocks")
//
// The mean counts classes B times that are high in one block by chance; where a point is learned they are most of it.
// The other answer ("active") is L of the exact scores of P and of the classes that were active in some round, beside
// no others: the blocks then only propose classes, a few in each round.
//
// Kept instead of lambda is s_j = B (z_j + lambda_j), for which the step is s_j <- eta z + (1 - eta) s_j: the B scores
// of a class go to their mean z, and that this mean stays is sum_j lambda_j = 0. A class that was active once has its
// exact score in every block, D operations, from then on, not only where it was found. The full step is the better one:
// with eta = 2 / (t + 2), T = 1 leaves a third of the way. One block and no step is Algorithm 1.
//
// A gradient that a loss gives to each class of the rest (those not found, counted as 0) is left out of the answer.
//
// printed_messages.hpp has Algorithm 2 as it is printed, for GmpRule::printed, and says what differs and why.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/objective/label_loss.hpp"
#include "manyclass/objective/point.hpp"
#include "manyclass/search/gmp_options.hpp"
#include "manyclass/search/printed_messages.hpp"

namespace manyclass {

template <class Source>
class GreedyMessagePassing {
 public:
  GreedyMessagePassing(const Source& index, DenseRow phi, std::span<const Index> positives, const GmpOptions& options,
                       const LabelLoss& loss, GmpMemory& memory)
      : index_(index),
        phi_(phi),
        positives_(positives),
        options_(options),
        loss_(loss),
        memory_(memory),
        n_blocks_(index.n_blocks()),
        n_wrong_(index.n_rows() - positives.size()) {}

  double run(std::vector<Index>& ids, std::vector<float>& g) {
    start();
    for (std::size_t j = 0; j < n_blocks_; ++j) find(j);
    for (int t = 1; t <= options_.n_iter; ++t) {
      activate();
      step(options_.step == GmpStep::full ? 1.0F : 2.0F / static_cast<float>(t + 2));
    }
    memory_.n_exact = memory_.exact_ids.size();
    memory_.certified = true;
    return options_.answer == GmpAnswer::blocks ? mean_over_blocks(ids, g) : of_active_classes(ids, g);
  }

 private:
  void start() {
    index_.check(phi_, options_.find.isa);
    memory_.blocks.resize(n_blocks_);
    memory_.slots.resize(index_.n_rows(), -1);
    memory_.exact_ids.clear();
    memory_.exact.clear();
    for (GmpMemory::Block& block : memory_.blocks) block.exact.clear();
    memory_.newcomers.assign(positives_.begin(), positives_.end());
    for (std::size_t k = 0; k < positives_.size(); ++k) slot(positives_[k]) = static_cast<Index>(k);
    admit();
    memory_.n_found = 0;
    memory_.read_all = true;
    memory_.find.n_scanned = 0;
    memory_.find.n_multiplied = 0;
  }

  // S_j
  void find(std::size_t j) {
    GmpMemory::Block& block = memory_.blocks[j];
    FindOptions options = options_.find;
    while (true) {
      memory_.found.clear();
      index_.find(j, phi_, options, positives_, memory_.find, memory_.found);
      block.ids.clear();
      block.scores.clear();
      for (const Scored& found : memory_.found) {
        block.ids.push_back(found.id);
        block.scores.push_back(static_cast<float>(n_blocks_) * found.score);
      }
      if (!options_.until_enough || options.budget == 0) break;
      evaluate(j);
      if (enough(loss_, gradient(), n_wrong_ - block.ids.size(), options_.tolerance)) break;
      if (options.budget == n_wrong_ && options.n_probe == index_.n_clusters()) break;
      options.budget = std::min(2 * options.budget, n_wrong_);
      options.n_probe = std::min(2 * options.n_probe, index_.n_clusters());
    }
    memory_.n_found += block.ids.size();
    memory_.read_all = memory_.read_all && options.n_probe >= index_.n_clusters();
    block.lowest = block.scores.empty() ? 0 : std::ranges::min(block.scores);
  }

  // L(s_j); its gradient is then gradient().
  double evaluate(std::size_t j) { return evaluate(memory_.blocks[j].exact, memory_.blocks[j].scores); }

  // L of some scores of the classes with exact scores, and of others.
  double evaluate(std::span<const float> exact, std::span<const float> others) {
    const std::size_t n_labels = positives_.size();
    memory_.negatives.assign(exact.begin() + static_cast<std::ptrdiff_t>(n_labels), exact.end());
    memory_.negatives.insert(memory_.negatives.end(), others.begin(), others.end());
    memory_.positive_gradient.resize(n_labels);
    memory_.negative_gradient.resize(memory_.negatives.size());
    LabelScores z;
    z.positives = exact.first(n_labels);
    z.negatives = memory_.negatives;
    if (options_.rest == Rest::zero) z.rest = static_cast<double>(n_wrong_ - memory_.negatives.size());
    LabelGradient g = gradient();
    return value_of(loss_, z, g, memory_.loss, options_.find.isa);
  }

  LabelGradient gradient() { return {memory_.positive_gradient, memory_.negative_gradient, 0}; }

  // Gradient of the class with exact scores that stands at e, and of the one found at i, after evaluate().
  float exact_gradient(std::size_t e) const {
    const std::size_t n_labels = positives_.size();
    return e < n_labels ? memory_.positive_gradient[e] : memory_.negative_gradient[e - n_labels];
  }
  std::span<const float> found_gradient() const {
    return std::span(memory_.negative_gradient).subspan(memory_.exact_ids.size() - positives_.size());
  }

  // A
  void activate() {
    memory_.active.assign(memory_.exact_ids.size(), 0);
    std::fill_n(memory_.active.begin(), positives_.size(), 1);
    for (std::size_t j = 0; j < n_blocks_; ++j) {
      evaluate(j);
      for (std::size_t e = positives_.size(); e < memory_.exact_ids.size(); ++e) {
        if (std::fabs(exact_gradient(e)) > options_.tolerance) memory_.active[e] = 1;
      }
      const std::span<const float> g = found_gradient();
      const GmpMemory::Block& block = memory_.blocks[j];
      for (std::size_t i = 0; i < g.size(); ++i) {
        if (!(std::fabs(g[i]) > options_.tolerance) || slot(block.ids[i]) >= 0) continue;
        slot(block.ids[i]) = static_cast<Index>(memory_.exact_ids.size() + memory_.newcomers.size());
        memory_.newcomers.push_back(block.ids[i]);
      }
    }
    if (memory_.newcomers.empty()) return;
    admit();
    memory_.active.resize(memory_.exact_ids.size(), 1);
    for (GmpMemory::Block& block : memory_.blocks) {
      std::size_t left = 0;
      for (std::size_t i = 0; i < block.ids.size(); ++i) {
        block.ids[left] = block.ids[i];
        block.scores[left] = block.scores[i];
        left += slot(block.ids[i]) < 0 ? 1 : 0;
      }
      block.ids.resize(left);
      block.scores.resize(left);
    }
  }

  // Gives the newcomers their exact scores.
  void admit() {
    const std::size_t n = memory_.newcomers.size();
    memory_.new_scores.resize(n_blocks_ * n);
    index_.block_scores(memory_.newcomers, phi_, options_.find.isa, memory_.new_scores);
    for (std::size_t i = 0; i < n; ++i) {
      double z = 0;
      for (std::size_t j = 0; j < n_blocks_; ++j) {
        const float of_block = memory_.new_scores[j * n + i];
        memory_.blocks[j].exact.push_back(static_cast<float>(n_blocks_) * of_block);
        z += static_cast<double>(of_block);
      }
      memory_.exact.push_back(static_cast<float>(z));
    }
    memory_.exact_ids.insert(memory_.exact_ids.end(), memory_.newcomers.begin(), memory_.newcomers.end());
    memory_.newcomers.clear();
  }

  void step(float eta) {
    for (GmpMemory::Block& block : memory_.blocks) {
      for (std::size_t e = 0; e < block.exact.size(); ++e) {
        if (memory_.active[e] != 0) block.exact[e] = eta * memory_.exact[e] + (1 - eta) * block.exact[e];
      }
    }
  }

  double of_active_classes(std::vector<Index>& ids, std::vector<float>& g) {
    ids.assign(memory_.exact_ids.begin(), memory_.exact_ids.end());
    g.clear();
    memory_.certified = certify_active();
    const double loss = evaluate(memory_.exact, {});
    for (std::size_t e = 0; e < memory_.n_exact; ++e) g.push_back(exact_gradient(e));
    finish(ids, g);
    return loss;
  }

  double mean_over_blocks(std::vector<Index>& ids, std::vector<float>& g) {
    ids.assign(memory_.exact_ids.begin(), memory_.exact_ids.end());
    g.assign(ids.size(), 0);
    const float share = 1 / static_cast<float>(n_blocks_);
    const float least = negligible();
    double loss = 0;
    for (std::size_t j = 0; j < n_blocks_; ++j) {
      loss += evaluate(j) / static_cast<double>(n_blocks_);
      memory_.certified = memory_.certified && certify(j);
      for (std::size_t e = 0; e < memory_.n_exact; ++e) g[e] += share * exact_gradient(e);
      const std::span<const float> found = found_gradient();
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (!(std::fabs(found[i]) > least)) continue;
        const Index id = memory_.blocks[j].ids[i];
        if (slot(id) < 0) {
          slot(id) = static_cast<Index>(ids.size());
          ids.push_back(id);
          g.push_back(0);
        }
        g[static_cast<std::size_t>(slot(id))] += share * found[i];
      }
    }
    finish(ids, g);
    return loss;
  }

  // The wrong classes that are neither found in a block nor have exact scores.
  std::size_t n_others(std::size_t n_found) const {
    return n_wrong_ - (memory_.exact_ids.size() - positives_.size()) - n_found;
  }

  // After evaluate(j): whether the other classes are known to add next to nothing to L(s_j). It needs that all clusters
  // were read: then others score no higher than any that was found and never active (s_j of those has not moved), which
  // enough() judges by; with a threshold they are within it of the 0 that they count as.
  bool certify(std::size_t j) const {
    const GmpMemory::Block& block = memory_.blocks[j];
    if (n_others(block.ids.size()) == 0) return true;
    if (!memory_.read_all || (options_.find.budget == 0) != (options_.rest == Rest::zero)) return false;
    if (options_.rest == Rest::zero) return true;
    GmpMemory& m = memory_;
    const std::span<float> found = std::span(m.negative_gradient).last(block.ids.size());
    return enough(loss_, {m.positive_gradient, found, 0}, n_others(block.ids.size()), options_.tolerance);
  }

  // Whether all classes without exact scores are known to add next to nothing to L(z). Their z is a mean over the
  // blocks of s_j, which is at most that of the best one found and never active, or else of the worst found. A class
  // that scores as high as that, beside those with exact scores, has no gradient of a margin, or of cross-entropy a
  // small one even for all of them. Does what evaluate() does.
  bool certify_active() {
    const std::size_t others = n_others(0);
    if (others == 0) return true;
    if (!memory_.read_all || options_.find.budget == 0 || options_.rest == Rest::zero) return false;
    double sum = 0;
    for (const GmpMemory::Block& block : memory_.blocks) {
      sum += static_cast<double>(block.scores.empty() ? block.lowest : std::ranges::max(block.scores));
    }
    const auto highest = static_cast<float>(sum / static_cast<double>(n_blocks_));
    evaluate(memory_.exact, {&highest, 1});
    const double g = static_cast<double>(memory_.negative_gradient.back());
    if (std::holds_alternative<CrossEntropy>(loss_)) {
      // g = |P| e^highest / (Z + e^highest), which is less than |P| e^highest / Z
      const double share = g / static_cast<double>(positives_.size());
      return static_cast<double>(others) * share <= static_cast<double>(options_.tolerance) * (1 - share);
    }
    return g == 0;
  }

  // Leaves the memory as it was, and only classes that have a gradient.
  void finish(std::vector<Index>& ids, std::vector<float>& g) {
    for (const Index id : ids) slot(id) = -1;
    std::size_t left = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[left] = ids[i];
      g[left] = g[i];
      left += g[i] != 0 ? 1 : 0;
    }
    ids.resize(left);
    g.resize(left);
  }

  // Gradients that need not be listed. Of cross-entropy, which gives each class one: all K together are then at most a
  // share `tolerance` of what the wrong classes can have.
  float negligible() const {
    if (std::holds_alternative<CrossEntropy>(loss_)) {
      return options_.tolerance * static_cast<float>(positives_.size()) / static_cast<float>(index_.n_rows());
    }
    return 0;
  }

  Index& slot(Index id) { return memory_.slots[static_cast<std::size_t>(id)]; }

  const Source& index_;
  DenseRow phi_;
  std::span<const Index> positives_;
  const GmpOptions& options_;
  const LabelLoss& loss_;
  GmpMemory& memory_;
  std::size_t n_blocks_;
  std::size_t n_wrong_;
};

// Returns the approximate loss of a point with features phi and labels `positives` (sorted, distinct, not empty), and
// its gradient in the scores as ids, in no order, and values. `index` is a DecomposedIndex, or WholeRows for
// Algorithm 1. Threads may call it at once, each with a memory of its own.
template <class Source>
double approximate_gradient(const Source& index, DenseRow phi, std::span<const Index> positives,
                            const GmpOptions& options, const LabelLoss& loss, GmpMemory& memory,
                            std::vector<Index>& ids, std::vector<float>& g) {
  if (options.rule == GmpRule::printed)
    return PrintedMessages(index, phi, positives, options, loss, memory).run(ids, g);
  memory.rest = 0;
  return GreedyMessagePassing(index, phi, positives, options, loss, memory).run(ids, g);
}

}  // namespace manyclass
