// Kernels of weights in fewer bits: see the header.
#include "manyclass/weights/coded_rows.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "manyclass/core/vectors.hpp"
#include "manyclass/weights/coded_lines.hpp"

namespace manyclass {

namespace {

template <class Value>
float scale_of(const Codes<Value>& codes, std::size_t row) {
  return codes.scales.empty() ? 1.0F : codes.scales[row];
}

template <class Value>
class Features {
 public:
  Features(const Codes<Value>& codes, Index n_features)
      : codes_(codes), stride_(n_features == 0 ? 0 : codes.values.size() / static_cast<std::size_t>(n_features)) {}

  void scores(SparseRow x, ClassRange classes, Isa isa, std::span<float> z) const {
    const auto first = static_cast<std::size_t>(classes.begin);
    with_vectors(isa, [&]<std::size_t Bytes>() {
      // Lines whose sums stay in registers beside what a line of halves is made by.
      constexpr std::size_t some = std::min<std::size_t>(n_registers<Bytes> / 2 / parts_of_line<Bytes>, 4);
      std::size_t c = 0;
      for (; c + wide * line_floats <= z.size(); c += wide * line_floats) long_tile<Bytes>(x, first + c, z.data() + c);
      for (; c + some * line_floats <= z.size(); c += some * line_floats) tile<Bytes, some>(x, first + c, z.data() + c);
      for (; c + line_floats <= z.size(); c += line_floats) tile<Bytes, 1>(x, first + c, z.data() + c);
      if (c < z.size()) rest(x, first + c, z.subspan(c));
    });
  }

  static constexpr Index chunk = 4096;  // for the reason given in evaluate/tiles.hpp

 private:
  // Long runs are summed row by row in a buffer that stays in the first-level cache, as in feature_rows.hpp.
  static constexpr std::size_t wide = 128;

  // z += value * row, of some lines.
  template <std::size_t Bytes, std::size_t Lines>
  static void add_lines(float value, const Value* row, Floats<Bytes> (&sums)[Lines]) {
#pragma GCC unroll 16
    for (std::size_t l = 0; l < Lines; ++l) {
      Floats<Bytes> w;
      read_line<Bytes>(row + l * line_floats, w);
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) sums[l][p] += value * w[p];
    }
  }

  template <std::size_t Bytes, std::size_t Lines>
  void tile(SparseRow x, std::size_t first, float* z) const {
    Floats<Bytes> sums[Lines] = {};
    for (std::size_t n = 0; n < x.indices.size(); ++n) add_lines<Bytes>(value_at(x, n), at(x.indices[n], first), sums);
    write<Bytes>(sums, z);
  }

  template <std::size_t Bytes>
  void long_tile(SparseRow x, std::size_t first, float* z) const {
    std::fill_n(z, wide * line_floats, 0.0F);
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const Value* row = at(x.indices[n], first);
      const float value = value_at(x, n);
      for (std::size_t c = 0; c < wide * line_floats; c += line_floats) {
        Floats<Bytes> sums[1];
        read_line<Bytes>(z + c, sums[0]);
        add_lines<Bytes>(value, row + c, sums);
        write<Bytes>(sums, z + c);
      }
    }
  }

  template <std::size_t Bytes, std::size_t Lines>
  static void write(const Floats<Bytes> (&sums)[Lines], float* z) {
#pragma GCC unroll 16
    for (std::size_t l = 0; l < Lines; ++l) {
#pragma GCC unroll 4
      for (std::size_t p = 0; p < parts_of_line<Bytes>; ++p) {
        std::memcpy(z + l * line_floats + p * Bytes / sizeof(float), &sums[l][p], Bytes);
      }
    }
  }

  void rest(SparseRow x, std::size_t first, std::span<float> z) const {
    std::fill(z.begin(), z.end(), 0.0F);
    for (std::size_t n = 0; n < x.indices.size(); ++n) {
      const Value* row = at(x.indices[n], first);
      const float value = value_at(x, n);
      for (std::size_t c = 0; c < z.size(); ++c) z[c] += value * value_of(row[c]);
    }
  }

  const Value* at(Index j, std::size_t k) const {
    return codes_.values.data() + static_cast<std::size_t>(j) * stride_ + k;
  }
  float value_at(SparseRow x, std::size_t n) const {
    return x.values[n] * scale_of(codes_, static_cast<std::size_t>(x.indices[n]));
  }

  Codes<Value> codes_;
  std::size_t stride_;
};

template <class Value>
class Classes {
 public:
  Classes(const Codes<Value>& codes, Index n_features) : codes_(codes), width_(static_cast<std::size_t>(n_features)) {}

