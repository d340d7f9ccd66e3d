// See table_descent.hpp.
#include "manyclass/words/table_descent.hpp"

#include <algorithm>
#include <stdexcept>

namespace manyclass {

namespace {

constexpr double smallest_step = 1e-6;  // a step that must be shorter still to go down has arrived
constexpr double longer = 1.1, shorter = 0.5;

}  // namespace

TableDescent::TableDescent(TableGradients& gradients, std::span<double> input_rates, double output_rate)
    : gradients_(gradients), input_rates_(input_rates), output_rate_(output_rate) {
  if (input_rates.size() != gradients.tables().n_inputs()) {
    throw std::invalid_argument("there must be a step size for each row of the input table");
  }
}

double TableDescent::step() {
  const WordTables& tables = gradients_.tables();
  const std::vector<float> input(tables.input.begin(), tables.input.end());
  const std::vector<float> output(tables.output.begin(), tables.output.end());
  try {
    gradients_.follow();
    move_input();
    return move_output().back();
  } catch (...) {
    std::ranges::copy(input, tables.input.begin());
    std::ranges::copy(output, tables.output.begin());
    throw;
  }
}

void TableDescent::move_input() {
  const WordTables& tables = gradients_.tables();
  const TableGradient g = gradients_.before_input_step();
  const std::vector<float> before(tables.input.begin(), tables.input.end());
  for (std::size_t x = 0; x < tables.n_inputs(); ++x) {
    const std::span<float> h = tables.h(x);
    const auto rate = static_cast<float>(input_rates_[x]);
    for (std::size_t j = 0; j < h.size(); ++j) h[j] -= rate * g.gradient[x * tables.width + j];
  }
  const std::vector<double> after = gradients_.losses();
  for (std::size_t x = 0; x < tables.n_inputs(); ++x) {
    const bool went_down = after[x] < g.losses[x];
    if (!went_down) std::ranges::copy(std::span(before).subspan(x * tables.width, tables.width), tables.h(x).begin());
    input_rates_[x] *= went_down ? longer : shorter;
  }
}

std::vector<double> TableDescent::move_output() {
  const WordTables& tables = gradients_.tables();
  const TableGradient g = gradients_.before_output_step();
  const std::vector<float> before(tables.output.begin(), tables.output.end());
  while (output_rate_ > smallest_step) {
    const auto rate = static_cast<float>(output_rate_);
    for (std::size_t i = 0; i < before.size(); ++i) tables.output[i] = before[i] - rate * g.gradient[i];
    std::vector<double> after = gradients_.values();
    if (std::ranges::equal(after, g.losses, [](double a, double b) { return a < b; })) {
      output_rate_ *= longer;
      return after;
    }
    output_rate_ *= shorter;
  }
  std::ranges::copy(before, tables.output.begin());
  return g.losses;
}

}  // namespace manyclass
