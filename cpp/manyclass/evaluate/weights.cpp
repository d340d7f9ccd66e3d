// Weights of any kind: see the header.
#include "manyclass/evaluate/weights.hpp"

#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "manyclass/evaluate/log_loss.hpp"
#include "manyclass/evaluate/top_k.hpp"
#include "manyclass/weights/coded_lines.hpp"

namespace manyclass {

namespace {

std::size_t size_of(const AnyCodes& codes) {
  return std::visit([](const auto& some) { return some.values.size(); }, codes);
}

std::size_t n_scales(const AnyCodes& codes) {
  return std::visit([](const auto& some) { return some.scales.size(); }, codes);
}

// Number `at` of the row-th row.
double number(const AnyCodes& codes, std::size_t at, std::size_t row) {
  return std::visit(
      [&](const auto& some) {
        const float value = value_of(some.values[at]);
        return static_cast<double>(some.scales.empty() ? value : value * some.scales[row]);
      },
      codes);
}

std::span<const float> floats_of(const AnyCodes& codes) { return std::get<Codes<float>>(codes).values; }

template <class Points>
const Points& as(const AnyPoints& points) {
  const auto* found = std::get_if<Points>(&points);
  if (found == nullptr) throw std::invalid_argument("the points are not of the kind that the weights read");
  return *found;
}

}  // namespace

AnyPoints rows_from(const AnyPoints& points, std::size_t begin, std::size_t n) {
  if (const auto* x = std::get_if<CsrView>(&points)) return x->rows_from(begin, n);
  if (const auto* phi = std::get_if<DenseView>(&points)) return phi->rows_from(begin, n);
  const auto& both = std::get<PairedView>(points);
  return PairedView{both.x.rows_from(begin, n), both.phi.rows_from(begin, n), both.n_cols};
}

Weights::Weights(const AnyCodes& rows, bool by_feature, std::span<const Offset> indptr, const AnyIds& classes,
                 const AnyCodes& values, std::span<const float> intercept, Index n_features, bool coded,
                 const CountMixture& counts)
    : rows_(rows),
      width_(0),
      by_feature_(by_feature),
      indptr_(indptr),
      classes_(classes),
      values_(values),
      intercept_(intercept),
      n_features_(n_features),
      coded_(coded),
      counts_(counts) {
  counts_.indptr = indptr_;
  counts_.classes = classes_;
  counts_.check(static_cast<std::size_t>(n_features), intercept.size());
  const std::size_t n_rows = by_feature ? static_cast<std::size_t>(n_features) : intercept.size();
  const std::size_t size = size_of(rows), n_ids = std::visit([](const auto& some) { return some.size(); }, classes);
  if (size > 0) {
    width_ = n_rows == 0 ? 0 : size / n_rows;
    const bool fits = !by_feature || (width_ % line_floats == 0 && width_ >= intercept.size() && indptr.empty());
    if (width_ == 0 || size % n_rows != 0 || !fits || (n_scales(rows) != 0 && n_scales(rows) != n_rows)) {
      throw std::invalid_argument("the rows do not fit the classes, the features or their scales");
    }
  }
  if (!indptr.empty()) {
    check_pairs(indptr, classes, static_cast<std::size_t>(n_features), intercept.size(), "supported classes");
  }
  if (n_ids != size_of(values) || (n_scales(values) != 0 && n_scales(values) + 1 != indptr.size())) {
    throw std::invalid_argument("the weights do not fit their support or its scales");
  }
  if (width_ == 0 && indptr.empty()) throw std::invalid_argument("there are no weights");
  const bool plain = std::holds_alternative<Codes<float>>(rows) && std::holds_alternative<Codes<float>>(values) &&
                     std::holds_alternative<std::span<const Index>>(classes) && n_scales(rows) + n_scales(values) == 0;
  if (!coded && !plain) throw std::invalid_argument("weights that are not coded must be floats without scales");
}

double Weights::feature_weight(Index j, Index k) const {
  if (j < 0 || j >= n_features_ || k < 0 || k >= n_classes()) throw std::invalid_argument("there is no such weight");
  const auto feature = static_cast<std::size_t>(j), column = static_cast<std::size_t>(k);
  if (by_feature_ && width_ > 0) return number(rows_, feature * width_ + column, feature);
  if (indptr_.empty()) return 0;
  const auto begin = static_cast<std::size_t>(indptr_[feature]), end = static_cast<std::size_t>(indptr_[feature + 1]);
  return std::visit(
      [&](const auto& classes) {
        using Id = typename std::remove_cvref_t<decltype(classes)>::value_type;
        const auto own = classes.subspan(begin, end - begin);
        const auto found = std::ranges::lower_bound(own, static_cast<Id>(k));
        if (found == own.end() || *found != static_cast<Id>(k)) return 0.0;
        return number(values_, begin + static_cast<std::size_t>(found - own.begin()), feature);
      },
      classes_);
}

void Weights::class_row(Index k, std::span<double> out) const {
  if (!reads_phi() || k < 0 || k >= n_classes() || out.size() != width_) {
    throw std::invalid_argument("there is no such row of a class");
  }
  const auto row = static_cast<std::size_t>(k);
  for (std::size_t h = 0; h < width_; ++h) out[h] = number(rows_, row * width_ + h, row);
}

template <class F>
void Weights::ask(const AnyPoints& points, const Asked& asked, const F& f) const {
  if (!asked.scale.empty() && asked.scale.size() != intercept_.size()) {
    throw std::invalid_argument("the scale must have one value for each class, or none");
  }
  const auto answer = [&](const auto& some, const auto& rows) {
    using Rows = std::remove_cvref_t<decltype(rows)>;
    f(some, Model<Rows>{{rows, intercept_, asked.scale}, n_classes(), counts_.is_on() ? &counts_ : nullptr});
  };
  const auto width = static_cast<Index>(width_);
  const auto sparse = [&](const CsrView& x) -> const CsrView& {
    if (x.n_cols != n_features_) throw std::invalid_argument("the weights do not fit the data");
    return x;
  };
  const auto dense = [&](const DenseView& phi) -> const DenseView& {
    if (phi.n_cols != width) throw std::invalid_argument("the weights do not fit the data");
    return phi;
  };
  const auto coded_x = [&] {
    return indptr_.empty() ? coded_features(rows_, n_features_, asked.isa)
                           : coded_pairs(indptr_, classes_, values_, n_classes(), asked.isa);
  };
  const auto pairs = [&] {
    return PairRows<const float>({indptr_, std::get<std::span<const Index>>(classes_)}, floats_of(values_),
                                 n_classes());
  };
  if (!reads_phi()) {
    const CsrView& x = sparse(as<CsrView>(points));
    if (coded_) return answer(x, coded_x());
    if (!indptr_.empty()) return answer(x, pairs());
    return answer(x, FeatureRows<const float>(floats_of(rows_), n_features_));
  }
  if (!reads_x()) {
    const DenseView& phi = dense(as<DenseView>(points));
    if (coded_) return answer(phi, coded_classes(rows_, width, asked.isa));
    return answer(phi, ClassRows<const float>(floats_of(rows_), width));
  }
  const auto& both = as<PairedView>(points);
  sparse(both.x);
  dense(both.phi);
  if (both.x.n_rows() != both.phi.n_rows()) throw std::invalid_argument("phi does not fit the points");
  if (coded_) return answer(both, coded_sums(coded_x(), coded_classes(rows_, width, asked.isa)));
  answer(both, PairedRows{pairs(), ClassRows<const float>(floats_of(rows_), width)});
}

void Weights::scores(const AnyPoints& points, const Asked& asked, std::span<float> out) const {
  ask(points, asked,
      [&](const auto& some, const auto& model) { all_scores(some, model, asked.n_threads, asked.isa, out); });
}

void Weights::log_losses(const AnyPoints& points, std::span<const Index> labels, const Asked& asked,
                         std::span<double> losses, std::span<Index> ranks) const {
  ask(points, asked, [&](const auto& some, const auto& model) {
    manyclass::log_losses(some, labels, model, asked.n_threads, asked.isa, losses, ranks);
  });
}

void Weights::log_normalizers(const AnyPoints& points, const Asked& asked, std::span<double> out) const {
  ask(points, asked, [&](const auto& some, const auto& model) {
    manyclass::log_normalizers(some, model, asked.n_threads, asked.isa, out);
  });
}

void Weights::top_k(const AnyPoints& points, Index k, const Asked& asked, std::span<Index> classes,
                    std::span<float> log_probabilities) const {
  ask(points, asked, [&](const auto& some, const auto& model) {
    manyclass::top_k(some, model, k, asked.n_threads, asked.isa, classes, log_probabilities);
  });
}

void Weights::top_wrong(const AnyPoints& points, std::span<const Index> labels, const Asked& asked,
                        std::span<Index> classes) const {
  ask(points, asked, [&](const auto& some, const auto& model) {
    manyclass::top_wrong(some, labels, model, asked.n_threads, asked.isa, classes);
  });
}

}  // namespace manyclass
