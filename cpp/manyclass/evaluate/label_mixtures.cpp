// See label_mixtures.hpp.
#include "manyclass/evaluate/label_mixtures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <variant>

#include "manyclass/math/box_minimum.hpp"
#include "manyclass/math/log_sum_exp.hpp"

namespace manyclass {

namespace {

// Shrinkages of counts that are tried, in rows; powers of values by which own classes repeat, 0: all alike; and the
// largest share of counts, and of repeats.
constexpr std::array shrinkages{0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0};
constexpr std::array powers{0.0, 0.5, 1.0};
constexpr double most_share = 0.99, tiny = std::numeric_limits<double>::min();
// Nats by which a mixture, and rates of repeats of each item, must better all rows together. Twice the gain of a number
// without use has the chi-squared distribution of one degree of freedom, which is above 10 in two of a thousand data
// sets.
constexpr double least_gain = 5;
// Repeats are common where this share of labels are items of their own rows: 35 % on tmall-next, 5 % on yelp-next, none
// where labels happen to be numbers of columns. And standard errors beyond which a difference is no chance.
constexpr double common = 0.02, chance = 2;

double sum_of_counts(const CountMixture& counted, std::size_t feature) {
  double sum = 0;
  for (auto at = counted.indptr[feature]; at < counted.indptr[feature + 1]; ++at) {
    sum += static_cast<double>(counted.counts[static_cast<std::size_t>(at)]);
  }
  return sum;
}

// How often the items of a row come next, over all features that are classes.
double rate_of(const CountMixture& counted) {
  double again = 0, total = 0;
  for (std::size_t j = 0; j < counted.own.size(); ++j) {
    if (counted.own[j] < 0) continue;
    again += count_of(counted, j, static_cast<std::size_t>(counted.own[j]));
    total += static_cast<double>(counted.totals[j]);
  }
  return total > 0 ? std::fmin(again / total, 1) : 0;
}

}  // namespace

LabelMixtures::LabelMixtures(const Weights& model, const CsrView& x, std::span<const Index> labels,
                             std::span<const double> weights)
    : labels_(labels.size()),
      n_classes_(static_cast<std::size_t>(model.n_classes())),
      has_counts_(!model.counts().counts.empty()) {
  const CountMixture& counted = model.counts();
  CountMixture checked = counted;
  checked.share = has_counts_ ? 0.5 : 0;  // which has its arrays checked
  checked.shrinkage = 1;
  checked.check(static_cast<std::size_t>(x.n_cols), n_classes_);
  if (static_cast<std::size_t>(x.n_rows()) != labels.size() || weights.size() != labels.size()) {
    throw std::invalid_argument("each row must have a label and a weight");
  }
  if (has_counts_) rate_ = rate_of(counted);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || static_cast<std::size_t>(labels[i]) >= n_classes_) {
      throw std::invalid_argument("a label is out of range");
    }
    Label& one = labels_[i];
    one.label = static_cast<std::size_t>(labels[i]);
    one.weight = weights[i];
    const SparseRow row = x.row(static_cast<Index>(i));
    double length = 0;
    for (const float value : row.values) length += std::fabs(static_cast<double>(value));
    for (std::size_t n = 0; n < row.indices.size() && length > 0; ++n) {
      const Index k = counted.own.empty() ? -1 : counted.own[static_cast<std::size_t>(row.indices[n])];
      const double a = std::fabs(static_cast<double>(row.values[n])) / length;
      if (k < 0 || !(a > 0)) continue;
      const auto own = static_cast<std::size_t>(k), j = static_cast<std::size_t>(row.indices[n]);
      one.own.push_back({a, has_counts_ ? count_of(counted, j, own) : 0,
                         has_counts_ ? static_cast<double>(counted.totals[j]) : 0, own == one.label});
      one.own_classes.push_back(own);
    }
    if (one.own.size() >= n_classes_) {  // a row that has all classes has none of its own
      one.own.clear();
      one.own_classes.clear();
    }
    for (const Own& own : one.own) one.is_own = one.is_own || own.is_label;
    for (std::size_t n = 0; n < row.indices.size() && length > 0 && has_counts_; ++n) {
      const auto j = static_cast<std::size_t>(row.indices[n]);
      Value value{.a = std::fabs(static_cast<double>(row.values[n])) / length,
                  .total = static_cast<double>(counted.totals[j]),
                  .sum = sum_of_counts(counted, j),
                  .label = count_of(counted, j, one.label),
                  .of_own = 0};
      for (const std::size_t k : one.own_classes) value.of_own += count_of(counted, j, k);
      one.values.push_back(value);
    }
  }
}

