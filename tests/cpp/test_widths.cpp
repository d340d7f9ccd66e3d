// No kernel executes more instructions by a wider instruction set than by a narrower one.
//
// Counted are the instructions of small calls, one trap of the processor for each: of AVX-512, too, which valgrind and
// QEMU do not know. It takes some 20 us an instruction, so that whole passes are counted by valgrind instead
// (house/test_instructions.py). The program counts nothing on other processors than x86-64's, on other systems than
// Linux, under sanitizers, which trap themselves, and without optimisation.
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "check.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/exact/double_scores.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/math/wright_omega.hpp"
#include "manyclass/objective/nce.hpp"
#include "manyclass/objective/smoothed_margin.hpp"
#include "manyclass/search/float_block.hpp"
#include "manyclass/step/implicit.hpp"
#include "manyclass/weights/coded_rows.hpp"
#include "manyclass/weights/embedding_rows.hpp"
#include "manyclass/weights/feature_rows.hpp"
#include "manyclass/weights/pair_rows.hpp"
#include "manyclass/weights/row_products.hpp"
#include "manyclass/words/pair_targets.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MANYCLASS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define MANYCLASS_SANITIZED
#endif
#endif
#if defined(__linux__) && defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(MANYCLASS_SANITIZED)
#define MANYCLASS_COUNTS
#include <csignal>
#endif

namespace manyclass::testing {
namespace {

#ifdef MANYCLASS_COUNTS
volatile std::sig_atomic_t steps = 0;

void step(int) { steps = steps + 1; }

// The processor traps after each instruction while bit 8 of its flags is set. What a leaf function keeps below its
// stack pointer (128 bytes) is left alone.
inline void trap() {
  asm volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
}
inline void leave() {
  asm volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                   : "memory", "cc");
}

template <class F>
long count(Isa isa, const F& f) {
  run_with(isa, f);  // what is made once
  steps = 0;
  trap();
  run_with(isa, f);
  leave();
  return steps;
}

// Set-up may take some more, as registers are filled and emptied in another way: up to sixteen instructions were seen.
bool is_no_more(long counted, long before) { return before == 0 || counted <= before + before / 50 + 16; }

// f(isa) is a kernel that may be run twice.
template <class F>
void wider_is_no_longer(const char* name, const F& f) {
  long before = 0;
  std::printf("%-40s", name);
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    const long counted = count(isa, f);
    std::printf(" %8ld", counted);
    if (!is_no_more(counted, before)) std::printf(" <- more by %s", name_of(isa));
    CHECK(is_no_more(counted, before));
    before = counted;
  }
  std::printf("\n");
}

// A number that the compiler does not know, as those of a kernel's caller.
std::size_t unknown(std::size_t n) {
  const volatile std::size_t hidden = n;
  return hidden;
}

std::vector<float> numbers(std::size_t n, std::uint64_t seed) {
  Rng rng({seed, 0}, 0);
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(2 * rng.uniform() - 1);
  return x;
}

std::vector<Index> ascending(std::size_t n, Index step) {
  std::vector<Index> ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<Index>(i) * step;
  return ids;
}

