// See sentences.hpp.
#include "manyclass/words/sentences.hpp"

#include <utility>

#include "manyclass/train/common/loop.hpp"
#include "manyclass/words/pair_targets.hpp"

namespace manyclass {

namespace {

// Pairs between the draw of a pair and its step: about as long as a miss in all caches takes.
constexpr std::size_t ahead = 2;
// Sentences that a thread takes at a time: enough to make the counter's cost vanish.
constexpr Offset sentences_at_a_time = 32;

// The policy of the loop.
template <class Targets>
class Sentences {
 public:
  Sentences(const SkipGramProblem& problem, const Settings& settings, Targets targets)
      : problem_(problem), settings_(settings), targets_(std::move(targets)) {}

  struct Work {
    std::vector<PairSlot> slots;  // a ring
    std::vector<Index> words, drawn;
  };

  Work work() const {
    Work work;
    for (std::size_t i = 0; i <= ahead; ++i) work.slots.emplace_back(targets_.capacity());
    return work;
  }

  Offset visits_at_a_time() const { return sentences_at_a_time; }

  void make(const Run& run, Visits visits, Work& work, Progress& progress) const {
    const auto first = static_cast<std::size_t>(visits.begin);
    run_with(settings_.isa, [&](Isa isa) {
      for (std::size_t s = first; s < first + visits.size; ++s) sentence(s, run.stretch, isa, work, progress);
    });
  }

 private:
  void sentence(std::size_t s, const Stretch& stretch, Isa isa, Work& work, Progress& progress) const {
    const SkipGramText& text = problem_.text;
    Rng rng({settings_.seed, static_cast<std::uint64_t>(stretch.pass)}, s);
    const std::size_t n = keep_words(text, s, rng, work.words);
    const double done = static_cast<double>(text.sentences[s]) / static_cast<double>(text.tokens.size());
    const auto eta = static_cast<float>(stretch.eta + done * (stretch.eta_end - stretch.eta));
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
        if (drawn - made > ahead) make(work.slots[made++ % (ahead + 1)], stretch, eta, isa, progress);
      }
    }
    while (made < drawn) make(work.slots[made++ % (ahead + 1)], stretch, eta, isa, progress);
    progress.tokens += text.sentences[s + 1] - text.sentences[s];
  }

  void make(PairSlot& slot, const Stretch& stretch, float eta, Isa isa, Progress& progress) const {
    problem_.output.scores(problem_.input, slot.centre, slot.rows, isa, slot.scores.data());
    if (targets_.coefficients(problem_, stretch, eta, isa, slot, progress)) {
      problem_.output.move(problem_.input, slot.centre, slot.rows, isa, slot.g.data());
    } else {
      ++progress.refused;
    }
    ++progress.pairs;
  }

  SkipGramProblem problem_;
  Settings settings_;
  Targets targets_;
};

template <class Targets>
std::unique_ptr<Trainer> trainer(const SkipGramProblem& problem, Settings settings, Targets targets) {
  settings.shuffle = false;  // the step size falls along the text
  settings.hogwild = true;
  return std::make_unique<Loop<Sentences<Targets>>>(Sentences<Targets>(problem, settings, std::move(targets)),
                                                    problem.text.n_sentences(), settings);
}

}  // namespace

std::unique_ptr<Trainer> negative_sampling_trainer(const SkipGramProblem& problem, const Settings& settings,
                                                   const AliasTable& noise, Index n_negatives, bool share) {
  return trainer(problem, settings, NegativeTargets{NoiseTable(noise), static_cast<std::size_t>(n_negatives), share});
}

std::unique_ptr<Trainer> hierarchical_trainer(const SkipGramProblem& problem, const Settings& settings,
                                              HuffmanTree tree) {
  return trainer(problem, settings, TreeTargets{std::move(tree)});
}

std::unique_ptr<Trainer> sampled_trainer(const SkipGramProblem& problem, const Settings& settings, Frequency select,
                                         std::unique_ptr<const PointStep> step, std::span<double> carried) {
  return trainer(problem, settings, SampledTargets{std::move(select), std::move(step), carried});
}

}  // namespace manyclass
