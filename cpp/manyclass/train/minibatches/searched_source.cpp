// What a search finds for each point: Algorithm 1 of Yen et al. 2018 with the classes not found left out.
#include <algorithm>

#include "manyclass/train/minibatches/following.hpp"
#include "manyclass/train/minibatches/listed_loss.hpp"

namespace manyclass {

namespace {

class Searched final : public ClassSource {
 public:
  Searched(const SourceSettings& settings, ClusterIndex& index, SearchOptions options)
      : settings_(settings),
        index_(index),
        options_(options),
        work_(static_cast<std::size_t>(settings.n_threads)),
        following_(settings, index, options) {}

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    if (points.empty()) return;
    Work& work = work_[static_cast<std::size_t>(me.rank())];
    work.indptr.assign(1, 0);
    work.excluded.clear();
    work.queries.clear();
    for (const LabelPoint& point : points) {
      work.queries.insert(work.queries.end(), point.phi.begin(),
                          point.phi.begin() + static_cast<std::ptrdiff_t>(settings_.n_columns));
      work.excluded.insert(work.excluded.end(), point.labels.begin(), point.labels.end());
      work.indptr.push_back(static_cast<Offset>(work.excluded.size()));
    }
    Request request;
    request.k = options_.budget;
    request.n_probe = options_.n_probe;
    request.fill = options_.fill;
    request.excluded = {work.indptr, work.excluded};
    request.isa = settings_.isa;
    const DenseView queries{work.queries, static_cast<Index>(points.size()), static_cast<Index>(settings_.n_columns)};
    index_.search(queries, request, [&](std::size_t b, std::span<const Scored> found) {
      ListedScores& listed = work.listed;
      listed.wrong.clear();
      for (const Scored& row : found) listed.wrong.push_back(row.id);
      score_listed(settings_, points[b], listed);  // the index may be some batches behind
      listed_gradient(settings_, points[b], eta, listed, {}, out[b]);
    });
  }

  bool follows() const override { return true; }

  void follow(Member me, std::span<const Index> moved, std::size_t n_points) override {
    following_.follow(me, moved, n_points, [&](std::size_t begin, std::size_t end) {
      // Each member finds the nearest clusters of its share of the rows; one puts them there.
      if (me.rank() == 0) nearest_.resize(following_.ids().size());
      me.barrier();
      std::ranges::copy(index_.nearest(following_.values(begin), end - begin, settings_.isa),
                        nearest_.begin() + static_cast<std::ptrdiff_t>(begin));
      me.barrier();
      if (me.rank() == 0) index_.replace(following_.ids(), following_.values(), nearest_, settings_.isa);
    });
  }

 private:
  struct Work {
    ListedScores listed;
    std::vector<float> queries;
    std::vector<Offset> indptr;
    std::vector<Index> excluded;
  };

  SourceSettings settings_;
  ClusterIndex& index_;
  SearchOptions options_;
  std::vector<Work> work_;
  Following following_;
  std::vector<Scored> nearest_;
};

}  // namespace

std::unique_ptr<ClassSource> searched_source(const SourceSettings& settings, ClusterIndex& index,
                                             SearchOptions options) {
  return std::make_unique<Searched>(settings, index, options);
}

}  // namespace manyclass
