// All classes: scores of sixteen points at a time, so that each row of W is read once for them.
#include <algorithm>
#include <cstring>

#include "manyclass/train/listed_loss.hpp"

namespace manyclass {

namespace {

constexpr std::size_t group = line_floats;  // points whose scores fill a vector
constexpr std::size_t tile_rows = 8;        // rows of W scored at once: as many running sums as stay in registers
// A gradient is kept as a list where at most a share of it is not zero: a margin's, not the softmax's.
constexpr std::size_t list_share = 8;

using Line = VectorRows::Line;

// tile[r * group + p] = w_r . phi_p for `Rows` neighbouring rows; `columns` holds phi_p as its p-th column.
template <std::size_t Rows>
void score_rows(const float* w, std::size_t width, const float* columns, float* tile) {
  Line sums[Rows] = {};
  for (std::size_t j = 0; j < width; ++j) {
    Line column;
    std::memcpy(&column, columns + j * group, sizeof(Line));
    for (std::size_t r = 0; r < Rows; ++r) sums[r] += w[r * width + j] * column;
  }
  std::memcpy(tile, sums, sizeof(sums));
}

class AllClasses final : public ClassSource {
 public:
  explicit AllClasses(const SourceSettings& settings)
      : settings_(settings), work_(static_cast<std::size_t>(settings.n_threads)) {}

  void gradients(Member me, std::span<const LabelPoint> points, double eta, std::span<ClassGradient> out) override {
    Work& work = work_[static_cast<std::size_t>(me.rank())];
    for (std::size_t b = 0; b < points.size(); b += group) {
      const std::size_t n = std::min(group, points.size() - b);
      run_with(settings_.isa, [&] { score(points.subspan(b, n), work); });
      for (std::size_t p = 0; p < n; ++p) gradient(points[b + p], eta, row(work, p), work, out[b + p]);
    }
  }

 private:
  struct Work {
    std::vector<float> columns;  // width x group
    std::vector<float> scores;   // group x K
    std::vector<float> g;        // K
    LossMemory memory;
  };

  std::size_t n_classes() const { return settings_.classes.size(); }
  std::span<float> row(Work& work, std::size_t p) const {
    return std::span(work.scores).subspan(p * n_classes(), n_classes());
  }

  void score(std::span<const LabelPoint> points, Work& work) const {
    const std::size_t width = settings_.classes.width();
    work.columns.assign(width * group, 0.0F);
    for (std::size_t p = 0; p < points.size(); ++p) {
      for (std::size_t j = 0; j < width; ++j) work.columns[j * group + p] = points[p].phi[j];
    }
    work.scores.resize(group * n_classes());
    float tile[tile_rows * group];
    std::size_t k = 0;
    const auto spread = [&](std::size_t rows) {
      for (std::size_t p = 0; p < points.size(); ++p) {
        float* z = work.scores.data() + p * n_classes() + k;
        for (std::size_t r = 0; r < rows; ++r) z[r] = tile[r * group + p];
      }
    };
    for (; k + tile_rows <= n_classes(); k += tile_rows) {
      score_rows<tile_rows>(settings_.classes[static_cast<Index>(k)].data(), width, work.columns.data(), tile);
      spread(tile_rows);
    }
    for (; k < n_classes(); ++k) {
      score_rows<1>(settings_.classes[static_cast<Index>(k)].data(), width, work.columns.data(), tile);
      spread(1);
    }
  }

  void gradient(const LabelPoint& point, double eta, std::span<float> z, Work& work, ClassGradient& out) const {
    out.largest_score = largest_of(z);
    out.ids.clear();
    out.dense = false;
    out.g.clear();
    if (!(out.largest_score <= static_cast<float>(runaway))) return;
    // The labels' scores change places with the last ones, and their gradients back.
    const std::size_t n_labels = point.labels.size(), n_wrong = n_classes() - n_labels;
    const auto swap_labels = [&](std::span<float> values, std::size_t i) {
      std::swap(values[static_cast<std::size_t>(point.labels[i])], values[n_wrong + i]);
    };
    for (std::size_t i = n_labels; i-- > 0;) swap_labels(z, i);
    work.g.resize(n_classes());
    const std::span<float> g(work.g);
    LabelGradient gradient{g.subspan(n_wrong), g.first(n_wrong)};
    std::visit(
        [&](const auto& loss) {
          run_with(settings_.isa,
                   [&] { out.loss = loss(LabelScores{z.subspan(n_wrong), z.first(n_wrong)}, gradient, work.memory); });
        },
        loss_of_step(settings_, eta, point.phi_sq));
    for (std::size_t i = 0; i < n_labels; ++i) swap_labels(g, i);
    const auto n_moved = static_cast<std::size_t>(std::ranges::count_if(g, [](float v) { return v != 0; }));
    if (n_moved * list_share > n_classes()) {
      out.dense = true;
      out.g.swap(work.g);
      return;
    }
    for (std::size_t k = 0; k < g.size(); ++k) {
      if (g[k] == 0) continue;
      out.ids.push_back(static_cast<Index>(k));
      out.g.push_back(g[k]);
    }
  }

  SourceSettings settings_;
  std::vector<Work> work_;
};

}  // namespace

std::unique_ptr<ClassSource> all_classes_source(const SourceSettings& settings) {
  return std::make_unique<AllClasses>(settings);
}

}  // namespace manyclass
