// Training for points with several labels: every source, on threads that give the bits of one.
#include <memory>
#include <vector>

#include "check.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/train/minibatches/labels.hpp"

using namespace manyclass;

namespace {

constexpr std::size_t n_points = 90;
constexpr std::size_t n_features = 12;
constexpr std::size_t n_classes = 150;
constexpr std::size_t n_hidden = 20;
constexpr std::size_t width = 32;
constexpr std::size_t n_columns = n_hidden + 1;
constexpr std::size_t n_clusters = 7;
constexpr std::size_t n_blocks = 3;

std::vector<float> numbers(std::size_t n, std::uint64_t seed) {
  Rng rng({seed, 0}, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(2 * rng.uniform() - 1);
  return x;
}

// Rows of `width` floats of which the first n_used are drawn.
std::vector<float> rows(std::size_t n, std::size_t n_used, std::uint64_t seed) {
  std::vector<float> x(n * width);
  const std::vector<float> drawn = numbers(n * n_used, seed);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n_used; ++j) x[i * width + j] = drawn[i * n_used + j];
  }
  return x;
}

struct Trained {
  std::vector<float> classes, embeddings;
  double loss = 0;
  friend bool operator==(const Trained&, const Trained&) = default;
};

enum class Source { all, uniform, lines, shared_uniform, shared_lines, searched, decomposed, messages };

Trained train(Source source, const LabelLoss& loss, int n_threads) {
  const std::vector<float> x = numbers(n_points * n_features, 1);
  std::vector<Offset> indptr{0};
  std::vector<Index> labels;
  for (std::size_t i = 0; i < n_points; ++i) {
    labels.push_back(static_cast<Index>(i % n_classes));
    if (i % 2 == 0) labels.push_back(static_cast<Index>(n_classes - 1));
    indptr.push_back(static_cast<Offset>(labels.size()));
  }
  Trained out{rows(n_classes, n_columns, 2), rows(n_features, n_hidden, 3), 0};
  std::vector<float> class_squares(n_classes), embedding_squares(n_features);

  LabelProblem problem;
  problem.classes = VectorRows(out.classes, class_squares, width);
  problem.map.x = DenseView{x, static_cast<Index>(n_points), static_cast<Index>(n_features)};
  problem.map.embeddings = VectorRows(out.embeddings, embedding_squares, width);
  problem.map.n_hidden = n_hidden;
  problem.map.intercept = true;
  problem.map.relu = true;
  problem.labels = {indptr, labels};

  std::vector<float> columns;
  for (std::size_t k = 0; k < n_classes; ++k) {
    columns.insert(columns.end(), out.classes.begin() + static_cast<std::ptrdiff_t>(k * width),
                   out.classes.begin() + static_cast<std::ptrdiff_t>(k * width + n_columns));
  }
  ClusterIndex index({columns.data(), n_columns}, columns.size() / n_columns, Coding{n_columns},
                     Directions(n_columns, 0), numbers(n_clusters * n_columns, 4), {}, 1, best_isa());
  std::vector<std::vector<float>> centroids;
  for (std::size_t j = 0; j < n_blocks; ++j) centroids.push_back(numbers(n_clusters * n_columns / n_blocks, 5 + j));
  DecomposedIndex blocks(columns, n_columns, centroids, {}, 1, best_isa());

  const SourceSettings settings{problem.classes, n_columns, loss, false, n_threads, best_isa()};
  const bool share = source == Source::shared_uniform || source == Source::shared_lines;
  const SelectArguments arguments{static_cast<Index>(n_classes), 40, labels, share};
  std::unique_ptr<ClassSource> classes;
  switch (source) {
    case Source::all:
      classes = all_classes_source(settings);
      break;
    case Source::uniform:
    case Source::shared_uniform:
      classes = sampled_source(settings, select_named("uniform", arguments), true, share);
      break;
    case Source::lines:
    case Source::shared_lines:
      classes = sampled_source(settings, select_named("frequency_block", arguments), true, share);
      break;
    case Source::searched:
      classes = searched_source(settings, index, {20, 3});
      break;
    case Source::decomposed:
      classes = decomposed_source(settings, blocks, {10, 3}, std::nullopt);
      break;
    case Source::messages:
      classes = decomposed_source(settings, blocks, {10, 3}, MessageOptions{});
      break;
  }
  Settings loop;
  loop.seed = 6;
  loop.n_threads = n_threads;
  loop.batch = 8;
  loop.share_classes = share;
  loop.isa = best_isa();
  const auto trainer = label_trainer(problem, std::move(classes), loop);
  for (int pass = 0; pass < 3; ++pass) {
    const Progress progress = trainer->run({pass, 0.3, 0.1, 0, static_cast<Index>(n_points), 0});
    CHECK(progress.diverged_at < 0);
    CHECK(progress.class_updates > 0);
    out.loss = progress.loss;
  }
  return out;
}

}  // namespace

int main() {
  for (const Source source : {Source::all, Source::uniform, Source::lines, Source::shared_uniform, Source::shared_lines,
                              Source::searched, Source::decomposed, Source::messages}) {
    for (const LabelLoss& loss : {LabelLoss{CrossEntropy{}}, LabelLoss{SmoothedMargin{1}}}) {
      const Trained alone = train(source, loss, 1);
      CHECK(alone.loss > 0);
      CHECK(alone == train(source, loss, 3));
    }
  }
  return testing::report();
}
