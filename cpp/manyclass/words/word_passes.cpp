// See word_passes.hpp.
#include "manyclass/words/word_passes.hpp"

#include <algorithm>
#include <stdexcept>

namespace manyclass {

WordPasses::WordPasses(Trainer& trainer, const WordNumbers& numbers, const WordSchedule& schedule)
    : trainer_(trainer), numbers_(numbers), schedule_(schedule) {
  if (schedule.n_passes < 1) throw std::invalid_argument("there must be a pass");
}

Progress WordPasses::run(int n_pass, Offset first, double seconds) {
  if (first == 0) {
    loss = 0;
    loss_pairs = 0;
    if (schedule_.careful) {
      input_before_.assign(numbers_.input.begin(), numbers_.input.end());
      output_before_.assign(numbers_.output.begin(), numbers_.output.end());
      carried_before_.assign(numbers_.carried.begin(), numbers_.carried.end());
    }
  }
  const double fall = (schedule_.first_rate - schedule_.last_rate) / schedule_.n_passes;
  Stretch stretch{};
  stretch.pass = schedule_.first_pass + n_pass;
  stretch.eta = schedule_.first_rate - n_pass * fall;
  stretch.eta_end = schedule_.first_rate - (n_pass + 1) * fall;
  stretch.eta_u = schedule_.eta_u;
  stretch.first = first;
  stretch.last = schedule_.n_visits;
  stretch.seconds = seconds;
  const Progress made = trainer_.run(stretch);
  loss += made.loss;
  loss_pairs += made.loss_pairs;
  refused += made.refused;
  return made;
}

bool WordPasses::has_overflowed() const {
  constexpr float most = 0x1p60F;
  const auto is_fine = [](float w) { return w >= -most && w <= most; };  // which NaN is not
  return !std::ranges::all_of(numbers_.input, is_fine) || !std::ranges::all_of(numbers_.output, is_fine);
}

bool WordPasses::go_back() const {
  if (input_before_.empty()) return false;
  std::ranges::copy(input_before_, numbers_.input.begin());
  std::ranges::copy(output_before_, numbers_.output.begin());
  std::ranges::copy(carried_before_, numbers_.carried.begin());
  return true;
}

}  // namespace manyclass
