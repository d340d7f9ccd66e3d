// What rows of classes are multiplied with: see the header.
#include "manyclass/evaluate/phi.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "manyclass/core/parallel.hpp"
#include "manyclass/evaluate/tiles.hpp"
#include "manyclass/weights/dense_products.hpp"
#include "manyclass/weights/label_scores.hpp"

namespace manyclass {

namespace {

constexpr std::size_t bite = 64;  // points that a thread takes at a time

// Calls f(first, last) for some of n points at a time.
template <class F>
void for_bites(int n_threads, std::size_t n, const F& f) {
  parallel_for(n_threads, (n + bite - 1) / bite, [&](std::size_t b) { f(b * bite, std::min(n, (b + 1) * bite)); });
}

void copy_features(const SparseRow& x, float* to) {
  for (std::size_t s = 0; s < x.indices.size(); ++s) to[static_cast<std::size_t>(x.indices[s])] = x.values[s];
}
void copy_features(const DenseRow& x, float* to) { std::copy(x.begin(), x.end(), to); }

}  // namespace

Phi::Phi(const Shape& shape, Index n_features, const AnyCodes& embeddings, bool coded, std::span<const Index> features,
         std::span<const float> centre)
    : shape_(shape), n_features_(n_features), centre_(centre), features_(features) {
  const auto fits = [](bool holds) {
    if (!holds) throw std::invalid_argument("the embeddings do not fit the features or the rows of the classes");
  };
  fits(shape.n_hidden + (shape.intercept ? 1 : 0) <= shape.width);
  const std::size_t size = std::visit([](const auto& some) { return some.values.size(); }, embeddings);
  if (size == 0) {
    fits(shape.n_hidden == static_cast<std::size_t>(n_features));
    return;
  }
  fits(centre.empty() || centre.size() == static_cast<std::size_t>(n_embeddings()));
  for (const Index j : features) fits(j >= 0 && j < n_embeddings());
  const std::size_t n_kept = features.empty() ? static_cast<std::size_t>(n_embeddings()) : features.size();
  if (coded) {
    intercepts_of_codes_.assign(shape.n_hidden, 0);
    fits(size % n_kept == 0 && shape.width == shape.n_hidden && !shape.intercept);
    coded_.emplace(embeddings, true, std::span<const Offset>(), AnyIds(), AnyCodes(), intercepts_of_codes_,
                   static_cast<Index>(n_kept), true, CountMixture());
    std::ranges::transform(at_zero(), intercepts_of_codes_.begin(), [](double v) { return static_cast<float>(v); });
  } else {
    embeddings_ = std::get<Codes<float>>(embeddings).values;
    fits(size == n_kept * shape.width && features.empty());
  }
}

bool Phi::is_identity() const {
  return embeddings_.empty() && !coded_ && shape_.width == static_cast<std::size_t>(n_features_) && !shape_.relu;
}

double Phi::embedding(Index j, std::size_t h) const {
  if (!coded_) return static_cast<double>(embeddings_[static_cast<std::size_t>(j) * shape_.width + h]);
  if (features_.empty()) return coded_->feature_weight(j, static_cast<Index>(h));
  const auto kept = std::ranges::lower_bound(features_, j);
  if (kept == features_.end() || *kept != j) return 0;
  return coded_->feature_weight(static_cast<Index>(kept - features_.begin()), static_cast<Index>(h));
}

std::vector<double> Phi::at_zero() const {
  std::vector<double> sums(shape_.n_hidden);
  for (std::size_t j = 0; j < centre_.size(); ++j) {
    const auto m = static_cast<double>(centre_[j]);
    const float* const e = coded_ ? nullptr : embeddings_.data() + j * shape_.width;
    for (std::size_t h = 0; h < sums.size(); ++h) {
      sums[h] -= m * (e == nullptr ? embedding(static_cast<Index>(j), h) : static_cast<double>(e[h]));
    }
  }
  return sums;
}

std::vector<double> Phi::feature_weights(const Weights& weights, Index k, std::span<const Index> features,
                                         std::span<const double> values) const {
  const std::size_t n = features.size(), n_hidden = shape_.n_hidden;
  std::vector<double> row(shape_.width), found(n);
  const std::vector<double> at_zero = this->at_zero();
  weights.class_row(k, row);
  for (const Index j : features) {
    if (j < 0 || j >= n_features_) throw std::invalid_argument("a feature is out of range");
  }
  const bool learnt = !embeddings_.empty() || coded_;
  for (std::size_t c = 0; c < n && !learnt; ++c) found[c] = row[static_cast<std::size_t>(features[c])];
  for (std::size_t h = 0; h < n_hidden && learnt; ++h) {
    double sum = at_zero[h];
    for (std::size_t c = 0; c < values.size() && shape_.relu; ++c) sum += values[c] * embedding(features[c], h);
    if (shape_.relu && !values.empty() && !(sum > 0)) continue;
    for (std::size_t c = 0; c < n; ++c) {
      const double e = embedding(features[c], h);
      const bool cut = shape_.relu && values.empty();
      found[c] += row[h] * (cut ? std::max(at_zero[h] + e, 0.0) - std::max(at_zero[h], 0.0) : e);
    }
  }
  return found;
}

// Sums of single features in their order, without the fused products of wider instruction sets: the same bits
// everywhere.
void Phi::add_embeddings(const CsrView& x, int n_threads, std::span<float> out) const {
  for_bites(n_threads, static_cast<std::size_t>(x.n_rows()), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const SparseRow row = x.row(static_cast<Index>(i));
      float* to = out.data() + i * shape_.width;
      for (std::size_t s = 0; s < row.indices.size(); ++s) {
        const float* e = embeddings_.data() + static_cast<std::size_t>(row.indices[s]) * shape_.width;
        for (std::size_t h = 0; h < shape_.n_hidden; ++h) to[h] += row.values[s] * e[h];
      }
    }
  });
}

