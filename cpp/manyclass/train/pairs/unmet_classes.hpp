// The classes that a row does not meet, those without a weight on one of its features: their scores are their
// intercepts b_k, so that what they add to a loss is a number that all rows share, and what a visit does to them is the
// same for each but for a factor. A visit touches none of them.
//
// Of a softmax the number is S = sum_k e_k with e_k = e^(b_k - c). S without the classes that are met enters the
// normaliser as S classes of score c would. Of the logistic loss of each class it is the sum of log(1 + e^b_k). S is
// kept up to date as intercepts move, in whole multiples of a power of two: such sums are exact, so they are the same
// in any order, by any threads, and nothing drifts.
//
// The gradient of an intercept that is not met in visit t is a_t e_k, the number a_t being that of the visit (for the
// logistic loss a_t is the weight of the row, and e_k = 1 / (1 + e^-b_k)). The sum A of a_t so far is all that a visit
// adds to. A class remembers A as it was when its intercept last moved, and moves by e_k times what came since then at
// its next visit, or once that may exceed `most_due`: classes are listed by the power of two of their e_k, and a list
// is gone through when its time has come, the short one of frequent classes often, the long ones seldom. As the e_k of
// all classes add up to S, a visit costs at most some 2 / most_due moves for each label. A class that is met moves by
// the difference of its own gradient from a_t e_k.
//
// After every `span` visits all intercepts move by what they are due, and c, e_k, S and the lists are made anew. At
// such a place nothing is remembered but the intercepts: training stops there only.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "manyclass/core/parallel.hpp"
#include "manyclass/math/elementary.hpp"
#include "manyclass/math/logistic.hpp"
#include "manyclass/math/sums.hpp"
#include "manyclass/weights/pair_rows.hpp"

namespace manyclass {

// Adagrad of one kind of weights: the sums of squares, one for each, and what is added to them.
struct Squares {
  std::span<float> sums;
  float offset = 0;
};

class UnmetClasses {
 public:
  struct Problem {
    std::span<float> intercept;  // K
    Squares squares;             // sums of none: intercepts are not learned
    bool logistic;               // else a softmax
    double gradient_a_visit;     // what the gradients of all wrong classes add up to at most, in the mean of visits
    Offset span;                 // visits
    Isa isa;
  };

  // `bounds` are those of neighbouring ranges of classes, each of which one thread moves.
  UnmetClasses(const Problem& problem, std::span<const Index> bounds)
      : problem_(problem),
        parts_(bounds.size() - 1),
        shares_(problem.intercept.size()),
        terms_(problem.logistic ? problem.intercept.size() : 0),
        moved_at_(problem.squares.sums.size()) {
    for (std::size_t r = 0; r < parts_.size(); ++r) parts_[r].range = {bounds[r], bounds[r + 1] - bounds[r]};
    // 62 bits hold the sum of K terms of at most 1, as they begin, and of 128 times that.
    const int bits = static_cast<int>(std::bit_width(problem.intercept.size())) + 7;
    unit_ = std::ldexp(1.0, bits - 62);
    per_unit_ = 1 / unit_;
  }

  // Neighbouring ranges [first, last).
  struct Parts {
    std::size_t first, last;
  };
  Parts all_parts() const { return {0, parts_.size()}; }
  Parts share(Member me) const {
    const auto [first, last] = me.share(parts_.size());
    return {first, last};
  }
  ClassRange classes(Parts parts) const {
    if (parts.first == parts.last) return {};
    const Index begin = parts_[parts.first].range.begin;
    return {begin, parts_[parts.last - 1].range.end() - begin};
  }

  // What a visit sees

  float centre() const { return centre_; }
  float share(Index k) const { return shares_[static_cast<std::size_t>(k)]; }
  // Of the terms of all classes but those listed.
  double sum_without(std::span<const Index> met) const {
    const std::span<const float> terms = of_sum();
    std::int64_t sum = sum_.load(std::memory_order_relaxed);
    for (const Index k : met) sum -= in_units(terms[static_cast<std::size_t>(k)]);
    return static_cast<double>(std::max<std::int64_t>(sum, 0)) * unit_;  // racing threads may lose a part
  }

  // What it moves

  bool learns() const { return !moved_at_.empty(); }
  double so_far() const { return so_far_.load(std::memory_order_relaxed); }

  // Moves the intercepts of some classes, none of them twice, by what they are due when A is `so_far`, and by g beside
  // that where there is one. Returns what this adds to the sum.
  template <class Classes>  // ClassRange or ClassList
  std::int64_t move(const Classes& classes, std::span<const float> g, double so_far, float rate, Isa isa) {
    const auto at_most = std::fmin(rate, most_adagrad);
    std::int64_t moved = 0;
    std::size_t c = 0;
    const auto groups_of = [&]<std::size_t N>() {
      for (; c + N <= classes.size(); c += N) {
        moved += this->template move_some<N>(classes, c, g, static_cast<float>(so_far), at_most, isa);
      }
    };
    groups_of.template operator()<line_floats>();
    groups_of.template operator()<4>();  // what is left of a line
    groups_of.template operator()<1>();
    return moved;
  }

