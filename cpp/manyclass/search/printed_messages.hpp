// Greedy message passing as Yen et al. (ICML 2018) print it in Algorithm 2.
//
//   1, 2   S_j: the classes that a search of block j finds; z~_j has their scores there and those of the labels P, and
//          0 for all others
//   4      A = the classes with |dL(B (z~_j + lambda_j))/dz_k| > tau_2 in some block j
//   5, 7   lambda_j <- eta (z~ / B - z~_j) + (1 - eta) lambda_j on A, with z~ = sum_j z~_j
//   9      the answer is the mean over j of the gradients of L(B (z~_j + lambda_j)), for all K classes
//
// The rule of message_passing.hpp differs in four things. Labels are always active there; a class that is active has
// its exact score z in all blocks, where z~ has the sum of the blocks that found it; classes that no search has found
// are left out unless they are asked to count as 0; and their gradients are left out. The first two cost D |A|
// operations a round and bring the answer nearer to that of all classes: where a class is found in one of B blocks
// only, z~ is off by what the other blocks hold. The rule as printed needs no exact score, so that its cost does not
// depend on |A|.
//
// Kept instead of lambda is s_j = B (z~_j + lambda_j), for which the step is s_j <- eta z~ + (1 - eta) s_j. A class
// that no search has found has s_j = 0 in all blocks and for ever, whether it is active or not: all of them have one
// gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "manyclass/objective/point.hpp"
#include "manyclass/search/gmp_options.hpp"

namespace manyclass {

template <class Source>
class PrintedMessages {
 public:
  PrintedMessages(const Source& index, DenseRow phi, std::span<const Index> positives, const GmpOptions& options,
                  const LabelLoss& loss, GmpMemory& memory)
      : index_(index), phi_(phi), positives_(positives), options_(options), loss_(loss), memory_(memory) {}

  double run(std::vector<Index>& ids, std::vector<float>& g) {
    find();
    for (int t = 1; t <= options_.n_iter; ++t) {
      activate();
      step(options_.step == GmpStep::full ? 1.0F : 2.0F / static_cast<float>(t + 2));
    }
    return answer(ids, g);
  }

 private:
  std::size_t n_blocks() const { return index_.n_blocks(); }
  std::size_t n_known() const { return memory_.exact_ids.size(); }
  std::size_t n_others() const { return index_.n_rows() - n_known(); }
  std::span<float> block(std::size_t j) { return std::span(memory_.known).subspan(j * n_known(), n_known()); }
  Index& slot(Index id) { return memory_.slots[static_cast<std::size_t>(id)]; }

  // Lines 1 and 2: memory_.exact_ids are the labels, then what was found; memory_.exact is z~.
  void find() {
    index_.check(phi_, options_.find.isa);
    memory_.slots.resize(index_.n_rows(), -1);
    memory_.blocks.resize(n_blocks());
    memory_.find.n_scanned = memory_.find.n_multiplied = memory_.n_found = 0;
    memory_.exact_ids.assign(positives_.begin(), positives_.end());
    for (std::size_t k = 0; k < positives_.size(); ++k) slot(positives_[k]) = static_cast<Index>(k);
    for (std::size_t j = 0; j < n_blocks(); ++j) {
      memory_.found.clear();
      index_.find(j, phi_, options_.find, positives_, memory_.find, memory_.found);
      memory_.n_found += memory_.found.size();
      GmpMemory::Block& block = memory_.blocks[j];
      block.ids.clear();
      block.scores.clear();
      for (const Scored& one : memory_.found) {
        if (slot(one.id) < 0) {
          slot(one.id) = static_cast<Index>(n_known());
          memory_.exact_ids.push_back(one.id);
        }
        block.ids.push_back(one.id);
        block.scores.push_back(one.score);
      }
    }
    memory_.known.assign(n_blocks() * n_known(), 0);
    memory_.new_scores.resize(n_blocks() * positives_.size());
    index_.block_scores(positives_, phi_, options_.find.isa, memory_.new_scores);
    const auto times = static_cast<float>(n_blocks());
    for (std::size_t j = 0; j < n_blocks(); ++j) {
      const std::span<float> s = block(j);
      for (std::size_t k = 0; k < positives_.size(); ++k) s[k] = times * memory_.new_scores[j * positives_.size() + k];
      const GmpMemory::Block& found = memory_.blocks[j];
      for (std::size_t i = 0; i < found.ids.size(); ++i) {
        s[static_cast<std::size_t>(slot(found.ids[i]))] = times * found.scores[i];
      }
    }
    memory_.exact.assign(n_known(), 0);
    for (std::size_t k = 0; k < n_known(); ++k) {
      double sum = 0;
      for (std::size_t j = 0; j < n_blocks(); ++j) sum += static_cast<double>(block(j)[k]);
      memory_.exact[k] = static_cast<float>(sum / static_cast<double>(n_blocks()));
    }
  }

