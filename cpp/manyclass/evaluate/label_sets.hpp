// Sets of labels that hold the right one with a chosen probability, and ancestors where no class is sure enough.
//
// The score of a label in split conformal prediction (Angelopoulos et al., ICLR 2021, Algorithms 2 and 3, without their
// randomisation): the probability of all classes that are ranked before it, plus a penalty for each rank beyond a free
// one. Classes rank by their probabilities, equals by their numbers.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/core/types.hpp"

namespace manyclass {

// The score of a label is before + penalty max(rank - free_rank, 0), and a set has the labels of at most `threshold`.
struct SetRule {
  double penalty = 0;
  std::size_t free_rank = 1;  // ranks are counted from 1
  double threshold = 0;

  double score(double before, double rank) const;
};

// How probable the classes before a row's label are together, and its rank. `log_p` are the log-probabilities of all
// classes, rows of n_classes each.
std::vector<double> stands_of(std::span<const double> log_p, std::size_t n_classes, std::span<const Index> labels);

// How many of the best classes of each row are in its set, at least one; `log_p` are their log-probabilities, rows of k
// each, best first. Where all k are within the threshold, and there are more classes, the number is negative: the set
// is larger than can be told.
std::vector<std::ptrdiff_t> set_sizes(std::span<const float> log_p, std::size_t k, const SetRule& rule,
                                      bool all_classes);

// The ceil((n + 1) coverage)-th smallest score of n labels, by what stands_of() gives; infinite where n is too small.
double conformal_threshold(std::span<const double> stands, const SetRule& rule, double coverage);

// The classes of each row whose score, or log-probability by the softmax, is above a limit, and, where asked for, the
// best one, whatever it has: row pointers and sorted classes. Ties share their log-probability, however large scores
// are.
struct LabelsAbove {
  std::vector<Offset> indptr{0};
  std::vector<Index> classes;
};
LabelsAbove labels_above(std::span<const float> scores, std::size_t n_classes, float limit, bool by_softmax,
                         bool with_best);

// The k most probable classes of each row, best first, of equals the first, and their log-probabilities in single
// precision, in which there are none below the smallest number.
struct BestClasses {
  std::vector<Index> classes;
  std::vector<float> log_p;
};
BestClasses best_classes(std::span<const double> log_p, std::size_t n_classes, std::size_t k);

// Classes, which are the first nodes, and the nodes above them.
class Hierarchy {
 public:
  // `parents` has the parent of each node, or -1. Throws std::invalid_argument for other numbers.
  Hierarchy(std::vector<Index> parents, std::size_t n_classes);

  // The nodes of a circle, if there is one; then nothing else may be asked.
  const std::vector<Index>& circle() const { return circle_; }

  // For each row of probabilities of all classes, the deepest node whose classes have together a probability of at
  // least this, and what they have: of several as deep the most probable one, of equals the first; -1, with 1, where
  // there is none.
  std::pair<std::vector<Index>, std::vector<double>> deepest(std::span<const double> p, double least) const;

 private:
  std::size_t n_classes_;
  std::vector<Index> parents_, circle_;
  std::vector<std::size_t> depth_;
};

}  // namespace manyclass