void LabelMixtures::add_scores(std::size_t first, std::span<const float> scores) {
  const std::size_t n = scores.size() / n_classes_;
  if (first + n > labels_.size() || n * n_classes_ != scores.size()) {
    throw std::invalid_argument("the scores do not fit the rows");
  }
  std::vector<float> z(n_classes_);
  for (std::size_t i = 0; i < n; ++i) {
    Label& one = labels_[first + i];
    const auto row = scores.subspan(i * n_classes_, n_classes_);
    std::ranges::copy(row, z.begin());
    LogSumExp all, beside;
    all.add(z);
    one.p = std::exp(all.log_share(static_cast<double>(row[one.label])));
    for (const std::size_t k : one.own_classes) z[k] = -std::numeric_limits<float>::infinity();
    beside.add(z);
    one.p_beside = one.is_own ? 0 : std::exp(beside.log_share(static_cast<double>(row[one.label])));
  }
}

double LabelMixtures::Members::mixed(double share, double rho) const {
  return std::fmax(others(share) + repeats(rho) * (repeat - others(share)), tiny);
}

std::vector<LabelMixtures::Members> LabelMixtures::members(const MixtureKind& kind) const {
  std::vector<Members> found;
  for (const Label& one : labels_) {
    const bool has_own = kind.has_own && !one.own.empty(), leaves_own = has_own && !kind.counts_own;
    Members say{has_own ? one.p_beside : one.p, 0, 0, 0, one.weight, has_own};
    for (const Value& value : one.values) {
      const double by = value.a / (value.total + kind.shrinkage);
      say.q += by * value.label;
      say.mass += by * (value.sum - (leaves_own ? value.of_own : 0));
    }
    if (leaves_own && one.is_own) say.q = 0;
    say.mass = std::clamp(say.mass, 0.0, 1.0);
    double largest = 0, sum = 0, own = 0;
    for (const Own& other : one.own) largest = std::fmax(largest, other.value);
    for (const Own& other : one.own) {
      const double often = kind.rate > 0 ? times_as_often(other.again, other.total, kind.shrinkage, kind.rate) : 1;
      const double w = std::pow(other.value / largest, kind.power) * often;
      sum += w;
      own += other.is_label ? w : 0;
    }
    say.repeat = has_own ? own / std::fmax(sum, tiny) : 0;
    if (has_own && kind.rate > 0) say.odds = sum / static_cast<double>(one.own.size());
    found.push_back(say);
  }
  return found;
}

namespace {

template <class Members>
double loss_of(const std::vector<Members>& members, std::span<const double> shares, std::span<double> slopes) {
  const double share = shares[0], rho = shares[1];
  double loss = 0;
  slopes[0] = slopes[1] = 0;
  for (const Members& say : members) {
    const double mixed = say.mixed(share, rho), of_rho = 1 - rho + rho * say.odds;
    loss -= say.r * std::log(mixed);
    slopes[0] -= say.r * (1 - say.repeats(rho)) * (say.q - say.mass * say.p) / mixed;
    slopes[1] -= say.has_own ? say.r * say.odds / (of_rho * of_rho) * (say.repeat - say.others(share)) / mixed : 0;
  }
  return loss;
}

}  // namespace

