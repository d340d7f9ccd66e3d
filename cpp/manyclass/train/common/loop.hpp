// The one training loop: the order of visits, teams of threads, batches, the watch for divergence, sums of progress.
//
// A policy says what a visit does, in one or both of two ways. `Alone`: a thread takes some visits at a time and makes
// them one after the other. One thread makes plain SGD; several race on the weights by Hogwild, which is accepted: a
// lost update costs one step, and scores are never torn, since a float is written at once (tests/cpp/hogwild.supp names
// the functions that race). `Together`: a team looks at the visits of a batch at the same weights, then each thread
// moves its own part of the weights by all of them, in their order. The result is the same for any number of threads.
// `ByOwners`: each thread, before, has taken what its own part of the weights gives to the visits, too.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "manyclass/core/interrupt.hpp"
#include "manyclass/core/pace.hpp"
#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/train/common/trainer.hpp"

namespace manyclass {

// Ends a run for all threads: at a step that was too large to take, or at an error.
class Watch {
 public:
  // Of the points that diverge at the same weights the first by number is kept, whichever thread saw it first.
  void diverged(Index point) {
    for (Index seen = at_; (seen < 0 || point < seen) && !at_.compare_exchange_weak(seen, point);) {
    }
    stopped_ = true;
  }

  // Keeps the error that is being handled.
  void failed() {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    stopped_ = true;
  }

  bool stopped() const { return stopped_; }
  // To be called where no thread may fail at the same time.
  bool has_failed() const { return error_ != nullptr; }

  // The point that diverged, or -1; rethrows an error. To be called when all threads have ended.
  Index outcome() const {
    if (error_) std::rethrow_exception(error_);
    return at_;
  }

 private:
  std::atomic<bool> stopped_{false};
  std::atomic<Index> at_{-1};
  std::exception_ptr error_;
  std::mutex mutex_;
};

// Which item a visit is to: random in each pass, or as the items come.
class VisitOrder {
 public:
  // Items that come after others, first_item of them, have an order of their own.
  VisitOrder(std::size_t n_items, bool shuffled, std::uint64_t seed, std::uint64_t first_item)
      : items_(shuffled ? n_items : 0), seed_(seed), item_(visit_order_item - 2 * first_item) {}

  void begin_pass(int pass) {
    if (items_.empty() || pass == pass_) return;
    std::iota(items_.begin(), items_.end(), 0);
    shuffle(items_, Rng({seed_, static_cast<std::uint64_t>(pass)}, item_));
    pass_ = pass;
  }

  Index operator[](Offset t) const {
    return items_.empty() ? static_cast<Index>(t) : items_[static_cast<std::size_t>(t)];
  }

 private:
  std::vector<Index> items_;
  std::uint64_t seed_, item_;
  int pass_ = -1;
};

// What a policy sees of a run.
struct Run {
  const Stretch& stretch;
  const VisitOrder& order;
  Watch& watch;
  Deadline deadline;
};

// The visits [begin, begin + size) of a pass.
struct Visits {
  Offset begin;
  std::size_t size;
};

// make() makes visits, adds to `progress`, and returns early where the run is stopped. `Work` is the memory that a
// thread needs for it; the policy's own members are shared by all threads.
template <class P>
concept Alone = requires(P policy, const Run& run, Visits visits, typename P::Work& work, Progress& progress) {
  { policy.visits_at_a_time() } -> std::convertible_to<Offset>;
  { policy.work() } -> std::same_as<typename P::Work>;
  policy.make(run, visits, work, progress);
};

// All threads call each with the same visits, and all have ended look() before the first calls move(). look() changes
// no weights that it reads after that, and is not followed by the others where the run is stopped; move() changes what
// belongs to `me`. account(), called by one thread beside move() of the others, adds to `progress`.
template <class P>
concept Together = requires(P policy, Member me, const Run& run, Visits visits, Progress& progress) {
  policy.look(me, run, visits);
  policy.move(me, run, visits);
  policy.account(visits, progress);
};

// All threads call leave() in place of move() where a visit has diverged: look() of one thread alone moves some rows
// itself, and those of a team do then what it has done.
template <class P>
concept Leaves =
    Together<P> && requires(P policy, Member me, const Run& run, Visits visits) { policy.leave(me, run, visits); };

// All threads call follow() when all have ended move().
template <class P>
concept Follows = Together<P> && requires(P policy, Member me, Visits visits) { policy.follow(me, visits); };

// In teams of two and more a visit is drawn, scored, looked at and moved. draw() and look() are shared out by visits;
// score() and move() are of what belongs to `me`, and so the first needs no more than that all have looked at the batch
// before: while one member scores a batch, another may still move by the last. draw() is called beside look() of the
// batch before, and must not throw.
template <class P>
concept ByOwners = Together<P> && !Follows<P> && requires(P policy, Member me, const Run& run, Visits visits) {
  policy.draw(me, run, visits);
  policy.score(me, run, visits);
};

// A policy that remembers something between visits which it can do without at some places only: one thread calls
// begin() before the visits of a stretch and end() behind them, and a stretch whose time is up ends where may_end()
// says so.
template <class P>
concept EndsAtPlaces = requires(P policy, const Run& run, Offset visit) {
  policy.begin(run);
  policy.end(run);
  { policy.may_end(visit) } -> std::same_as<bool>;
};

template <class Policy>
class Loop final : public Trainer {
  static_assert(Alone<Policy> || Together<Policy>, "a policy makes visits alone or together");

