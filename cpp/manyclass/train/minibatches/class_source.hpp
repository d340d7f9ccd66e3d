// Where the gradient of a point's loss over the classes comes from: all classes, a sample, or what a search finds.
//
// Sources for the loop in labels.hpp. Yen et al. 2018 compare these: exact evaluation, sampled softmax,
// Algorithm 1 on an index of W, and Algorithm 2 on indexes of blocks of its columns.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "manyclass/core/facts.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/objective/label_loss.hpp"
#include "manyclass/search/cluster_index.hpp"
#include "manyclass/search/decomposed_index.hpp"
#include "manyclass/select/any_select.hpp"
#include "manyclass/step/label_step.hpp"
#include "manyclass/train/minibatches/label_weights.hpp"

namespace manyclass {

// dL/dz over classes: of those that the points of the batch have in common, in the source's order, and of the point's
// own list of others. A source for which all K are in common may give a point's gradient as a list in ascending order
// alone.
struct ClassGradient {
  std::vector<float> common;  // or empty
  std::vector<Index> ids;
  std::vector<float> g;
  double loss = 0;
  float largest_score = 0;  // of those seen, in magnitude

  void clear() {
    common.clear();
    ids.clear();
    g.clear();
  }
};

inline constexpr std::array<Facts, 5> class_source_facts{{
    {.name = "exact", .sentence = "All classes.", .flags = {flag::all_classes}},
    {.name = "sampled",
     .sentence = "Classes that a selection draws.",
     .source = "Jean et al., ACL 2015",
     .biased = true},
    {.name = "mips",
     .sentence = "The wrong classes of largest score, which an index of W finds.",
     .source = "Yen et al., ICML 2018, Algorithm 1",
     .biased = true},
    {.name = "decomposed",
     .sentence = "What indexes of blocks of columns find, with exact scores.",
     .source = "Yen et al., ICML 2018, Algorithm 2",
     .biased = true},
    {.name = "messages",
     .sentence = "What indexes of blocks of columns find, joined by greedy message passing.",
     .source = "Yen et al., ICML 2018, Algorithm 2",
     .biased = true},
}};

class ClassSource {
 public:
  virtual ~ClassSource() = default;

  // The gradients of a member's share of a batch at the present W; all members call it at the same time.
  virtual void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) = 0;

  // The classes, distinct, that the gradients just given to this member have in common.
  virtual std::span<const Index> common(Member) const { return {}; }

  // How many classes the gradient of a point is about, at most.
  virtual std::size_t n_seen() const { return 1; }

  // Called by all members of the team together after rows `moved` (sorted, distinct) of W have changed, in a batch of
  // n_points.
  virtual void follow(Member, std::span<const Index>, std::size_t) {}
  // True where follow() wants to be called.
  virtual bool follows() const { return false; }
};

struct SourceSettings {
  LabelWeights classes;
  std::size_t n_columns = 0;  // of W that are not padding: what an index holds
  LabelLoss loss;
  bool implicit = false;  // the margin's proximal step instead of its gradient
  int n_threads = 1;
  Isa isa = Isa::baseline;
  std::shared_ptr<const LabelStep> step{};  // of the double sum, instead of the loss
  double local_step = 1;                    // its step size for what points carry, in units of eta
};

// All K classes.
std::unique_ptr<ClassSource> all_classes_source(const SourceSettings& settings);

// The classes that `select` draws for each point, its labels left out. With `log_alpha` the score of a class is raised
// by the log of its weight; LDGS leaves that out. With `share` the points of a batch have one sample in common, from
// which each leaves out its own labels: `select` then draws labels too.
std::unique_ptr<ClassSource> sampled_source(const SourceSettings& settings, AnySelect select, bool log_alpha,
                                            bool share);

struct SearchOptions {
  std::size_t budget;   // classes that a search (of a block) returns
  std::size_t n_probe;  // clusters that it scans,
  bool fill = false;    // or, in their place, as many as hold the budget
};

// The best rows by an index of W, which follows W; other wrong classes are left out of the loss (Algorithm 1).
std::unique_ptr<ClassSource> searched_source(const SourceSettings& settings, ClusterIndex& index,
                                             SearchOptions options);

// Greedy message passing (Algorithm 2): T rounds, each with the step 2 / (t + 2) or the whole one, and tau_2; by the
// rule "exact_scores" or "printed" (search/printed_messages.hpp).
struct MessageOptions {
  int n_iter = 1;
  std::string step = "full";
  float tolerance = 1e-3F;
  std::string message_rule = "exact_scores";
  std::optional<float> threshold{};  // tau_1: block scores above it are found, instead of the highest ones
};

// What searches in blocks of columns find, by an index that follows W: their union with exact scores, or joined by
// messages.
std::unique_ptr<ClassSource> decomposed_source(const SourceSettings& settings, DecomposedIndex& index,
                                               SearchOptions options, const std::optional<MessageOptions>& messages);

}  // namespace manyclass