std::vector<double> LabelMixtures::losses(const std::vector<Members>& members, const FoundMixture& at) {
  std::vector<double> found;
  for (const Members& say : members) found.push_back(-say.r * std::log(say.mixed(at.share, at.repeats)));
  return found;
}

double LabelMixtures::loss(const MixtureKind& kind, std::span<const double> shares, std::span<double> slopes) const {
  return loss_of(members(kind), shares, slopes);
}

FoundMixture LabelMixtures::best_shares(const std::vector<Members>& members, const MixtureKind& kind) const {
  double n_own = 0, of_labels = 0;
  bool counts = false;
  for (const Members& say : members) {
    n_own += say.has_own ? say.r : 0;
    of_labels += say.repeat > 0 ? say.r : 0;
    counts = counts || say.q != 0;
  }
  // What never repeats among n rows may yet do so: the least share is half a row of them, by Jeffreys' prior.
  const double least = n_own > 0 ? 0.5 / (n_own + 1) : 0, most = counts ? most_share : 0;
  const double most_repeats = n_own > 0 ? most_share : 0;
  const std::array start{0.3 * most, of_labels / std::fmax(n_own, 1)};
  const auto look = [&](std::span<const double> at, std::span<double> g) { return loss_of(members, at, g); };
  const BoxMinimum found = minimum_in_box(look, start, {{0, least}, {most, most_repeats}}, {.most_looks = 20});
  return {kind, found.at[0], found.at[1], found.value};
}

FoundMixture LabelMixtures::best_shares(const MixtureKind& kind) const { return best_shares(members(kind), kind); }

FoundMixture LabelMixtures::best_of(bool has_own, double rate) const {
  std::vector<MixtureKind> kinds;
  for (const double shrinkage :
       has_counts_ ? std::span<const double>(shrinkages) : std::span(shrinkages).subspan(1, 1)) {
    for (const bool counts_own : {true, false}) {
      if (has_own ? counts_own && !has_counts_ : !counts_own) continue;
      for (const double power : has_own ? std::span<const double>(powers) : std::span(powers).first(1)) {
        kinds.push_back({shrinkage, has_own, counts_own, power, rate});
      }
    }
  }
  FoundMixture best;
  best.loss = std::numeric_limits<double>::infinity();
  for (const MixtureKind& kind : kinds) {
    const FoundMixture found = best_shares(kind);
    if (found.loss < best.loss) best = found;
  }
  return best;
}

std::optional<FoundMixture> LabelMixtures::best() const {
  FoundMixture found = best_of(false, 0);
  const std::vector<Members> alone = members(found.kind);
  double before = 0;
  for (const double loss : losses(alone, {})) before += loss;
  if (std::ranges::any_of(labels_, [](const Label& one) { return !one.own.empty(); })) {
    // Other rows of a session, beside which held-out ones stand, tell the softmax what will repeat; rows of sessions to
    // come have none. So where repeats are common, they are left out only if that is better beyond chance.
    FoundMixture repeated = best_of(true, 0);
    if (rate_ > 0) {
      const FoundMixture at_own_rates = best_of(true, rate_);
      if (at_own_rates.loss < repeated.loss - least_gain) repeated = at_own_rates;
    }
    const std::vector<Members> told = members(repeated.kind);
    const std::vector<double> with = losses(told, repeated), without = losses(alone, found);
    const auto n = static_cast<double>(with.size());
    double worse = 0, squares = 0, repeats = 0, all = 0;
    for (std::size_t i = 0; i < with.size(); ++i) {
      worse += with[i] - without[i];
      repeats += told[i].repeat > 0 ? told[i].r : 0;
      all += told[i].r;
    }
    for (std::size_t i = 0; i < with.size(); ++i) squares += std::pow(with[i] - without[i] - worse / n, 2);
    const double most = repeats > common * all ? chance * std::sqrt(squares) : 0;
    if (worse < most && repeated.loss < before - least_gain) found = repeated;
  }
  if (!(found.loss < before - least_gain)) return std::nullopt;
  return found;
}

}  // namespace manyclass
