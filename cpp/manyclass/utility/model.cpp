// A model under any noise: see the header.
#include "manyclass/utility/model.hpp"

#include <algorithm>
#include <vector>

#include "manyclass/utility/probabilities.hpp"

namespace manyclass {

void utility_log_probabilities(const NoiseKind& noise, const Weights& weights, const AnyPoints& points,
                               std::span<const Index> classes, std::size_t width, const Asked& asked,
                               std::span<double> out) {
  constexpr std::size_t most_scores = std::size_t{1} << 22;  // 16 MB
  const auto n = static_cast<std::size_t>(n_rows(points)), n_classes = static_cast<std::size_t>(weights.n_classes());
  check_classes(classes, n_classes);
  const std::size_t step = std::clamp<std::size_t>(most_scores / n_classes, 1, std::max<std::size_t>(n, 1));
  std::vector<float> scores(step * n_classes);
  std::vector<double> psi(scores.size());
  for (std::size_t first = 0; first < n; first += step) {
    const std::size_t some = std::min(step, n - first);
    weights.scores(rows_from(points, first, some), asked, std::span(scores).first(some * n_classes));
    for (std::size_t i = 0; i < some; ++i) {
      const auto z = std::span(scores).subspan(i * n_classes, n_classes);
      std::ranges::copy(z, psi.begin() + static_cast<std::ptrdiff_t>(i * n_classes));
    }
    const UtilityRows rows{std::span<const double>(psi).first(some * n_classes), n_classes};
    const auto found = out.subspan(first * width, some * width);
    if (classes.empty()) {
      utility_probabilities(noise, rows, true, asked.n_threads, asked.isa, found);
    } else {
      utility_probabilities_at(noise, rows, classes.subspan(first * width, some * width), width, true, asked.n_threads,
                               asked.isa, found);
    }
  }
}

}  // namespace manyclass