  void add_to_sum(std::int64_t moved) { sum_.fetch_add(moved, std::memory_order_relaxed); }

  // Moves the intercepts of some parts that are due when A is `so_far`. Returns what that adds to the sum.
  std::int64_t move_due(Parts parts, double so_far, float rate, Isa isa) {
    std::int64_t sum = 0;
    for (std::size_t level = 0; level < n_levels; ++level) {
      if (!is_due(level, so_far)) continue;
      for (std::size_t r = parts.first; r < parts.last; ++r) {
        sum += move(ClassList(parts_[r].of_level(level)), {}, so_far, rate, isa);
      }
    }
    return sum;
  }

  // To be called by one thread when all have moved what was due.
  void have_moved(double so_far) {
    for (std::size_t level = 0; level < n_levels; ++level) {
      if (is_due(level, so_far)) listed_at_[level] = so_far;
    }
    so_far_.store(so_far, std::memory_order_relaxed);
    is_new_ = false;
  }

  // Whether all has been made anew, and nothing has moved since then.
  bool is_new() const { return is_new_; }

  // Moves all intercepts of some parts by what they are due when A is `so_far`, and makes the rest of them anew. All
  // threads of a team call it for their own parts, one of them as the first; `wait` is their barrier.
  template <class Wait>
  void renew(Parts parts, double so_far, float rate, bool is_first, const Wait& wait) {
    for (std::size_t r = parts.first; r < parts.last; ++r) apply_due_moves(parts_[r], so_far, rate);
    wait();
    float top = -std::numeric_limits<float>::infinity();
    for (const Part& part : parts_) top = std::fmax(top, part.top);
    // A whole number, so that it stays the same as long as it can: racing threads may see the old one beside new e_k.
    const float centre = problem_.logistic ? 0.0F : std::ceil(top);
    for (std::size_t r = parts.first; r < parts.last; ++r) fill(parts_[r], centre);
    wait();
    std::int64_t sum = 0;
    for (const Part& part : parts_) sum += part.sum;
    const double of_all = problem_.logistic ? 1 : std::fmax(static_cast<double>(sum) * unit_, 1e-30);
    const double most = problem_.gradient_a_visit / of_all * static_cast<double>(problem_.span);
    for (std::size_t r = parts.first; r < parts.last; ++r) list(parts_[r], most_due / (2 * most));
    if (!is_first) return;
    centre_ = centre;
    sum_.store(sum, std::memory_order_relaxed);
    so_far_.store(0, std::memory_order_relaxed);
    listed_at_.fill(0);
    is_new_ = true;
  }

 private:
  static constexpr std::size_t n_levels = 40;
  static constexpr double most_due = 1.0 / 32;
  static constexpr float most_share = 64;

  struct Part {
    ClassRange range{};
    float top = 0;         // of its intercepts
    std::int64_t sum = 0;  // of its terms
    std::vector<Index> listed;
    std::array<std::size_t, n_levels + 1> first{};  // of each level in the list

    std::span<const Index> of_level(std::size_t level) const {
      return std::span(listed).subspan(first[level], first[level + 1] - first[level]);
    }
  };

  std::span<const float> of_sum() const { return terms_.empty() ? shares_ : terms_; }
  std::int64_t in_units(float term) const { return static_cast<std::int64_t>(static_cast<double>(term) * per_unit_); }

  // The loops of renew(). Intercepts that are not learned are due nothing.

  void apply_due_moves(Part& part, double so_far, float rate) {
    run_with<Isa::avx2>(problem_.isa, [&](Isa isa) {
      if (learns()) move(part.range, {}, so_far, rate, isa);
      part.top = max_of(at_classes(problem_.intercept, part.range), -std::numeric_limits<float>::infinity());
    });
    if (learns()) std::ranges::fill(at_classes(std::span(moved_at_), part.range), 0.0F);
  }

  void fill(Part& part, float centre) {
    const std::span<const float> b = at_classes(problem_.intercept, part.range);
    const std::span<float> shares = at_classes(std::span(shares_), part.range);
    run_with<Isa::avx2>(problem_.isa, [&] {
      shares_of(b, centre, shares, terms_.empty() ? shares : at_classes(std::span(terms_), part.range));
      part.sum = 0;
      for (const float term : at_classes(of_sum(), part.range)) part.sum += in_units(term);
    });
  }

