// What rows of classes are multiplied with: phi(x), then a 1 if there are intercepts among the rows, then zeros.
//
//   phi(x) = x   or   phi(x) = sigma(sum_j (x_j - m_j) e_j),   sigma(v) = v or max(v, 0)
//
// Where there is a centre m it and the embeddings have one more than x has features, a bias: see model/feature_map.hpp.
// Embeddings are floats as they were trained, or in fewer bits, then maybe of some features alone. Numbers of phi that
// single precision does not hold are its largest ones.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/evaluate/weights.hpp"

namespace manyclass {

class Phi {
 public:
  // Rows have `width` numbers, of which the first n_hidden are phi(x). Throws std::invalid_argument where the arrays do
  // not fit each other.
  struct Shape {
    std::size_t width = 0, n_hidden = 0;
    bool intercept = false, relu = false;
  };
  // `embeddings` are rows of features, of the width of phi as floats, else of n_hidden rounded up to whole cache lines;
  // `features` are those that have one, of embeddings in fewer bits, or empty: all have.
  Phi(const Shape& shape, Index n_features, const AnyCodes& embeddings, bool coded, std::span<const Index> features,
      std::span<const float> centre);

  Phi(const Phi&) = delete;  // what is in fewer bits views a member
  Phi(Phi&&) = default;

  std::size_t width() const { return shape_.width; }
  Index n_features() const { return n_features_; }

  // Whether phi is x as a dense array has it, so that there is nothing to make.
  bool is_identity() const;

  // What features add to the score of class k of `weights`, w_kj, j being those of a row, whose values are x_j: so that
  // x_j w_kj is what each adds. Without values, what each would add alone, with value 1, to the score of x = 0. Where
  // phi is cut at 0, its places in which the row is not above 0 add nothing.
  std::vector<double> feature_weights(const Weights& weights, Index k, std::span<const Index> features,
                                      std::span<const double> values) const;

  // Writes phi of all points; counts in n_held() where a number was held.
  void write(const AnyData& x, int n_threads, Isa isa, std::span<float> out) const;

 private:
  double embedding(Index j, std::size_t h) const;
  // sum_j -m_j e_j, anew each time, as training moves the embeddings in place.
  std::vector<double> at_zero() const;
  Index n_embeddings() const { return n_features_ + (centre_.empty() ? 0 : 1); }
  void add_embeddings(const CsrView& x, int n_threads, std::span<float> out) const;
  void add_embeddings(const DenseView& x, int n_threads, Isa isa, std::span<float> out) const;

  Shape shape_;
  Index n_features_;
  std::span<const float> embeddings_;
  std::span<const float> centre_;
  std::vector<float> intercepts_of_codes_;
  std::optional<Weights> coded_;  // as weights of n_hidden classes
  std::span<const Index> features_;
};

}  // namespace manyclass
