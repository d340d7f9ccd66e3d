// The list of selections, and a selection by its name.
#pragma once

#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "manyclass/select/all_classes.hpp"
#include "manyclass/select/block.hpp"
#include "manyclass/select/frequency.hpp"
#include "manyclass/select/frequency_block.hpp"
#include "manyclass/select/head_tail.hpp"
#include "manyclass/select/uniform.hpp"

namespace manyclass {

using AnySelect = std::variant<Block, Uniform, AllClasses, Frequency, FrequencyBlock, HeadTail>;

inline constexpr std::span<const Facts> selection_facts = Alternatives<AnySelect>::facts;

// Throws std::invalid_argument for a name that is not listed or a label that cannot be drawn.
AnySelect select_named(std::string_view name, const SelectArguments& arguments);

// Any selection whose classes come in the form `Form`, so that what is done with them is compiled once for all of
// these.
template <class Form>
class SelectionOf {
 public:
  using Classes = Form;

  bool repeats = false;
  bool with_label = false;

  // The classes of `select` come in this form.
  explicit SelectionOf(AnySelect select) : select_(std::move(select)) {
    ask<void>([&](const auto& one) {
      repeats = one.repeats;
      with_label = one.with_label;
    });
  }

  bool all_classes() const { return std::holds_alternative<AllClasses>(select_); }
  std::size_t capacity() const {
    return ask<std::size_t>([](const auto& one) { return one.capacity(); });
  }
  float label_alpha(Index k) const {
    return ask<float>([&](const auto& one) { return one.label_alpha(k); });
  }
  double inclusion(Index k) const {
    return ask<double>([&](const auto& one) { return one.inclusion(k); });
  }
  // Probability that a visit of a point without a label draws k.
  double inclusion_of_all(Index k) const {
    return ask<double>([&](const auto& one) {
      if constexpr (requires { one.inclusion_of_all(k); }) return one.inclusion_of_all(k);
      return one.inclusion(k);
    });
  }
  std::size_t n_random(Form classes) const {
    return ask<std::size_t>([&](const auto& one) { return one.n_random(classes); });
  }
  Form draw(Rng rng, Index point, std::span<const Index> labels, const DrawBuffers& out) const {
    return ask<Form>([&](const auto& one) { return one.draw(rng, point, labels, out); });
  }

 private:
  template <class Answer, class Question>
  Answer ask(const Question& question) const {
    return std::visit(
        [&]<class Select>(const Select& one) -> Answer {
          if constexpr (std::is_same_v<typename Select::Classes, Form>) {
            return question(one);
          } else {
            std::abort();
          }
        },
        select_);
  }

  AnySelect select_;
};

}  // namespace manyclass