  // L(s_j); its gradients are then memory_.positive_gradient, memory_.negative_gradient and memory_.rest.
  double evaluate(std::size_t j) {
    const std::size_t n_labels = positives_.size();
    memory_.positive_gradient.resize(n_labels);
    memory_.negative_gradient.resize(n_known() - n_labels);
    LabelScores z;
    z.positives = block(j).first(n_labels);
    z.negatives = block(j).subspan(n_labels);
    z.rest = static_cast<double>(n_others());
    LabelGradient g{memory_.positive_gradient, memory_.negative_gradient, 0};
    const double loss = value_of(loss_, z, g, memory_.loss, options_.find.isa);
    memory_.rest = z.rest > 0 ? g.rest : 0.0;
    return loss;
  }

  float gradient(std::size_t k) const {
    const std::size_t n_labels = positives_.size();
    return k < n_labels ? memory_.positive_gradient[k] : memory_.negative_gradient[k - n_labels];
  }

  // Line 4
  void activate() {
    memory_.active.assign(n_known(), 0);
    for (std::size_t j = 0; j < n_blocks(); ++j) {
      evaluate(j);
      for (std::size_t k = 0; k < n_known(); ++k) {
        if (std::fabs(gradient(k)) > options_.tolerance) memory_.active[k] = 1;
      }
    }
  }

  // Lines 5 to 7
  void step(float eta) {
    for (std::size_t j = 0; j < n_blocks(); ++j) {
      const std::span<float> s = block(j);
      for (std::size_t k = 0; k < s.size(); ++k) {
        if (memory_.active[k] != 0) s[k] = eta * memory_.exact[k] + (1 - eta) * s[k];
      }
    }
  }

  // Line 9
  double answer(std::vector<Index>& ids, std::vector<float>& g) {
    const double share = 1 / static_cast<double>(n_blocks());
    double loss = 0, rest = 0;
    memory_.known_gradient.assign(n_known(), 0);
    for (std::size_t j = 0; j < n_blocks(); ++j) {
      loss += share * evaluate(j);
      rest += share * memory_.rest;
      for (std::size_t k = 0; k < n_known(); ++k) {
        memory_.known_gradient[k] += share * static_cast<double>(gradient(k));
      }
    }
    ids.clear();
    g.clear();
    for (std::size_t k = 0; k < n_known(); ++k) {
      const auto value = static_cast<float>(memory_.known_gradient[k]);
      if (value == 0 && rest == 0) continue;
      ids.push_back(memory_.exact_ids[k]);
      g.push_back(value);
    }
    memory_.rest = rest;
    if (rest != 0 && options_.list_rest) {
      for (std::size_t k = 0; k < index_.n_rows(); ++k) {
        if (memory_.slots[k] >= 0) continue;
        ids.push_back(static_cast<Index>(k));
        g.push_back(static_cast<float>(rest));
      }
    }
    for (const Index id : memory_.exact_ids) slot(id) = -1;
    memory_.n_exact = positives_.size();
    memory_.read_all = options_.find.n_probe >= index_.n_clusters();
    // With a threshold, in all clusters, others are within it of the 0 that they count as.
    memory_.certified = n_others() == 0 || (memory_.read_all && options_.find.budget == 0);
    return loss;
  }

  const Source& index_;
  DenseRow phi_;
  std::span<const Index> positives_;
  const GmpOptions& options_;
  const LabelLoss& loss_;
  GmpMemory& memory_;
};

}  // namespace manyclass
