// Choice probabilities of rows of utilities: see the header.
#include "manyclass/utility/probabilities.hpp"

#include <cmath>
#include <numbers>

#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/utility/row_of.hpp"

namespace manyclass {

namespace {

// Normal draws, two a time (Box & Muller 1958).
class Normals {
 public:
  explicit Normals(Rng rng) : rng_(rng) {}

  double operator()() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - rng_.uniform()));
    const double angle = 2 * std::numbers::pi * rng_.uniform();
    second_ = radius * std::sin(angle);
    has_second_ = true;
    return radius * std::cos(angle);
  }

 private:
  Rng rng_;
  double second_ = 0;
  bool has_second_ = false;
};

// Calls f(row integrator, i) with the integrator of each row set.
template <class F>
void for_each_row(const NoiseKind& kind, const UtilityRows& rows, bool log, int n_threads, Isa isa, const F& f) {
  std::visit(
      [&]<class Noise>(Noise) {
        constexpr std::size_t bite = 8;  // rows that share buffers
        parallel_for(n_threads, (rows.size() + bite - 1) / bite, [&](std::size_t b) {
          UtilityRowOf<Noise> row(isa);
          for (std::size_t i = b * bite; i < std::min(rows.size(), (b + 1) * bite); ++i) {
            row.set(rows.row(i), log);
            f(row, i);
          }
        });
      },
      kind);
}

}  // namespace

void check(const UtilityRows& rows) {
  if (rows.n_classes < 1) throw std::invalid_argument("psi must be of shape (N, K), K at least 1");
  for (const double v : rows.psi) {
    if (!std::isfinite(v)) throw std::invalid_argument("psi has a value that is not finite");
  }
}

void check_classes(std::span<const Index> classes, std::size_t n_classes) {
  for (const Index k : classes) {
    if (k < 0 || static_cast<std::size_t>(k) >= n_classes) {
      throw std::invalid_argument("class " + std::to_string(k) + " is outside [0, " + std::to_string(n_classes) + ")");
    }
  }
}

void utility_probabilities(const NoiseKind& noise, const UtilityRows& rows, bool log, int n_threads, Isa isa,
                           std::span<double> out) {
  for_each_row(noise, rows, log, n_threads, isa,
               [&](auto& row, std::size_t i) { row.all(out.subspan(i * rows.n_classes, rows.n_classes)); });
}

void utility_probabilities_at(const NoiseKind& noise, const UtilityRows& rows, std::span<const Index> classes,
                              std::size_t width, bool log, int n_threads, Isa isa, std::span<double> out) {
  for_each_row(noise, rows, log, n_threads, isa, [&](auto& row, std::size_t i) {
    row.some(classes.subspan(i * width, width), out.subspan(i * width, width));
  });
}

void sampled_utility_log_probabilities(const NoiseKind& kind, const UtilityRows& rows, std::span<const Index> labels,
                                       int n_samples, std::uint64_t seed, int n_threads, Isa isa,
                                       std::span<double> out) {
  std::visit(
      [&]<class Noise>(Noise) {
        parallel_for(n_threads, rows.size(), [&](std::size_t i) {
          UtilityRow<Noise> row(isa);
          row.set(rows.row(i), true);
          out[i] = row.sampled(labels[i], n_samples, Normals(Rng({seed, 0}, i)));
        });
      },
      kind);
}

}  // namespace manyclass
