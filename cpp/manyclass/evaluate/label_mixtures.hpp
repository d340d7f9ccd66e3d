// What mixtures of softmax, counts and repeats (count_mixture.hpp) say of the labels of rows that a model was not
// trained on, and the mixture that has the least log-loss on them.
//
// Where rows are histories and labels are the next items, feature and label k are the same item, and a history says of
// its own items, whichever they are, that they come again more often than others or not at all. A history holds any one
// item too rarely for its own weight to learn that; the share of repeats is one number.
//
// A label has the probability p by the softmax, over all classes or over all but the row's own ones, and q by counts,
// which give m to all classes together; r among the own classes of its row. The loss of a label is
//
//   -log((1 - rho) [(1 - l m) p + l q] + rho r),   rho = 0 where its row has no class of its own,
//
// and where classes repeat at rates of their own, the row multiplies the odds of rho.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/evaluate/weights.hpp"

namespace manyclass {

// How a mixture is made, but for its shares.
struct MixtureKind {
  double shrinkage = 1;
  bool has_own = false;    // whether repeats are mixed in; else no class is an own one
  bool counts_own = true;  // whether q counts own classes
  double power = 0;
  double rate = 0;  // mu; 0: all classes repeat alike
};

struct FoundMixture {
  MixtureKind kind;
  double share = 0, repeats = 0;
  double loss = 0;  // the sum over labels, in nats
};

class LabelMixtures {
 public:
  // A row of x for each label, and the weight of the label. The model has counts or none, and the class that each
  // feature is, if any. Throws std::invalid_argument where sizes do not fit.
  LabelMixtures(const Weights& model, const CsrView& x, std::span<const Index> labels, std::span<const double> weights);

  // Takes the scores of the model without a mixture, of some rows from `first` on; all rows must be given before a loss
  // is asked for.
  void add_scores(std::size_t first, std::span<const float> scores);

  // The sum over labels of the log-losses, in nats, at the shares l and rho; writes its derivatives by them.
  double loss(const MixtureKind& kind, std::span<const double> shares, std::span<double> slopes) const;

  // The shares of least loss.
  FoundMixture best_shares(const MixtureKind& kind) const;

  // The best mixture of all kinds; none where it does not better these rows by more than 5 nats together.
  std::optional<FoundMixture> best() const;

 private:
  // A stored value of a row, and what counts have of its feature.
  struct Value {
    double a;       // |x_j| / sum |x|
    double total;   // C_j
    double sum;     // of C_jk over k
    double label;   // C_jk of the label
    double of_own;  // the sum of C_jk over the row's own classes
  };
  struct Own {
    double value;  // a of the feature that the class is
    double again;  // C_kk
    double total;  // C_k
    bool is_label;
  };
  struct Label {
    std::vector<Value> values;
    std::vector<Own> own;
    std::vector<std::size_t> own_classes;
    std::size_t label;
    double weight;
    bool is_own = false;
    double p = 0, p_beside = 0;  // by the softmax over all classes, and over all but the own ones
  };
  // What the members say of a label.
  struct Members {
    double p, q, mass, repeat, r;
    bool has_own;
    double odds = 1;  // what the row multiplies the odds of repeats by

    double others(double share) const { return (1 - share * mass) * p + share * q; }
    double repeats(double rho) const { return has_own ? rho * odds / (1 - rho + rho * odds) : 0; }
    double mixed(double share, double rho) const;
  };

  std::vector<Members> members(const MixtureKind& kind) const;
  static std::vector<double> losses(const std::vector<Members>& members, const FoundMixture& at);
  FoundMixture best_shares(const std::vector<Members>& members, const MixtureKind& kind) const;
  FoundMixture best_of(bool has_own, double rate) const;

  std::vector<Label> labels_;
  std::size_t n_classes_;
  bool has_counts_;
  double rate_ = 0;  // how often the items of a row come next, by all counts
};

}  // namespace manyclass
