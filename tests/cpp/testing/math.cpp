// The vectorised functions of math/, per instruction set, for the tests of their accuracy.
#include "bindings/arrays.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/math/log_sum_exp.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/normal.hpp"
#include "manyclass/math/wright_omega.hpp"
#include "module.hpp"

namespace manyclass {

namespace {

// A function of a number, of each element of an array.
template <class F>
void bind_block(Module& m, const char* name, const F& f) {
  m.def(
      name,
      [f](std::span<const float> x, Isa isa) {
        auto y = empty_array<float>(x.size());
        const float* in = x.data();
        float* out = y.mutable_data();
        const std::size_t n = x.size();
        released([&] {
          run_with(isa, [=] {
            for (std::size_t i = 0; i < n; ++i) out[i] = f(in[i]);
          });
        });
        return y;
      },
      "x"_a, "isa"_a);
}

double log_sum_exp_block(std::span<const float> scores, Isa isa) {
  LogSumExp sum;
  run_with(isa, [&] { sum.add(scores); });
  return sum.value();
}

// The parts [0, cuts[0]), [cuts[0], cuts[1]), ... added one by one, then merged.
double log_sum_exp_parts(std::span<const double> scores, std::span<const Offset> cuts) {
  LogSumExp total;
  Offset begin = 0;
  for (const Offset end : cuts) {
    if (end < begin || end > static_cast<Offset>(scores.size())) {
      throw std::invalid_argument("cut " + std::to_string(end) + " is outside [" + std::to_string(begin) + ", " +
                                  std::to_string(scores.size()) + "]");
    }
    LogSumExp part;
    for (; begin < end; ++begin) part.add(scores[static_cast<std::size_t>(begin)]);
    total.merge(part);
  }
  return total.value();
}

}  // namespace

void bind_math(Module& m) {
  bind_block(m, "exp_block", [](float v) { return vec::exp(v); });
  bind_block(m, "log_block", [](float v) { return vec::log(v); });
  bind_block(m, "wright_omega_block", [](float v) { return vec::wright_omega(v); });
  bind_block(m, "log_ndtr_block", [](float v) { return vec::log_ndtr(v); });
  bind_block(m, "log_ndtr_derivative_block", [](float v) { return vec::log_ndtr_derivative(v); });
  bind_block(m, "log_expit_block", [](float v) { return vec::log_expit(v); });
  bind_block(m, "log_expit_derivative_block", [](float v) { return vec::log_expit_derivative(v); });
  m.def("log_sum_exp_block", log_sum_exp_block, "z"_a, "isa"_a, "log of the sum of exp of floats, as one block.");
  m.def("log_sum_exp_parts", log_sum_exp_parts, "z"_a, "cuts"_a,
        "The same of doubles added one by one, in parts that end at cuts and are merged.");
}

}  // namespace manyclass
