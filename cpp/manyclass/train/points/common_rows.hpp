// Scores of dense points that have classes in common, and moves by them: a row of W is read, and written, once for
// several of them.
#pragma once

#include <algorithm>
#include <span>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/model/linear.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

// Writes the scores of the classes for n points of x, the i-th named by point(i), to z(i), which has them from its
// first place on: bit for bit those of each point alone.
template <class Float, class Point, class Scores>
void score_common(const Linear<ClassRows<Float>>& model, DenseView x, ClassRange classes, std::size_t n, Isa isa,
                  const Point& point, const Scores& z) {
  constexpr std::size_t some = 64;  // classes: their scores stay in the nearest cache
  float tile[rows_together * some];
  const float* rows[rows_together];
  run_with(isa, [&](Isa known) {
    for (std::size_t first = 0; first < n; first += rows_together) {
      const std::size_t m = std::min(n - first, rows_together);
      for (std::size_t i = 0; i < m; ++i) rows[i] = x.row(point(first + i)).data();
      for (std::size_t c = 0; c < classes.size(); c += some) {
        const ClassRange part{classes[c], static_cast<Index>(std::min(some, classes.size() - c))};
        poll(m * part.size() * line_floats);
        model.rows.scores(std::span<const float* const>(rows, m), part, known, tile);
        for (std::size_t i = 0; i < m; ++i) {
          std::copy_n(tile + i * part.size(), part.size(), z(first + i).data() + c);
        }
      }
      for (std::size_t i = 0; i < m; ++i) model.finish(classes, z(first + i));
    }
  });
}

// Moves the classes, whole cache lines of them, by n points: for the i-th by moves(i)[c] times row(i), c counting from
// the first of the classes. The rows of W have no scale.
template <class Float, class Row, class Moves>
void move_common(const Linear<ClassRows<Float>>& model, ClassRange classes, std::size_t n, Isa isa, const Row& row,
                 const Moves& moves) {
  constexpr std::size_t some = 64;  // as above
  float tile[rows_together * some];
  const float* rows[rows_together];
  ClassRows<Float> weights = model.rows;
  run_with(isa, [&](Isa known) {
    for (std::size_t first = 0; first < n; first += rows_together) {
      const std::size_t m = std::min(n - first, rows_together);
      for (std::size_t i = 0; i < m; ++i) rows[i] = row(first + i).data();
      for (std::size_t c = 0; c < classes.size(); c += some) {
        const ClassRange part{classes[c], static_cast<Index>(std::min(some, classes.size() - c))};
        for (std::size_t i = 0; i < m; ++i) {
          const std::span<float> of_point(tile + i * part.size(), part.size());
          std::copy_n(moves(first + i).data() + c, part.size(), of_point.data());
          if (model.intercept.empty()) continue;
          const auto b = at_classes(model.intercept, part);
          for (std::size_t l = 0; l < part.size(); ++l) b[l] += of_point[l];
        }
        weights.add(std::span<const float* const>(rows, m), part, known, tile, part.size());
      }
    }
  });
}

}  // namespace manyclass
