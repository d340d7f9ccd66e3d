// What a part of the library says of itself: its name, its meaning, its source, its own parameters, what it goes with.
//
// Every solver, selection, schedule, noise and loss declares `static constexpr Facts facts{...}` beside its code.
// Checks, error texts, choices of the command line, tables of the documentation and tests are made from these facts.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace manyclass {

// At most `most` items, so that facts are constants without memory of their own.
template <class T, std::size_t most>
class Few {
 public:
  constexpr Few() = default;
  constexpr Few(std::initializer_list<T> items) {
    for (const T& item : items) items_[size_++] = item;
  }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr std::size_t size() const { return size_; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }

 private:
  std::array<T, most> items_{};
  std::size_t size_ = 0;
};

inline constexpr double unbounded = std::numeric_limits<double>::infinity();

// A number that belongs to one part; it is finite and lies in [low, high].
struct Parameter {
  std::string_view name{};
  double initial = 0;  // its value unless a caller gives another
  double low = -unbounded;
  double high = unbounded;
  bool open_low = false;  // `low` itself is not allowed
  std::string_view sentence{};
};

struct Facts {
  std::string_view name{};
  std::string_view sentence{};
  std::string_view source{};  // paper and equation; empty where there is no one place
  bool biased = false;        // its mean gradient is not that of all classes
  Few<std::string_view, 6> flags{};
  Few<Parameter, 2> parameters{};

  constexpr bool has(std::string_view flag) const { return std::find(flags.begin(), flags.end(), flag) != flags.end(); }
};

// The words that `flags` may have.
namespace flag {
inline constexpr std::string_view u = "u";                        // carries a number for each point
inline constexpr std::string_view overwrites_u = "overwrites_u";  // its first visit leaves nothing of that number
inline constexpr std::string_view log_q = "log_q";                // may leave out the weights of drawn classes
inline constexpr std::string_view u_step = "u_step";              // moves that number by a step size of its own
inline constexpr std::string_view formulations = "formulations";  // exists in Raman et al.'s form too
inline constexpr std::string_view implicit = "implicit";          // makes a proximal step
inline constexpr std::string_view root = "root";                  // solves by a root finder
inline constexpr std::string_view draws_label = "draws_label";    // needs the label among the draws
inline constexpr std::string_view batch = "batch";                // its step is that of a batch, not of a point
inline constexpr std::string_view all_classes = "all_classes";    // sees every class, whatever the selection
inline constexpr std::string_view bound = "bound";                // available with augment and reduce
inline constexpr std::string_view label = "label";                // of a selection: can draw the label too
inline constexpr std::string_view heads = "heads";                // of a selection: needs a head for each point
inline constexpr std::string_view counts = "counts";              // of a selection: draws by the classes' frequency
}  // namespace flag

// A list of parts by their types.
template <class... Part>
struct Parts {
  static constexpr std::array<Facts, sizeof...(Part)> facts{Part::facts...};
};

template <class... Some, class... Others>
constexpr Parts<Some..., Others...> operator+(Parts<Some...>, Parts<Others...>) {
  return {};
}

template <class Variant>
struct AlternativesOf;
template <class... Part>
struct AlternativesOf<std::variant<Part...>> {
  using type = Parts<Part...>;
};
template <class Variant>
using Alternatives = typename AlternativesOf<Variant>::type;

// Place of `name` in a list of parts of one kind ("solver", ...). Throws std::invalid_argument that names the choices.
std::size_t place_of(std::string_view kind, std::string_view name, std::span<const Facts> choices);

// Calls f.template operator()<Part>() for the part of this name.
template <class Result, class... Part, class F>
Result with_part(Parts<Part...>, std::string_view kind, std::string_view name, const F& f) {
  using Call = Result (*)(const F&);
  constexpr std::array<Call, sizeof...(Part)> calls{
      [](const F& g) -> Result { return g.template operator()<Part>(); }...};
  return calls[place_of(kind, name, Parts<Part...>::facts)](f);
}

// Values that a caller gives for parameters, by name; the others have their initial ones.
using Options = std::map<std::string, double, std::less<>>;

// Throws std::invalid_argument for a value outside its parameter's range.
double value_of(const Parameter& parameter, const Options& options);

// Throws std::invalid_argument for an option that belongs to none of the parts, or a value outside its range. `whose`
// names the parts in the error's text.
void check_options(const Options& options, std::span<const Facts> parts, std::string_view whose);

// A part made of its parameters, which are its first members in the order of its facts.
template <class Part>
Part part_with(const Options& options) {
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return Part{value_of(Part::facts.parameters[i], options)...};
  }(std::make_index_sequence<Part::facts.parameters.size()>{});
}

}  // namespace manyclass
