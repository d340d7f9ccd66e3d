// Greedy message passing from a training loop: threads share an index, and a warm memory allocates nothing.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "check.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/objective/cross_entropy.hpp"
#include "manyclass/objective/smoothed_margin.hpp"
#include "manyclass/search/message_passing.hpp"

namespace {

std::atomic<long> allocations = 0;

}  // namespace

// Out of line: GCC 12 takes one that is inlined for a mismatch with the other, which is not.
[[gnu::noinline]] void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

using namespace manyclass;

namespace {

constexpr std::size_t n_rows = 600;
constexpr std::size_t width = 12;
constexpr std::size_t n_blocks = 3;
constexpr std::size_t n_clusters = 9;
constexpr std::size_t n_points = 40;

std::vector<float> numbers(std::size_t n, std::uint64_t seed) {
  Rng rng({seed, 0}, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(2 * rng.uniform() - 1);
  return x;
}

DecomposedIndex made() {
  std::vector<std::vector<float>> centroids;
  for (std::size_t j = 0; j < n_blocks; ++j) centroids.push_back(numbers(n_clusters * width / n_blocks, j));
  return {numbers(n_rows * width, 7), width, centroids, {}, 2, best_isa()};
}

template <class Loss>
void check_loss(const DecomposedIndex& index, const Loss& loss) {
  const std::vector<float> points = numbers(n_points * width, 8);
  GmpOptions options;
  options.find = {20, 0, 4, best_isa()};
  options.n_iter = 2;
  const auto answer = [&](std::size_t i, GmpMemory& memory, std::vector<Index>& ids, std::vector<float>& g) {
    const Index labels[] = {static_cast<Index>(i), static_cast<Index>(i + 100)};
    const DenseRow phi(points.data() + i * width, width);
    return approximate_gradient(index, phi, labels, options, loss, memory, ids, g);
  };

  GmpMemory memory;
  std::vector<Index> ids;
  std::vector<float> g;
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  for (std::size_t i = 0; i < n_points; ++i) {
    losses.push_back(answer(i, memory, ids, g));
    gradients.push_back(g);
  }
  const long before = allocations;
  double sum = 0;
  for (std::size_t i = 0; i < n_points; ++i) sum += answer(i, memory, ids, g);
  CHECK(allocations == before);
  CHECK(sum > 0);

  std::vector<char> same(n_points, 0);
  run_team(4, [&](const Member& member) {
    GmpMemory own;
    std::vector<Index> own_ids;
    std::vector<float> own_g;
    const auto [begin, end] = member.share(n_points);
    for (std::size_t i = begin; i < end; ++i) {
      same[i] = answer(i, own, own_ids, own_g) == losses[i] && own_g == gradients[i] ? 1 : 0;
    }
  });
  for (const char one : same) CHECK(one == 1);
}

}  // namespace

int main() {
  const DecomposedIndex index = made();
  check_loss(index, SmoothedMargin{1});
  check_loss(index, CrossEntropy{});
  return testing::report();
}
