// Exact gradients of a last layer: see output_layer.hpp.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/train/minibatches/output_layer.hpp"
#include "manyclass/weights/dense_products.hpp"

namespace manyclass {

namespace {

constexpr std::size_t chunk = 64;  // classes whose scores and gradients of some points are in hand at once

struct Classes {
  std::size_t begin, end;
};

// Classes in a few parts, cut by their number alone; a part is worked through by one thread.
struct ClassParts {
  explicit ClassParts(std::size_t n_classes)
      : n(std::min(std::size_t{16}, (n_classes + 1023) / 1024)), n_classes_(n_classes) {}
  Classes operator[](std::size_t p) const { return {n_classes_ * p / n, n_classes_ * (p + 1) / n}; }

  std::size_t n;

 private:
  std::size_t n_classes_;
};

// Calls f(first point, its rows together, classes, scores) for some points and classes at a time, in order; the scores
// of a point stand `chunk` after those of the one before.
template <class F>
void for_each_tile(const DenseView& x, const OutputLayer& layer, Classes part, Isa isa, const F& f) {
  const auto width = static_cast<std::size_t>(x.n_cols), n = static_cast<std::size_t>(x.n_rows());
  float z[rows_together * chunk];
  for (std::size_t k = part.begin; k < part.end; k += chunk) {
    const Classes classes{k, std::min(part.end, k + chunk)};
    const auto row_of = [&](std::size_t c) { return layer.weights.data() + (k + c) * width; };
    for (std::size_t first = 0; first < n; first += rows_together) {
      const float* rows[rows_together];
      const std::size_t size = std::min(rows_together, n - first);
      for (std::size_t r = 0; r < size; ++r) rows[r] = x.data.data() + (first + r) * width;
      const std::span<const float* const> points(rows, size);
      poll(size * (classes.end - k) * width);
      RowsTogether<float>(points, width).scores(row_of, classes.end - k, isa, z, chunk);
      for (std::size_t r = 0; r < size && !layer.intercept.empty(); ++r) {
        for (std::size_t c = 0; c < classes.end - k; ++c) z[r * chunk + c] += layer.intercept[k + c];
      }
      f(first, points, classes, z);
    }
  }
}

}  // namespace

void exact_gradient(const DenseView& x, std::span<const Index> labels, const OutputLayer& layer, int n_threads, Isa isa,
                    const ExactLayerGradient& out) {
  const auto n = static_cast<std::size_t>(x.n_rows()), width = static_cast<std::size_t>(x.n_cols);
  const auto n_classes = static_cast<std::size_t>(layer.n_classes);
  if (x.n_cols != layer.n_features || labels.size() != n || out.u.size() != n || out.x.size() != n * width ||
      out.weights.size() != n_classes * width || out.intercept.size() != layer.intercept.size()) {
    throw std::invalid_argument("a batch must have the layer's features and a label a point, gradients their sizes");
  }
  for (const Index y : labels) {
    if (y < 0 || y >= layer.n_classes) throw std::invalid_argument("a label is out of range");
  }
  const ClassParts parts(n_classes);
  std::vector<LogSumExp> sums(parts.n * n);
  std::vector<float> own(n);
  parallel_for(n_threads, parts.n, [&](std::size_t p) {
    run_with(isa, [&](Isa known) {
      for_each_tile(x, layer, parts[p], known,
                    [&](std::size_t first, std::span<const float* const> points, Classes classes, const float* z) {
                      for (std::size_t r = 0; r < points.size(); ++r) {
                        sums[p * n + first + r].add({z + r * chunk, classes.end - classes.begin});
                        const auto y = static_cast<std::size_t>(labels[first + r]);
                        if (y >= classes.begin && y < classes.end) own[first + r] = z[r * chunk + y - classes.begin];
                      }
                    });
    });
  });
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t p = 1; p < parts.n; ++p) sums[i].merge(sums[p * n + i]);
    out.u[i] = -sums[i].log_share(static_cast<double>(own[i]));
  }
  std::vector<std::vector<float>> of_parts(parts.n);
  parallel_for(n_threads, parts.n, [&](std::size_t p) {
    std::vector<float>& dx = of_parts[p];
    dx.assign(n * width, 0);
    run_with(isa, [&](Isa known) {
      for_each_tile(x, layer, parts[p], known,
                    [&](std::size_t first, std::span<const float* const> points, Classes classes, float* z) {
                      const std::size_t size = classes.end - classes.begin;
                      float across[chunk * rows_together];  // the same by class
                      for (std::size_t r = 0; r < points.size(); ++r) {
                        const LogSumExp& sum = sums[first + r];
                        const auto share = static_cast<float>(1 / (sum.sum * static_cast<double>(n)));
                        const auto top = static_cast<float>(sum.max);
                        for (std::size_t c = 0; c < size; ++c)
                          z[r * chunk + c] = share * vec::exp(z[r * chunk + c] - top);
                        const auto y = static_cast<std::size_t>(labels[first + r]);
                        if (y >= classes.begin && y < classes.end)
                          z[r * chunk + y - classes.begin] -= 1 / static_cast<float>(n);
                        for (std::size_t c = 0; c < size; ++c) across[c * rows_together + r] = z[r * chunk + c];
                      }
                      const auto of_class = [&](std::size_t c) {
                        return out.weights.data() + (classes.begin + c) * width;
                      };
                      add_products(points, width, z, chunk, of_class, size, known);
                      const float* rows[chunk];
                      for (std::size_t c = 0; c < size; ++c)
                        rows[c] = layer.weights.data() + (classes.begin + c) * width;
                      const auto of_point = [&](std::size_t r) { return dx.data() + (first + r) * width; };
                      add_products(std::span<const float* const>(rows, size), width, across, rows_together, of_point,
                                   points.size(), known);
                      for (std::size_t c = 0; c < size && !out.intercept.empty(); ++c) {
                        float& sum = out.intercept[classes.begin + c];
                        for (std::size_t r = 0; r < points.size(); ++r) sum += across[c * rows_together + r];
                      }
                    });
    });
  });
  for (const std::vector<float>& dx : of_parts) {
    for (std::size_t at = 0; at < dx.size(); ++at) out.x[at] += dx[at];
  }
}

}  // namespace manyclass