  // Lists the classes with at least some share, level by level, in ascending order.
  void list(Part& part, double least) {
    part.listed.clear();
    part.first.fill(0);
    if (!learns()) return;
    std::vector<Index> found;
    for (Index k = part.range.begin; k < part.range.end(); ++k) {
      const float share = this->share(k);
      if (!(static_cast<double>(share) >= least) || level_of(share) >= n_levels) continue;
      found.push_back(k);
      ++part.first[level_of(share) + 1];
    }
    for (std::size_t level = 0; level < n_levels; ++level) part.first[level + 1] += part.first[level];
    std::array<std::size_t, n_levels + 1> next = part.first;
    part.listed.resize(found.size());
    for (const Index k : found) part.listed[next[level_of(share(k))]++] = k;
  }

  // e_k and what k adds to the sum.
  void shares_of(std::span<const float> b, float centre, std::span<float> shares, std::span<float> terms) const {
    const auto at_most = [](float x, float most) { return x < most ? x : most; };  // loops would call fmin
    if (!problem_.logistic) {
      for (std::size_t c = 0; c < b.size(); ++c) shares[c] = at_most(vec::exp(b[c] - centre), most_share);
      return;
    }
    for (std::size_t c = 0; c < b.size(); ++c) shares[c] = 1 / (1 + vec::exp(-b[c]));
    for (std::size_t c = 0; c < b.size(); ++c) terms[c] = at_most(-vec::log_expit(-b[c]), most_share);
  }

  // N classes from the first-th on. What is read stands in arrays of its own, so that loops over it are vectorised:
  // what comes from places in a list becomes vectors in registers where the compiler knows how many there are. All are
  // rounded alike, whichever group a class is in, which depends on the threads.
  template <std::size_t N, class Classes>
  std::int64_t move_some(const Classes& classes, std::size_t first, std::span<const float> g, float so_far, float rate,
                         Isa isa) {
    alignas(line_bytes) float b[N], squares[N], slopes[N] = {}, shares[N], terms[N];
    const auto at = [&](std::size_t c) { return static_cast<std::size_t>(classes[first + c]); };
    if (!g.empty()) std::copy_n(g.data() + first, N, slopes);
    for (std::size_t c = 0; c < N; ++c) slopes[c] += shares_[at(c)] * (so_far - moved_at_[at(c)]);
    for (std::size_t c = 0; c < N; ++c) b[c] = problem_.intercept[at(c)];
    for (std::size_t c = 0; c < N; ++c) squares[c] = problem_.squares.sums[at(c)];
    if constexpr (N == 1) {
      adagrad_alone(b[0], squares[0], slopes[0], rate, problem_.squares.offset);
    } else {
      with_vectors(isa, [&]<std::size_t Bytes>() {
        adagrad<std::min(Bytes, N * sizeof(float))>(b, squares, slopes, N, rate, problem_.squares.offset);
      });
    }
    shares_of(b, centre_, shares, terms);
    std::int64_t moved = 0;
    for (std::size_t c = 0; c < N; ++c) moved -= in_units(of_sum()[at(c)]);
    const float* const of_sum = problem_.logistic ? terms : shares;
    for (std::size_t c = 0; c < N; ++c) moved += in_units(of_sum[c]);
    for (std::size_t c = 0; c < N; ++c) {
      problem_.intercept[at(c)] = b[c];
      problem_.squares.sums[at(c)] = squares[c];
      shares_[at(c)] = shares[c];
      moved_at_[at(c)] = so_far;
      if (problem_.logistic) terms_[at(c)] = terms[c];
    }
    return moved;
  }

  // e_k of level l is between 2^-l and 2^(1-l), but for a factor by which fractions of small whole numbers, of which
  // training begins, lie away from the bounds.
  static std::size_t level_of(float share) {
    const int power = static_cast<int>(std::bit_cast<std::uint32_t>(share * 1.37F) >> 23) - 127;
    return power >= 0 ? 0 : static_cast<std::size_t>(-power);
  }
  bool is_due(std::size_t level, double so_far) const {
    return so_far - listed_at_[level] >= most_due * static_cast<double>(std::uint64_t{1} << level);
  }

  Problem problem_;
  std::vector<Part> parts_;
  std::vector<float> shares_;    // K, e_k
  std::vector<float> terms_;     // K, of the sum; empty: they are the shares
  std::vector<float> moved_at_;  // K, or none where intercepts are not learned
  double unit_, per_unit_;
  float centre_ = 0;  // c
  std::atomic<std::int64_t> sum_{0};
  std::atomic<double> so_far_{0};             // A
  std::array<double, n_levels> listed_at_{};  // A when the classes of a level were last gone through
  bool is_new_ = false;
};

}  // namespace manyclass