  // Of several rows, bit for bit those of each alone: codes become floats before they are multiplied, as a compiler may
  // fuse the products of one type of weight and not those of another.
  void scores(std::span<const DenseRow> x, ClassRange classes, Isa isa, std::span<float> z) const {
    const std::size_t n = classes.size();
    if constexpr (std::is_same_v<Value, float>) {
      const ClassRows<const float> rows(codes_.values, static_cast<Index>(width_));
      rows.scores(x, classes, isa, z);
    } else {
      constexpr std::size_t some = 8;  // classes: their weights as floats stay in the nearest cache
      std::vector<float> floats;
      float tile[rows_together * some];
      for (std::size_t c = 0; c < n; c += some) {
        const ClassRange part{classes[c], static_cast<Index>(std::min(some, n - c))};
        widen(part, isa, floats);
        const ClassRows<const float> rows(floats, static_cast<Index>(width_));
        rows.scores(x, ClassRange{0, part.count}, isa, tile);
        for (std::size_t i = 0; i < x.size(); ++i) std::copy_n(tile + i * part.size(), part.size(), &z[i * n + c]);
      }
    }
    if (codes_.scales.empty()) return;
    const std::span<const float> scale = scales(classes);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t c = 0; c < n; ++c) z[i * n + c] *= scale[c];
    }
  }

  // As many rows as stay in the second-level cache as floats, as in evaluate/tiles.hpp.
  Index chunk() const {
    constexpr std::size_t cache_floats = 1 << 18;
    return static_cast<Index>(
        std::clamp<std::size_t>(cache_floats / std::max<std::size_t>(width_, 1), line_floats, 4096));
  }

  // The rows of some classes as floats, as if those were all, times nothing: the scales are those of the codes.
  void widen(ClassRange classes, Isa isa, std::vector<float>& to) const {
    const Value* from = codes_.values.data() + static_cast<std::size_t>(classes.begin) * width_;
    to.resize(classes.size() * width_);
    read_floats(from, isa, std::span(to));
  }

  std::span<const float> scales(ClassRange classes) const {
    return codes_.scales.empty() ? codes_.scales
                                 : codes_.scales.subspan(static_cast<std::size_t>(classes.begin), classes.size());
  }

 private:
  Codes<Value> codes_;
  std::size_t width_;
};

template <class Value, class Id>
class CodedPairRows {
 public:
  CodedPairRows(std::span<const Offset> indptr, std::span<const Id> ids, const Codes<Value>& codes, Index n_classes)
      : indptr_(indptr), ids_(ids), codes_(codes), n_classes_(n_classes) {}

  void scores(SparseRow x, ClassRange classes, Isa isa, std::span<float> z) const {
    std::fill(z.begin(), z.end(), 0.0F);
    const Id* const ids = ids_.data();
    const Value* const s = codes_.values.data();
    float* const to = z.data() - classes.begin;
    with_vectors(isa, [&]<std::size_t Bytes>() {
      for (std::size_t n = 0; n < x.indices.size(); ++n) {
        const auto j = static_cast<std::size_t>(x.indices[n]);
        const auto [first, last] = range_of(j, classes);
        const float value = x.values[n] * scale_of(codes_, j);
        std::size_t p = first;
        for (; p + line_floats <= last; p += line_floats) {
          Floats<Bytes> line;
          read_line<Bytes>(s + p, line);
          // Multiplied one by one as those of the rest are: which pairs are the rest depends on the classes that are
          // asked for, and a compiler may fuse these products.
          float w[line_floats];
          std::memcpy(w, line, sizeof w);
#pragma GCC unroll 16
          for (std::size_t l = 0; l < line_floats; ++l) to[ids[p + l]] += value * w[l];
        }
        for (; p < last; ++p) to[ids[p]] += value * value_of(s[p]);
      }
    });
  }

  static constexpr Index chunk = most_short_ids;  // for the reason given in evaluate/tiles.hpp

 private:
  std::pair<std::size_t, std::size_t> range_of(std::size_t j, ClassRange range) const {
    const auto first = static_cast<std::size_t>(indptr_[j]), last = static_cast<std::size_t>(indptr_[j + 1]);
    if (range.begin == 0 && range.end() == n_classes_) return {first, last};
    const Id* const begin = ids_.data();
    const auto below = [](Id id, Index bound) { return static_cast<Index>(id) < bound; };
    const Id* const from = std::lower_bound(begin + first, begin + last, range.begin, below);
    const Id* const to = std::lower_bound(from, begin + last, range.end(), below);
    return {static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - begin)};
  }

  std::span<const Offset> indptr_;
  std::span<const Id> ids_;
  Codes<Value> codes_;
  Index n_classes_;
};

