// Weights in fewer bits than those of a float, read as they are stored, behind one type for all kinds of storage.
//
// A weight is a float, the bits of an IEEE half, or a byte: w = s c with c in [-127, 127] and one scale s for each row
// of the storage (a feature, or a class). Nothing is unpacked but the sixteen neighbours in hand, for dense points
// eight rows, or for several of them a megabyte of rows, so that a pass over the weights reads a half or a quarter of
// the memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <variant>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/simd.hpp"
#include "manyclass/weights/class_range.hpp"
#include "manyclass/weights/dense_products.hpp"
#include "manyclass/weights/pair_rows.hpp"

namespace manyclass {

template <class Value>  // float, uint16_t for halves, or int8_t
struct Codes {
  std::span<const Value> values;
  std::span<const float> scales;  // one for each row; empty: all are 1
};

using AnyCodes = std::variant<Codes<float>, Codes<std::uint16_t>, Codes<std::int8_t>>;

// Classes of pairs: where there are at most 65,536 of them two bytes will do.
using AnyIds = std::variant<std::span<const Index>, std::span<const std::uint16_t>>;

inline constexpr Index most_short_ids = 1 << 16;

// Scores of a range of classes for some rows of `Data`. The call is the same for all storages and made once for these
// and a chunk of classes; the kernel behind it is compiled for each instruction set.
template <class Data>
struct CodedRows {
  using Weight = const float;  // of intercepts and scales beside the rows
  using Row = typename Data::Row;
  // Of at most `together` rows, whose scores follow each other by the number of classes.
  using Kernel = std::function<void(std::span<const Row>, ClassRange, std::span<float>)>;
  static constexpr std::size_t together = std::is_same_v<Data, CsrView> ? 1 : rows_together;

  Kernel kernel;
  Index chunk;  // classes to be scored before the next point is taken up
  // The same kernel for a chunk of classes that are read for several points: it has their weights as floats, which stay
  // in the second-level cache. The sums are bit for bit those of `kernel`. None where widening costs nothing.
  std::function<Kernel(ClassRange)> of_many = nullptr;

  void scores(const Row& x, ClassRange classes, std::span<float> z) const { kernel({&x, 1}, classes, z); }
  void scores(std::span<const Row> x, ClassRange classes, Isa, std::span<float> z) const { kernel(x, classes, z); }
};

// Feature-major weights, padded to whole sixteens of classes; one scale for each feature.
CodedRows<CsrView> coded_features(const AnyCodes& codes, Index n_features, Isa isa);

// Class-major weights; one scale for each class.
CodedRows<DenseView> coded_classes(const AnyCodes& codes, Index n_features, Isa isa);

// Weights on pairs; one scale for each feature.
CodedRows<CsrView> coded_pairs(std::span<const Offset> indptr, const AnyIds& ids, const AnyCodes& codes,
                               Index n_classes, Isa isa);

// The sum of both, over phi beside x.
CodedRows<PairedView> coded_sums(const CodedRows<CsrView>& pairs, const CodedRows<DenseView>& classes);

// Throws as check(Excluded) does.
void check_pairs(std::span<const Offset> indptr, const AnyIds& ids, std::size_t n_features, std::size_t n_classes,
                 const char* what);

}  // namespace manyclass
