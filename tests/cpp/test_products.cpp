// Products of dense rows: sums by definition, and the same bits alone, among others and from one instruction set.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "check.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/weights/dense_products.hpp"

using namespace manyclass;

namespace {

template <class Value>
std::vector<Value> numbers(std::size_t n, std::uint64_t seed) {
  Rng rng({seed, 0}, 0);
  std::vector<Value> x(n);
  for (Value& v : x) v = static_cast<Value>(2 * rng.uniform() - 1);
  return x;
}

// Scores of `n_rows` rows with all classes, together; what the kernel leaves alone in z is 7.
template <class Value>
std::vector<Value> together(const std::vector<Value>& x, const std::vector<Value>& w, std::size_t n_rows,
                            std::size_t n_classes, std::size_t width, Isa isa, std::size_t stride) {
  std::vector<const Value*> rows(n_rows);
  for (std::size_t r = 0; r < n_rows; ++r) rows[r] = x.data() + r * width;
  std::vector<Value> z(n_rows * stride, Value{7});
  run_with(isa, [&] {
    RowsTogether<Value>(rows, width)
        .scores([&](std::size_t c) { return w.data() + c * width; }, n_classes, isa, z.data(), stride);
  });
  return z;
}

template <class Value>
void check_products(Isa isa, std::size_t n_rows, std::size_t n_classes, std::size_t width) {
  const auto x = numbers<Value>(n_rows * width, width), w = numbers<Value>(n_classes * width, 100 + width);
  const std::size_t stride = n_classes + 3;
  const auto z = together(x, w, n_rows, n_classes, width, isa, stride);
  for (std::size_t r = 0; r < n_rows; ++r) {
    for (std::size_t c = 0; c < n_classes; ++c) {
      long double sum = 0, size = 0;
      for (std::size_t j = 0; j < width; ++j) {
        const long double term =
            static_cast<long double>(x[r * width + j]) * static_cast<long double>(w[c * width + j]);
        sum += term;
        size += std::fabs(term);
      }
      // Each of some sums rounds: at most width / L in a lane, and their halves.
      const long double rounding = (static_cast<long double>(width) / lanes_of<Value> + 6) * size *
                                   static_cast<long double>(std::numeric_limits<Value>::epsilon());
      CHECK(std::fabs(static_cast<long double>(z[r * stride + c]) - sum) <= rounding);
      Value alone = 0;
      run_with(isa, [&] { alone = dot(x.data() + r * width, w.data() + c * width, width); });
      CHECK(alone == z[r * stride + c]);
    }
    for (std::size_t c = n_classes; c < stride; ++c) CHECK(z[r * stride + c] == 7);
  }
}

// Sums of rows with points by definition, and the same bits where classes are cut at a whole line of them. What is
// behind the last class stays 7.
template <class Value>
void check_sums(Isa isa, std::size_t n_points, std::size_t n_classes, std::size_t width) {
  const auto x = numbers<Value>(n_points * width, width);
  const std::size_t stride = n_classes + 3;
  auto a = numbers<Value>(n_points * stride, 200 + width);
  std::fill_n(a.begin(), std::min<std::size_t>(stride, 2), Value{0});  // of the first point: a group, or a part of one
  const auto w = numbers<Value>(n_classes * width, 300 + width);
  std::vector<const Value*> points(n_points);
  for (std::size_t i = 0; i < n_points; ++i) points[i] = x.data() + i * width;
  const auto summed = [&](std::size_t cut) {
    std::vector<Value> to(w);
    to.resize(to.size() + width, Value{7});
    run_with(isa, [&] {
      for (const auto& [begin, end] : {std::pair{std::size_t{0}, cut}, std::pair{cut, n_classes}}) {
        const std::size_t first = begin;
        const auto row_of = [&](std::size_t c) { return to.data() + (first + c) * width; };
        add_products<Value>(points, width, a.data() + first, stride, row_of, end - first, isa);
      }
    });
    return to;
  };
  const auto whole = summed(0);
  for (std::size_t c = 0; c < n_classes; ++c) {
    for (std::size_t j = 0; j < width; ++j) {
      long double sum = static_cast<long double>(w[c * width + j]), size = std::fabs(sum);
      for (std::size_t i = 0; i < n_points; ++i) {
        const long double term =
            static_cast<long double>(a[i * stride + c]) * static_cast<long double>(x[i * width + j]);
        sum += term;
        size += std::fabs(term);
      }
      // A product and a sum round for each point.
      const long double rounding = 2 * static_cast<long double>(n_points) * size *
                                   static_cast<long double>(std::numeric_limits<Value>::epsilon());
      CHECK(std::fabs(static_cast<long double>(whole[c * width + j]) - sum) <= rounding);
    }
  }
  for (std::size_t j = 0; j < width; ++j) CHECK(whole[n_classes * width + j] == 7);
  if (n_classes > line_floats) CHECK(summed(line_floats) == whole);
}

// A class whose weights are no numbers is so alone.
template <class Value>
void check_neighbours(Isa isa, std::size_t width) {
  constexpr std::size_t n = 9;
  const auto x = numbers<Value>(n * width, 1);
  auto w = numbers<Value>(n * width, 2);
  std::fill_n(w.begin() + static_cast<std::ptrdiff_t>(4 * width), width, std::numeric_limits<Value>::quiet_NaN());
  const auto z = together(x, w, n, n, width, isa, n);
  for (std::size_t at = 0; at < z.size(); ++at) CHECK(std::isnan(z[at]) == (at % n == 4));
}

}  // namespace

int main() {
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    for (std::size_t width = 1; width < 70; ++width) {
      check_products<float>(isa, 5, 6, width);
      check_products<double>(isa, 5, 6, width);
      check_products<float>(isa, 1, 9, width);
      check_products<double>(isa, 1, 9, width);
      check_sums<float>(isa, 6, 5, width);
      check_sums<double>(isa, 6, 5, width);
      check_neighbours<float>(isa, width);
      check_neighbours<double>(isa, width);
    }
    for (std::size_t n = 1; n <= rows_together; ++n) {
      check_products<float>(isa, n, n, 37);
      check_products<double>(isa, n, 17 - n, 64);
      check_sums<float>(isa, n, 33, 37);
      check_sums<double>(isa, n, 17, 64);
    }
  }
  return testing::report();
}
