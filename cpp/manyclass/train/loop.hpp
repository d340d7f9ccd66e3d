// The one training loop: the order of visits, teams of threads, batches, the watch for divergence, sums of progress.
//
// A policy says what a visit does, in one or both of two ways. `Alone`: a thread takes some visits at a time and makes
// them one after the other. One thread makes plain SGD; several race on the weights by Hogwild, which is accepted: a
// lost update costs one step, and scores are never torn, since a float is written at once (tests/cpp/hogwild.supp names
// the functions that race). `Together`: a team looks at the visits of a batch at the same weights, then each thread
// moves its own part of the weights by all of them, in their order. The result is the same for any number of threads.
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
#include "manyclass/core/parallel.hpp"
#include "manyclass/core/rng.hpp"
#include "manyclass/train/trainer.hpp"

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

// All threads call each with the same visits, and all have ended look() before the first calls move(), and move()
// before follow(). look() changes no weights and is not followed by the others where the run is stopped; move() changes
// what belongs to `me`. account(), called by one thread beside move() of the others, adds to `progress`.
template <class P>
concept Together = requires(P policy, Member me, const Run& run, Visits visits, Progress& progress) {
  policy.look(me, run, visits);
  policy.move(me, run, visits);
  policy.account(visits, progress);
  policy.follow(me, visits);
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
    if constexpr (!Alone<Policy>) {
      progress = together(run);
    } else if constexpr (!Together<Policy>) {
      progress = alone(run);
    } else {
      progress = settings_.batch > 1 && !settings_.hogwild ? together(run) : alone(run);
    }
    progress.diverged_at = watch.outcome();
    return progress;
  }

 private:
  Progress alone(const Run& run) {
    std::vector<Progress> parts(static_cast<std::size_t>(settings_.hogwild ? settings_.n_threads : 1));
    parts.front().loss = run.stretch.loss;
    const Offset at_a_time = policy_.visits_at_a_time();
    std::atomic<Offset> next{run.stretch.first};
    share_out(static_cast<int>(parts.size()), [&](int rank) {
      Progress& part = parts[static_cast<std::size_t>(rank)];
      Progress mine = part;  // on this thread's stack: parts share cache lines
      try {
        typename Policy::Work work = policy_.work();
        do {
          const Offset begin = next.fetch_add(at_a_time);
          if (begin >= run.stretch.last) break;
          const auto size = static_cast<std::size_t>(std::min(at_a_time, run.stretch.last - begin));
          policy_.make(run, {begin, size}, work, mine);
        } while (!run.watch.stopped() && !run.deadline.passed());
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

  Progress together(const Run& run) {
    Progress progress;
    progress.loss = run.stretch.loss;
    bool late = false;
    run_team(settings_.n_threads, [&](Member me) {
      for (Offset begin = run.stretch.first; begin < run.stretch.last; begin += settings_.batch) {
        const auto size = static_cast<std::size_t>(std::min<Offset>(settings_.batch, run.stretch.last - begin));
        if (!batch(me, run, {begin, size}, late, progress)) break;
      }
    });
    return progress;
  }

  // False, for all members, where the run is stopped or has taken its time.
  bool batch(Member me, const Run& run, Visits visits, bool& late, Progress& progress) {
    if (me.rank() == 0) late = run.deadline.passed();
    try {
      policy_.look(me, run, visits);
    } catch (...) {
      run.watch.failed();
    }
    me.barrier();
    if (run.watch.stopped()) return false;  // it changes in look() only, so all members see the same
    const bool last = late;                 // written before this barrier, and not again before the next
    policy_.move(me, run, visits);
    if (me.rank() == 0) {
      policy_.account(visits, progress);
      progress.visits += static_cast<Offset>(visits.size);
    }
    me.barrier();
    policy_.follow(me, visits);
    return !last;
  }

  Policy policy_;
  Settings settings_;
  Offset n_visits_;
  VisitOrder order_;
};

}  // namespace manyclass