void Phi::add_embeddings(const DenseView& x, int n_threads, Isa isa, std::span<float> out) const {
  const auto n_features = static_cast<std::size_t>(n_features_);
  std::vector<const float*> e(n_features);
  for (std::size_t j = 0; j < n_features; ++j) e[j] = embeddings_.data() + j * shape_.width;
  for_bites(n_threads, static_cast<std::size_t>(x.n_rows()), [&](std::size_t first, std::size_t last) {
    const std::size_t size = last - first;
    std::vector<float> across(n_features * size);  // x by features
    for (std::size_t i = 0; i < size; ++i) {
      const DenseRow row = x.row(static_cast<Index>(first + i));
      for (std::size_t j = 0; j < n_features; ++j) across[j * size + i] = row[j];
    }
    const auto row_of = [&](std::size_t i) { return out.data() + (first + i) * shape_.width; };
    run_with(isa, [&](Isa known) {
      add_products(std::span<const float* const>(e), shape_.n_hidden, across.data(), size, row_of, size, known);
    });
  });
}

void Phi::write(const AnyData& x, int n_threads, Isa isa, std::span<float> out) const {
  const auto n = static_cast<std::size_t>(n_rows(x));
  if (n_cols(x) != n_features_ || out.size() != n * shape_.width) {
    throw std::invalid_argument("the weights do not fit the data");
  }
  const auto* csr = std::get_if<CsrView>(&x);
  const bool learnt = !embeddings_.empty() || coded_;
  if (!coded_) std::ranges::fill(out, 0.0F);
  const std::vector<double> at_zero = coded_ || centre_.empty() ? std::vector<double>() : this->at_zero();
  for (std::size_t i = 0; i < n && !at_zero.empty(); ++i) {
    for (std::size_t h = 0; h < shape_.n_hidden; ++h) out[i * shape_.width + h] = static_cast<float>(at_zero[h]);
  }
  if (coded_) {
    if (csr == nullptr) throw std::invalid_argument("embeddings in fewer bits are those of sparse points");
    OwnedCsr some;
    CsrView kept = *csr;
    kept.n_cols = n_embeddings();
    if (!features_.empty()) {
      some = some_columns(kept, features_);
      kept = {some.indptr, some.indices, some.data, static_cast<Index>(features_.size())};
    }
    coded_->scores(kept, {{}, n_threads, isa}, out);
  } else if (!embeddings_.empty() && csr != nullptr) {
    add_embeddings(*csr, n_threads, out);
  } else if (!embeddings_.empty()) {
    add_embeddings(std::get<DenseView>(x), n_threads, isa, out);
  }
  std::atomic<bool> held{false};
  for_bites(n_threads, n, [&](std::size_t first, std::size_t last) {
    constexpr float most = std::numeric_limits<float>::max();
    for (std::size_t i = first; i < last; ++i) {
      const std::span<float> phi = out.subspan(i * shape_.width, shape_.width);
      if (!learnt) std::visit([&](const auto& data) { copy_features(data.row(static_cast<Index>(i)), phi.data()); }, x);
      for (std::size_t h = 0; learnt && h < shape_.n_hidden; ++h) {
        if (!std::isfinite(phi[h])) {
          held.store(true, std::memory_order_relaxed);
          phi[h] = std::isnan(phi[h]) ? 0 : phi[h] > 0 ? most : -most;
        }
        if (shape_.relu && !(phi[h] > 0)) phi[h] = 0;
      }
      if (shape_.intercept) phi[shape_.n_hidden] = 1;
    }
  });
  if (held) ++n_held();
}

}  // namespace manyclass