// The kernel of a storage, compiled for an instruction set.
template <class Rows>
CodedRows<CsrView>::Kernel sparse_kernel(const Rows& rows, Isa isa) {
  return [rows, isa](std::span<const SparseRow> x, ClassRange classes, std::span<float> z) {
    run_with(isa, [&](Isa known) { rows.scores(x.front(), classes, known, z); });  // one row, see CodedRows::together
  };
}

// Of the classes `chunk` alone, which the rows have from 0 on.
template <class Rows>
CodedRows<DenseView>::Kernel dense_kernel(const Rows& rows, Isa isa, ClassRange chunk) {
  return [rows, isa, chunk](std::span<const DenseRow> x, ClassRange classes, std::span<float> z) {
    const ClassRange within{classes.begin - chunk.begin, classes.count};
    run_with(isa, [&](Isa known) { rows.scores(x, within, known, z); });
  };
}

template <class Id>
bool ascend_below(std::span<const Id> ids, std::size_t n) {
  if (ids.empty()) return true;
  const bool first = static_cast<std::int64_t>(ids.front()) >= 0;
  return first && static_cast<std::size_t>(ids.back()) < n &&
         std::ranges::adjacent_find(ids, std::ranges::greater_equal{}) == ids.end();
}

}  // namespace

CodedRows<CsrView> coded_features(const AnyCodes& codes, Index n_features, Isa isa) {
  return std::visit(
      [&](const auto& some) {
        const Features rows(some, n_features);
        return CodedRows<CsrView>{sparse_kernel(rows, isa), rows.chunk};
      },
      codes);
}

CodedRows<DenseView> coded_classes(const AnyCodes& codes, Index n_features, Isa isa) {
  return std::visit(
      [&](const auto& some) {
        const Classes rows(some, n_features);
        CodedRows<DenseView> made{dense_kernel(rows, isa, {0, 0}), rows.chunk()};
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(some)>, Codes<float>>) {
          made.of_many = [rows, n_features, isa](ClassRange chunk) -> CodedRows<DenseView>::Kernel {
            const auto floats = std::make_shared<std::vector<float>>();
            run_with(isa, [&](Isa known) { rows.widen(chunk, known, *floats); });
            const Classes widened(Codes<float>{*floats, rows.scales(chunk)}, n_features);
            return [kernel = dense_kernel(widened, isa, chunk), floats](std::span<const DenseRow> x, ClassRange classes,
                                                                        std::span<float> z) { kernel(x, classes, z); };
          };
        }
        return made;
      },
      codes);
}

CodedRows<CsrView> coded_pairs(std::span<const Offset> indptr, const AnyIds& ids, const AnyCodes& codes,
                               Index n_classes, Isa isa) {
  return std::visit(
      [&](const auto& some_ids, const auto& some) {
        const CodedPairRows rows(indptr, some_ids, some, n_classes);
        return CodedRows<CsrView>{sparse_kernel(rows, isa), rows.chunk};
      },
      ids, codes);
}

CodedRows<PairedView> coded_sums(const CodedRows<CsrView>& pairs, const CodedRows<DenseView>& classes) {
  CodedRows<PairedView> made{
      [pairs, classes](std::span<const PairedView::Row> rows, ClassRange range, std::span<float> z) {
        const std::size_t n = range.size();
        std::vector<float> of_classes(z.size());
        classes.kernel(PhiOf(rows).rows(), range, of_classes);
        for (std::size_t i = 0; i < rows.size(); ++i) pairs.scores(rows[i].x, range, z.subspan(i * n, n));
        for (std::size_t c = 0; c < z.size(); ++c) z[c] += of_classes[c];
      },
      classes.chunk};
  if (classes.of_many) {
    made.of_many = [pairs, classes](ClassRange chunk) {
      return coded_sums(pairs, {classes.of_many(chunk), classes.chunk}).kernel;
    };
  }
  return made;
}

void check_pairs(std::span<const Offset> indptr, const AnyIds& ids, std::size_t n_features, std::size_t n_classes,
                 const char* what) {
  std::visit(
      [&](const auto& some) {
        if (indptr.size() != n_features + 1 || indptr.front() != 0 ||
            indptr.back() != static_cast<Offset>(some.size()) || !std::ranges::is_sorted(indptr)) {
          throw std::invalid_argument(std::string("the ") + what + " do not describe one list for each row");
        }
        for (std::size_t i = 0; i < n_features; ++i) {
          const auto begin = static_cast<std::size_t>(indptr[i]), end = static_cast<std::size_t>(indptr[i + 1]);
          if (ascend_below(some.subspan(begin, end - begin), n_classes)) continue;
          throw std::invalid_argument(std::string("the ") + what + " of row " + std::to_string(i) +
                                      " are not distinct, sorted and in range");
        }
      },
      ids);
}

}  // namespace manyclass