 public:
  // A pass has n_visits; so many go to one item.
  Loop(Policy policy, std::size_t n_visits, const Settings& settings, std::size_t visits_per_item = 1)
      : policy_(std::move(policy)),
        settings_(settings),
        n_visits_(static_cast<Offset>(n_visits)),
        pace_(settings.n_threads),
        order_((n_visits + visits_per_item - 1) / visits_per_item, settings.shuffle, settings.seed,
               settings.first_point) {
    if (settings.batch < 1 || settings.n_threads < 1) {
      throw std::invalid_argument("batch and n_threads must be at least 1");
    }
  }

  Progress run(const Stretch& stretch) override {
    if (stretch.first < 0 || stretch.first > stretch.last || stretch.last > n_visits_) {
      throw std::invalid_argument("no such visits: a pass has " + std::to_string(n_visits_));
    }
    order_.begin_pass(stretch.pass);
    Watch watch;
    const Run run{stretch, order_, watch, Deadline(stretch.seconds)};
    Progress progress;
    if constexpr (EndsAtPlaces<Policy>) policy_.begin(run);
    if constexpr (!Alone<Policy>) {
      progress = together(run);
    } else if constexpr (!Together<Policy>) {
      progress = alone(run);
    } else {
      progress = settings_.batch > 1 && !settings_.hogwild ? together(run) : alone(run);
    }
    if constexpr (EndsAtPlaces<Policy>) policy_.end(run);
    progress.diverged_at = watch.outcome();
    return progress;
  }

 private:
  // Whether time is up before a visit that the stretch may end at.
  bool is_late(const Run& run, Offset visit) const {
    if constexpr (EndsAtPlaces<Policy>) {
      if (!policy_.may_end(visit)) return false;
    }
    return run.deadline.passed();
  }

  Progress alone(const Run& run) {
    std::vector<Progress> parts(static_cast<std::size_t>(settings_.hogwild ? settings_.n_threads : 1));
    parts.front().loss = run.stretch.loss;
    if constexpr (requires { policy_.begin_race(); }) {
      if (parts.size() > 1) policy_.begin_race();
    }
    const Offset at_a_time = policy_.visits_at_a_time();
    std::atomic<Offset> next{run.stretch.first};
    share_out(static_cast<int>(parts.size()), [&](int rank) {
      Progress& part = parts[static_cast<std::size_t>(rank)];
      Progress mine = part;  // on this thread's stack: parts share cache lines
      try {
        typename Policy::Work work = policy_.work();
        Offset end = run.stretch.first;
        do {
          const Offset begin = next.fetch_add(at_a_time);
          if (begin >= run.stretch.last) break;
          end = std::min(begin + at_a_time, run.stretch.last);
          policy_.make(run, {begin, static_cast<std::size_t>(end - begin)}, work, mine);
        } while (!run.watch.stopped() && !is_late(run, end));
      } catch (...) {
        run.watch.failed();
      }
      part = mine;
    });
    Progress progress;
    for (const Progress& part : parts) progress += part;
    progress.visits = std::min(next.load(), run.stretch.last) - run.stretch.first;
    return progress;
  }