void rows_of_embeddings() {
  for (const std::size_t width : {std::size_t{112}, std::size_t{192}}) {
    auto input = numbers(40 * width, 1), output = numbers(40 * width, 2);
    const EmbeddingRows in(input, width), out(output, width);
    for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{6}, std::size_t{17}}) {
      const auto rows = ascending(n, 2);
      std::vector<float> z(n), g(n, 1e-3F);
      wider_is_no_longer("scores of embeddings", [&](Isa isa) { out.scores(in, 3, rows, isa, z.data()); });
      wider_is_no_longer("moves of embeddings", [&](Isa isa) { out.move(in, 3, rows, isa, g.data()); });
    }
    const VectorRows classes(output, {}, width);
    const auto ids = ascending(13, 3);
    std::vector<float> z(ids.size());
    const std::span<const float> phi(input.data(), width);
    wider_is_no_longer("scores of listed rows", [&](Isa isa) { classes.scores(ids, phi, isa, z); });
    wider_is_no_longer("a row added", [&](Isa) { classes.add_to(std::span(input).first(width), 7, 1e-3F); });
    double sum = 0;
    wider_is_no_longer("a squared norm", [&](Isa) { sum += squared_norm(phi); });
  }
  std::array<float, 16> z{}, g{};
  const auto sigmoids = [&](Isa) { write_sigmoids(0.1F, z, 6, g); };
  wider_is_no_longer("sigmoids of a pair", sigmoids);
  // Clang 14 made them one by one, by 316 instructions; a vector of eight takes 78, and by GCC 87.
  if (best_isa() >= Isa::avx2) CHECK(count(Isa::avx2, sigmoids) < 128);
}

void batches_of_embeddings() {
  for (const std::size_t width : {std::size_t{32}, std::size_t{112}, std::size_t{192}}) {
    const auto columns = numbers(width * scored_points, 3), weights = numbers(32 * width, 4);
    auto sums = numbers(combined_rows * width, 5);
    std::array<const float*, scored_rows> rows;
    std::vector<const float*> points(32);
    float* to[combined_rows];
    for (std::size_t r = 0; r < scored_rows; ++r) rows[r] = weights.data() + r * width;
    for (std::size_t p = 0; p < points.size(); ++p) points[p] = weights.data() + p * width;
    for (std::size_t r = 0; r < combined_rows; ++r) to[r] = sums.data() + r * width;
    float tile[scored_rows][scored_points];
    wider_is_no_longer("scores of a batch", [&](Isa isa) { score_rows(isa, rows, width, columns.data(), tile); });
    const auto factors = numbers(points.size() * combined_rows, 6);
    wider_is_no_longer("a sum of rows", [&](Isa isa) {
      add_combination(isa, sums.data(), std::span(factors).first(points.size()), points, width);
    });
    wider_is_no_longer("sums of rows", [&](Isa isa) {
      const auto factor = [&](std::size_t i, std::size_t r) { return factors[i * combined_rows + r]; };
      add_combinations(isa, to, factor, points, width);
    });
  }
}

template <class Value>
void dense_products() {
  const std::size_t width = unknown(70), n = 16, n_classes = unknown(24);
  std::vector<Value> x(n * width, 1), w(n_classes * width, 1), z(n * n_classes);
  std::vector<const Value*> rows(n);
  for (std::size_t r = 0; r < n; ++r) rows[r] = x.data() + r * width;
  const auto row_of = [&](std::size_t c) { return w.data() + c * width; };
  for (const std::size_t some : {std::size_t{1}, n}) {
    const RowsTogether<Value> together(std::span<const Value* const>(rows.data(), some), width);
    wider_is_no_longer("products of dense rows",
                       [&](Isa isa) { together.scores(row_of, n_classes, isa, z.data(), n_classes); });
    wider_is_no_longer("sums of dense rows", [&](Isa isa) {
      add_products<Value>(std::span<const Value* const>(rows.data(), some), width, z.data(), n_classes, row_of,
                          n_classes, isa);
    });
  }
  Value sum = 0;
  wider_is_no_longer("a product", [&](Isa) { sum += dot(rows[0], rows[1], width); });
}

