// See free.hpp.
#include "manyclass/choice/free.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

namespace manyclass {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::string quoted(const std::string& name) { return "'" + name + "'"; }

std::string first_of(std::span<const std::string> names) {
  std::string told;
  for (const std::string& name : names.first(std::min(names.size(), std::size_t{20}))) {
    told.append(told.empty() ? "" : ", ").append(name);
  }
  return told;
}

// Coefficients, each with its owner: itself, the one that it equals, or none where it is fixed.
class Owners {
 public:
  Owners(const ChoiceForm& form, std::span<const std::string> names)
      : names_(names), nests_at_(form.nests_at()), owner_(names.size()), fixed_(names.size()) {
    for (std::size_t j = 0; j < names.size(); ++j) {
      owner_[j] = static_cast<std::int64_t>(j);
      at_[names[j]] = j;
      low_.push_back(j < nests_at_ ? -infinite : least_dissimilarity);
      high_.push_back(j < nests_at_ ? infinite : 1);
      if (j >= nests_at_ && std::ranges::count(form.nests, static_cast<Index>(j - nests_at_)) < 2) fix(j, 1);
    }
  }

  void take(const Constraint& constraint) {
    const auto found = at_.find(constraint.first);
    if (found == at_.end()) {
      throw std::invalid_argument("constraints has " + quoted(constraint.first) +
                                  ", which is no coefficient; there are " + first_of(names_));
    }
    const std::size_t j = found->second;
    if (const auto* value = std::get_if<double>(&constraint.second)) return fix(j, *value);
    const auto& rule = std::get<std::string>(constraint.second);
    if (rule == "positive" || rule == "negative") {
      low_[j] = rule == "positive" ? 0 : -infinite;
      high_[j] = rule == "positive" ? infinite : 0;
      return;
    }
    const auto other = at_.find(rule);
    if (other == at_.end() || other->second >= nests_at_) {
      throw std::invalid_argument("constraints says that " + quoted(constraint.first) + " is " + quoted(rule) +
                                  "; it must be 'positive', 'negative', a number or another coefficient");
    }
    owner_[j] = static_cast<std::int64_t>(other->second);
  }

  // Lets each coefficient have the last one of those that it equals, one after another.
  void resolve() {
    for (std::size_t j = 0; j < owner_.size(); ++j) {
      while (owner_[j] >= 0) {
        const std::int64_t next = owner_[static_cast<std::size_t>(owner_[j])];
        if (next == owner_[j]) break;
        if (next == static_cast<std::int64_t>(j)) {
          throw std::invalid_argument("constraints says twice that " + names_[j] +
                                      " and another coefficient are equal");
        }
        if (next < 0) fixed_[j] = fixed_[static_cast<std::size_t>(owner_[j])];
        owner_[j] = next;
      }
    }
  }

  FreeCoefficients free() const {
    FreeCoefficients made{std::vector<std::int64_t>(owner_.size(), -1), fixed_, {}, {}};
    std::vector<std::int64_t> kept;
    std::ranges::copy_if(owner_, std::back_inserter(kept), [](std::int64_t owner) { return owner >= 0; });
    std::ranges::sort(kept);
    kept.erase(std::ranges::unique(kept).begin(), kept.end());
    for (const std::int64_t owner : kept) {
      made.low.push_back(low_[static_cast<std::size_t>(owner)]);
      made.high.push_back(high_[static_cast<std::size_t>(owner)]);
    }
    for (std::size_t j = 0; j < owner_.size(); ++j) {
      if (owner_[j] >= 0) made.place[j] = std::ranges::lower_bound(kept, owner_[j]) - kept.begin();
    }
    return made;
  }

 private:
  void fix(std::size_t j, double value) {
    owner_[j] = -1;
    fixed_[j] = value;
  }

  std::span<const std::string> names_;
  std::size_t nests_at_;
  std::map<std::string, std::size_t> at_;
  std::vector<std::int64_t> owner_;
  std::vector<double> fixed_, low_, high_;
};

}  // namespace

std::vector<double> FreeCoefficients::whole(std::span<const double> free) const {
  std::vector<double> theta(fixed);
  for (std::size_t j = 0; j < theta.size(); ++j) {
    if (place[j] >= 0) theta[j] += free[static_cast<std::size_t>(place[j])];
  }
  return theta;
}

std::vector<double> FreeCoefficients::reduced(std::span<const double> gradient) const {
  std::vector<double> found(size());
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    if (place[j] >= 0) found[static_cast<std::size_t>(place[j])] += gradient[j];
  }
  return found;
}

FreeCoefficients free_coefficients(const ChoiceForm& form, std::span<const std::string> names,
                                   std::span<const Constraint> constraints) {
  if (names.size() != form.size()) throw std::invalid_argument("the names do not fit the form");
  Owners owners(form, names);
  for (const Constraint& one : constraints) owners.take(one);
  owners.resolve();
  return owners.free();
}

}  // namespace manyclass
