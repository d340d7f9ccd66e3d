// Greedy message passing for each point: Algorithm 2 of Yen et al. 2018.
#include "manyclass/search/message_passing.hpp"
#include "manyclass/train/following.hpp"
#include "manyclass/train/listed_loss.hpp"

namespace manyclass {

namespace {

class Decomposed final : public ClassSource {
 public:
  Decomposed(const SourceSettings& settings, DecomposedIndex& index, SearchOptions options)
      : settings_(settings),
        index_(index),
        memory_(static_cast<std::size_t>(settings.n_threads)),
        following_(settings.classes, settings.n_columns, probe_cost(index, options),
                   static_cast<double>(index.n_clusters())) {
    options_.find = {options.budget, 0, options.n_probe, settings.isa};
  }

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    GmpMemory& memory = memory_[static_cast<std::size_t>(me.rank())];
    for (std::size_t b = 0; b < points.size(); ++b) {
      const LabelPoint& point = points[b];
      ClassGradient& gradient = out[b];
      gradient.dense = false;
      gradient.loss = std::visit(
          [&](const auto& loss) {
            return approximate_gradient(index_, point.phi.first(settings_.n_columns), point.labels, options_, loss,
                                        memory, gradient.ids, gradient.g);
          },
          loss_of_step(settings_, eta, point.phi_sq));
      gradient.largest_score = largest_of(memory.exact);
    }
  }

  bool follows() const override { return true; }

  void follow(Member me, std::span<const Index> moved, std::size_t n_points) override {
    if (me.rank() == 0) following_.note(moved, n_points);
    me.barrier();
    if (!following_.due()) return;
    const auto [begin, end] = me.share(following_.ids().size());
    following_.copy(begin, end);
    me.barrier();
    if (me.rank() == 0) index_.update_rows(following_.ids(), following_.values());
    for (auto j = static_cast<std::size_t>(me.rank()); j < index_.n_blocks();
         j += static_cast<std::size_t>(me.size())) {
      index_.update_block(j, following_.ids(), following_.values(), settings_.isa);
    }
    me.barrier();
  }

 private:
  // Inner products of whole rows that the searches of all blocks cost.
  static double probe_cost(const DecomposedIndex& index, SearchOptions options) {
    const auto n_clusters = static_cast<double>(index.n_clusters());
    return n_clusters + static_cast<double>(index.n_rows()) * static_cast<double>(options.n_probe) / n_clusters;
  }

  SourceSettings settings_;
  DecomposedIndex& index_;
  GmpOptions options_;
  std::vector<GmpMemory> memory_;
  Following following_;
};

}  // namespace

std::unique_ptr<ClassSource> decomposed_source(const SourceSettings& settings, DecomposedIndex& index,
                                               SearchOptions options) {
  return std::make_unique<Decomposed>(settings, index, options);
}

}  // namespace manyclass
