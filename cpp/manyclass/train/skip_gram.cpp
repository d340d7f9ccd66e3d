// See skip_gram.hpp.
#include "manyclass/train/skip_gram.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "manyclass/core/parallel.hpp"
#include "manyclass/train/skip_gram_targets.hpp"

namespace manyclass {

namespace {

// Pairs between the draw of a pair and its step: about as long as a miss in all caches takes.
constexpr std::size_t ahead = 2;
// Sentences that a thread takes at a time: enough to make the counter's cost vanish.
constexpr std::size_t sentences_at_a_time = 32;

template <class Targets>
class SkipGramLoop final : public SkipGramTrainer {
 public:
  SkipGramLoop(const SkipGramProblem& problem, const SkipGramSettings& settings, Targets targets)
      : problem_(problem), settings_(settings), targets_(std::move(targets)) {}

  SkipGramProgress run(const SkipGramStretch& stretch) override {
    std::vector<SkipGramProgress> parts(static_cast<std::size_t>(settings_.n_threads));
    std::atomic<std::size_t> next{stretch.first};
    run_team(settings_.n_threads, [&](Member me) {
      SkipGramProgress progress;
      Work work(targets_.capacity());
      for (std::size_t s = next.fetch_add(sentences_at_a_time); s < stretch.last;
           s = next.fetch_add(sentences_at_a_time)) {
        const std::size_t end = std::min(s + sentences_at_a_time, stretch.last);
        run_with(settings_.isa, [&] {
          for (std::size_t i = s; i < end; ++i) sentence(i, stretch, work, progress);
        });
      }
      parts[static_cast<std::size_t>(me.rank())] = progress;
    });
    SkipGramProgress all;
    for (const SkipGramProgress& part : parts) {
      all.tokens += part.tokens;
      all.pairs += part.pairs;
      all.loss += part.loss;
      all.loss_pairs += part.loss_pairs;
      all.refused += part.refused;
    }
    return all;
  }

 private:
  struct Work {
    explicit Work(std::size_t capacity) {
      for (std::size_t i = 0; i <= ahead; ++i) slots.emplace_back(capacity);
    }
    std::vector<PairSlot> slots;  // a ring
    std::vector<Index> words, drawn;
  };

  void sentence(std::size_t s, const SkipGramStretch& stretch, Work& work, SkipGramProgress& progress) const {
    const SkipGramText& text = problem_.text;
    Rng rng({settings_.seed, static_cast<std::uint64_t>(stretch.pass)}, s);
    const std::size_t n = keep_words(text, s, rng, work.words);
    const double done = static_cast<double>(text.sentences[s]) / static_cast<double>(text.tokens.size());
    const auto eta = static_cast<float>(stretch.eta_begin + done * (stretch.eta_end - stretch.eta_begin));
    const auto reach = static_cast<std::uint32_t>(text.window);

    std::size_t drawn = 0, made = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Window window = window_around(i, text.shrink ? 1 + rng.below(reach) : reach, n);
      bool new_centre = true;
      for (std::size_t j = window.begin; j < window.end; ++j) {
        if (j == i) continue;
        PairSlot& slot = work.slots[drawn++ % (ahead + 1)];
        slot.centre = work.words[i];
        targets_.draw(rng, work.words[j], new_centre, work.drawn, slot);
        new_centre = false;
        for (const Index k : slot.rows) problem_.output.prefetch(k);
        if (drawn - made > ahead) make(work.slots[made++ % (ahead + 1)], stretch, eta, progress);
      }
    }
    while (made < drawn) make(work.slots[made++ % (ahead + 1)], stretch, eta, progress);
    progress.tokens += text.sentences[s + 1] - text.sentences[s];
  }

  void make(PairSlot& slot, const SkipGramStretch& stretch, float eta, SkipGramProgress& progress) const {
    problem_.output.scores(problem_.input, slot.centre, slot.rows, slot.scores.data());
    if (targets_.coefficients(problem_, stretch, eta, slot, progress)) {
      problem_.output.move(problem_.input, slot.centre, slot.rows, slot.g.data());
    } else {
      ++progress.refused;
    }
    ++progress.pairs;
  }

  SkipGramProblem problem_;
  SkipGramSettings settings_;
  Targets targets_;
};

template <class Targets>
std::unique_ptr<SkipGramTrainer> trainer(const SkipGramProblem& problem, const SkipGramSettings& settings,
                                         Targets targets) {
  return std::make_unique<SkipGramLoop<Targets>>(problem, settings, std::move(targets));
}

}  // namespace

std::unique_ptr<SkipGramTrainer> negative_sampling_trainer(const SkipGramProblem& problem,
                                                           const SkipGramSettings& settings, const AliasTable& noise,
                                                           Index n_negatives, bool share) {
  return trainer(problem, settings, NegativeTargets{NoiseTable(noise), static_cast<std::size_t>(n_negatives), share});
}

std::unique_ptr<SkipGramTrainer> hierarchical_trainer(const SkipGramProblem& problem, const SkipGramSettings& settings,
                                                      HuffmanTree tree) {
  return trainer(problem, settings, TreeTargets{std::move(tree)});
}

std::unique_ptr<SkipGramTrainer> sampled_trainer(const SkipGramProblem& problem, const SkipGramSettings& settings,
                                                 Frequency select, std::unique_ptr<const PointStep> step,
                                                 std::span<double> carried) {
  return trainer(problem, settings, SampledTargets{std::move(select), std::move(step), carried, settings.isa});
}

}  // namespace manyclass