void sparse_rows() {
  constexpr std::size_t n_features = 40;
  const std::size_t stride = unknown(160);
  auto weights = numbers(n_features * stride, 7);
  FeatureRows<float> rows(weights, n_features);
  const auto indices = ascending(20, 2), listed = ascending(16, 9);
  const auto values = numbers(20, 8), a = numbers(stride, 9);
  const SparseRow x{indices, values};
  std::vector<float> z(stride);
  for (const Index size : {Index{16}, Index{64}, Index{150}}) {
    const ClassRange classes{0, size};
    const std::span<float> some = std::span(z).first(classes.size());
    wider_is_no_longer("scores of sparse rows", [&](Isa) { rows.scores(x, classes, some); });
    wider_is_no_longer("moves by sparse rows",
                       [&](Isa isa) { rows.add(x, classes, std::span(a).first(classes.size()), isa); });
  }
  wider_is_no_longer("scores of listed classes", [&](Isa) { rows.scores(x, ClassList(listed), z); });
  wider_is_no_longer("moves of listed classes", [&](Isa isa) { rows.add(x, ClassList(listed), a, isa); });

  std::vector<double> doubles(n_features * stride, 0.5), sums(n_features * 16), of_point(stride), b(16, 0.1);
  const FeatureMajor<double> major{doubles, stride};
  const auto half = static_cast<Index>(stride / 2);
  const std::vector<Offset> indptr{0, 20};
  const CsrView matrix{indptr, indices, values, n_features};
  const FeatureMajor<double>::Points points(matrix, 0, 1);
  wider_is_no_longer("scores in double",
                     [&](Isa isa) { major.scores(points, {0, half}, isa, of_point.data(), stride / 2); });
  wider_is_no_longer("sums in double", [&](Isa isa) { FeatureMajor<double>::add(points, b, isa, sums); });
}

void pairs() {
  constexpr Index n_features = 20, n_classes = 100;
  constexpr std::size_t each = 37;
  std::vector<Offset> indptr;
  std::vector<Index> ids;
  for (std::size_t j = 0; j <= n_features; ++j) indptr.push_back(static_cast<Offset>(j * each));
  for (Index j = 0; j < n_features; ++j) {
    const auto some = ascending(each, 2);
    ids.insert(ids.end(), some.begin(), some.end());
  }
  auto s = numbers(ids.size(), 10), squares = std::vector<float>(ids.size(), 1.0F), g = numbers(n_classes, 11);
  const PairRows<float> rows({indptr, ids}, s, n_classes);
  const auto indices = ascending(n_features, 1);
  const auto values = numbers(n_features, 12);
  const SparseRow x{indices, values};
  std::vector<float> z(n_classes);
  wider_is_no_longer("scores of pairs", [&](Isa) { rows.scores(x, {0, n_classes}, z); });
  wider_is_no_longer("moves of pairs", [&](Isa isa) { rows.descend(x, {0, n_classes}, g, squares, 0.1F, 1.0F, isa); });
}

template <class Value>
void coded(const char* sparse, const char* dense, const char* pairs) {
  constexpr std::size_t n_features = 20;
  const std::size_t stride = unknown(112);
  std::vector<Value> codes(n_features * stride, Value{37});
  const AnyCodes all = Codes<Value>{codes, {}};
  const auto indices = ascending(n_features, 1);
  const auto values = numbers(stride, 13);
  std::vector<float> z(stride);
  const auto kernel = [&](const char* name, const auto& rows_by, const auto& row, ClassRange classes) {
    long before = 0;
    std::printf("%-40s", name);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
      if (isa > best_isa()) continue;
      const auto rows = rows_by(isa);  // its kernel calls run_with itself
      const long counted = count(Isa::baseline, [&] { rows.scores(row, classes, std::span(z).first(classes.size())); });
      std::printf(" %8ld", counted);
      CHECK(is_no_more(counted, before));
      before = counted;
    }
    std::printf("\n");
  };
  const SparseRow x{indices, std::span(values).first(n_features)};
  kernel(sparse, [&](Isa isa) { return coded_features(all, n_features, isa); }, x, {0, 100});
  kernel(dense, [&](Isa isa) { return coded_classes(all, static_cast<Index>(stride), isa); }, DenseRow(values),
         {0, n_features});
  std::vector<Offset> indptr;
  for (std::size_t j = 0; j <= n_features; ++j) indptr.push_back(static_cast<Offset>(j * stride));
  std::vector<Index> ids;
  for (std::size_t j = 0; j < n_features; ++j) {
    for (Index k = 0; k < static_cast<Index>(stride); ++k) ids.push_back(k);
  }
  const AnyIds any_ids = std::span<const Index>(ids);
  kernel(pairs, [&](Isa isa) { return coded_pairs(indptr, any_ids, all, static_cast<Index>(stride), isa); }, x,
         {0, static_cast<Index>(stride)});
}