  // Batches that are made in one way: how many, since when, and how it ended, which member 0 tells.
  struct Portion {
    Offset n_batches;
    Stopwatch time;
    bool over = false, late = false;  // it has taken enough, and the run has
  };

  Progress together(const Run& run) {
    Progress progress;
    progress.loss = run.stretch.loss;
    for (Offset at = run.stretch.first; at < run.stretch.last && !run.watch.stopped();) {
      const ProcessorWatch of_processor;
      const Offset n_left = (run.stretch.last - at - 1) / settings_.batch + 1;
      const bool alone = settings_.n_threads == 1;
      Portion portion{alone ? n_left : std::min(n_left, pace_.n_pieces()), Stopwatch()};
      team(alone ? 1 : pace_.n_threads(), run, at, portion, progress);
      const Offset made = run.stretch.first + progress.visits - at;
      const Offset n_batches = (made + settings_.batch - 1) / settings_.batch;
      if (!alone) pace_.took(portion.time.seconds(), of_processor.seconds(), n_batches);
      if (portion.late) break;
      at += made;
    }
    return progress;
  }

  void team(int n_threads, const Run& run, Offset first, Portion& portion, Progress& progress) {
    run_team(n_threads, [&](Member me) {
      if constexpr (ByOwners<Policy>) {
        if (me.size() > 1) {
          policy_.draw(me, run, batch_at(run, first));
          me.barrier();
        }
      }
      for (Offset b = 0; b < portion.n_batches; ++b) {
        if (!batch(me, run, first, b, portion, progress)) break;
      }
    });
  }

  // Of no visits at the end of the stretch.
  Visits batch_at(const Run& run, Offset begin) const {
    const Offset size = std::clamp<Offset>(run.stretch.last - begin, 0, settings_.batch);
    return {begin, static_cast<std::size_t>(size)};
  }

  // Makes batch b of a portion from `first` on. False, for all members, where the run is stopped, or it or the portion
  // has taken its time.
  bool batch(Member me, const Run& run, Offset first, Offset b, Portion& portion, Progress& progress) {
    const Offset begin = first + b * settings_.batch;
    const Visits visits = batch_at(run, begin);
    std::exception_ptr error;  // told in look(): in score(), others may not have asked yet how the last batch ended
    if constexpr (ByOwners<Policy>) {
      if (me.size() > 1) {
        try {
          policy_.score(me, run, visits);
        } catch (...) {
          error = std::current_exception();
        }
        me.barrier();
      }
    }
    try {
      if (error) std::rethrow_exception(error);
      policy_.look(me, run, visits);
      if constexpr (ByOwners<Policy>) {
        if (me.size() > 1) policy_.draw(me, run, batch_at(run, begin + settings_.batch));
      }
    } catch (...) {
      run.watch.failed();
    }
    if (me.rank() == 0) {
      portion.late = is_late(run, begin + static_cast<Offset>(visits.size));
      portion.over = portion.late || (settings_.n_threads > 1 && pace_.is_enough(b + 1, portion.time.seconds()));
    }
    me.barrier();
    if (run.watch.stopped()) {  // it changes in look() only, so all members see the same
      if constexpr (Leaves<Policy>) {
        if (!run.watch.has_failed()) policy_.leave(me, run, visits);
      }
      return false;
    }
    const bool last = portion.over;  // written before this barrier, and not again before the next
    policy_.move(me, run, visits);
    if (me.rank() == 0) {
      policy_.account(visits, progress);
      progress.visits += static_cast<Offset>(visits.size);
    }
    if constexpr (!ByOwners<Policy>) me.barrier();
    if constexpr (Follows<Policy>) policy_.follow(me, visits);
    return !last;
  }

  Policy policy_;
  Settings settings_;
  Offset n_visits_;
  Pace pace_;
  VisitOrder order_;
};

}  // namespace manyclass
