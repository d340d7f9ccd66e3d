// What searches in blocks of columns find for each point: as one list with exact scores, or joined by messages
// (Algorithm 2 of Yen et al. 2018).
//
// Algorithm 2 with T = 1 takes a class that is high in one block for one that is high in all: on planted unit vectors a
// point's gradient had 86 to 136 classes where the exact one has 14 to 18, and learned less than a sample does. The
// union of what the blocks find, scored exactly (the D |A| operations of Algorithm 2's fifth line, for all that was
// found), has no such classes.
#include "manyclass/core/interrupt.hpp"
#include "manyclass/search/approximate_losses.hpp"
#include "manyclass/search/message_passing.hpp"
#include "manyclass/train/minibatches/following.hpp"
#include "manyclass/train/minibatches/listed_loss.hpp"

namespace manyclass {

namespace {

class Decomposed final : public ClassSource {
 public:
  Decomposed(const std::optional<MessageOptions>& messages, const SourceSettings& settings, DecomposedIndex& index,
             SearchOptions options)
      : messages_(messages.has_value()),
        settings_(settings),
        index_(index),
        work_(static_cast<std::size_t>(settings.n_threads)),
        memory_(static_cast<std::size_t>(settings.n_threads)),
        following_(settings, index, options) {
    options_.find = {options.budget, 0, options.n_probe, settings.isa, options.fill};
    if (!messages) return;
    options_.n_iter = messages->n_iter;
    options_.step = gmp_step_named(messages->step);
    options_.tolerance = messages->tolerance;
    options_.rule = gmp_rule_named(messages->message_rule);
    if (!messages->threshold) return;
    options_.find.budget = 0;
    options_.find.threshold = *messages->threshold;
    options_.rest = Rest::zero;
  }

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    const auto rank = static_cast<std::size_t>(me.rank());
    for (std::size_t b = 0; b < points.size(); ++b) {
      poll();
      if (messages_) {
        pass_messages(points[b], eta, memory_[rank], out[b]);
      } else {
        unite(points[b], eta, work_[rank], memory_[rank], out[b]);
      }
    }
  }

  bool follows() const override { return true; }

  void follow(Member me, std::span<const Index> moved, std::size_t n_points) override {
    following_.follow(me, moved, n_points, [&](std::size_t, std::size_t) {
      if (me.rank() == 0) index_.update_rows(following_.ids(), following_.values());
      for (auto j = static_cast<std::size_t>(me.rank()); j < index_.n_blocks();
           j += static_cast<std::size_t>(me.size())) {
        index_.update_block(j, following_.ids(), following_.values(), settings_.isa);
      }
    });
  }

 private:
  struct Work {
    ListedScores listed;
    std::vector<std::uint32_t> seen;  // K: the number of the last point whose union had the class
    std::uint32_t point = 0;
  };

  void pass_messages(const LabelPoint& point, double eta, GmpMemory& memory, ClassGradient& out) const {
    out.clear();
    out.loss = approximate_gradient(index_, point.phi.first(settings_.n_columns), point.labels, options_,
                                    loss_of_step(settings_, eta, point), memory, out.ids, out.g);
    out.largest_score = largest_of(memory.exact);
  }

  void unite(const LabelPoint& point, double eta, Work& work, GmpMemory& memory, ClassGradient& out) const {
    work.seen.resize(index_.n_rows());
    if (++work.point == 0) {
      std::ranges::fill(work.seen, 0U);
      work.point = 1;
    }
    work.listed.wrong.clear();
    for (std::size_t j = 0; j < index_.n_blocks(); ++j) {
      memory.found.clear();
      index_.find(j, point.phi.first(settings_.n_columns), options_.find, point.labels, memory.find, memory.found);
      for (const Scored& row : memory.found) {
        std::uint32_t& seen = work.seen[static_cast<std::size_t>(row.id)];
        if (seen == work.point) continue;
        seen = work.point;
        work.listed.wrong.push_back(row.id);
      }
    }
    score_listed(settings_, point, work.listed);
    listed_gradient(settings_, point, eta, work.listed, {}, out);
  }

  bool messages_;
  SourceSettings settings_;
  DecomposedIndex& index_;
  std::vector<Work> work_;
  GmpOptions options_;
  std::vector<GmpMemory> memory_;
  Following following_;
};

}  // namespace

std::unique_ptr<ClassSource> decomposed_source(const SourceSettings& settings, DecomposedIndex& index,
                                               SearchOptions options, const std::optional<MessageOptions>& messages) {
  return std::make_unique<Decomposed>(messages, settings, index, options);
}

}  // namespace manyclass