void blocks_of_a_search() {
  FloatBlock block(24);
  const auto rows = numbers(100 * 24, 14);
  for (std::size_t k = 0; k < 100; ++k) {
    block.append(static_cast<Index>(k), DenseRow(rows).subspan(k * 24, 24), Isa::baseline);
  }
  std::vector<float> z(112);
  wider_is_no_longer("a scan of floats", [&](Isa isa) { block.scores(DenseRow(rows).first(24), isa, z.data()); });
}

void loops_over_classes() {
  for (const std::size_t n : {std::size_t{16}, std::size_t{64}, std::size_t{300}}) {
    const auto z = numbers(n, 15), alpha = std::vector<float>(n, 2.0F);
    std::vector<float> p(n);
    double sum = 0;
    wider_is_no_longer("a sum", [&](Isa) { sum += sum_of(z); });
    wider_is_no_longer("a maximum", [&](Isa) { sum += static_cast<double>(max_of(z, 0)); });
    wider_is_no_longer("a largest magnitude", [&](Isa) { sum += static_cast<double>(largest_of(z)); });
    wider_is_no_longer("exponentials", [&](Isa) {
      for (std::size_t k = 0; k < n; ++k) p[k] = vec::exp(z[k]);
    });
    wider_is_no_longer("Wright omegas", [&](Isa) {
      for (std::size_t k = 0; k < n; ++k) p[k] = vec::wright_omega(z[k]);
    });
    wider_is_no_longer("log-normaliser", [&](Isa) {
      LogSumExp total;
      total.add(std::span<const float>(z));
      sum += total.value();
    });
    SampledPoint point{};
    point.scores = z;
    point.alpha = alpha;
    point.x_sq = 1;
    point.eta = 0.1;
    Deltas deltas{};
    wider_is_no_longer("sums of an implicit step", [&](Isa) { deltas = sums_of(point, alpha); });
    double u = 0;
    wider_is_no_longer("a step against noise", [&](Isa) { sum += NoiseContrastive{}.gradient(point, u, p).label; });
    wider_is_no_longer("negative sampling", [&](Isa) { sum += NegativeSampling{}.gradient(point, u, p).label; });
    LossMemory memory;
    std::array<float, 1> label{0.5F}, of_label{};
    LabelGradient gradient{of_label, p};
    wider_is_no_longer("a smoothed margin",
                       [&](Isa) { sum += SmoothedMargin{1.0}(LabelScores{label, z}, gradient, memory); });
    SampledSum sampled{};
    wider_is_no_longer("terms of a sampled sum", [&](Isa) { sampled = sampled_sum(point, p); });
  }
}
#endif

}  // namespace
}  // namespace manyclass::testing

int main() {
  using namespace manyclass::testing;
#ifdef MANYCLASS_COUNTS
  std::signal(SIGTRAP, step);
  rows_of_embeddings();
  batches_of_embeddings();
  dense_products<float>();
  dense_products<double>();
  sparse_rows();
  pairs();
  coded<float>("floats, sparse rows", "floats, dense rows", "floats, pairs");
  coded<std::uint16_t>("halves, sparse rows", "halves, dense rows", "halves, pairs");
  coded<std::int8_t>("bytes, sparse rows", "bytes, dense rows", "bytes, pairs");
  blocks_of_a_search();
  loops_over_classes();
#endif
  return report();
}
