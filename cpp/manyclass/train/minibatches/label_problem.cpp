// Checks of a problem of points with several labels, and its source of classes by name: see labels.hpp.
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "manyclass/train/minibatches/labels.hpp"

namespace manyclass {

namespace {

// What a source draws by; see sampled_source.
AnySelect label_selection(const SourceChoice& choice, const LabelProblem& problem, bool share) {
  const Facts& facts = selection_facts[place_of("selection", choice.selection, selection_facts)];
  if (facts.has(flag::heads)) throw std::invalid_argument("selection '" + choice.selection + "' has no heads here");
  check_options(choice.options, {&facts, 1}, "selection '" + choice.selection + "'");
  SelectArguments arguments{static_cast<Index>(problem.classes.size()), choice.n_negatives, problem.labels.ids, share};
  arguments.options = choice.options;
  arguments.counts = problem.counts;
  return select_named(choice.selection, arguments);
}

template <class AnyIndex>
SearchOptions search_options(const SourceChoice& choice, const LabelProblem& problem, const AnyIndex& index) {
  const SearchOptions options{static_cast<std::size_t>(choice.budget), static_cast<std::size_t>(choice.n_probe),
                              choice.fill};
  if (index.n_rows() != problem.classes.size() || index.n_features() != problem.map.n_columns() || choice.n_probe < 1 ||
      options.n_probe > index.n_clusters() || choice.budget < 1 || options.budget > index.n_rows()) {
    throw std::invalid_argument("the index does not fit the classes or the options");
  }
  return options;
}

template <class AnyIndex>
AnyIndex& index_of(const SourceChoice& choice) {
  AnyIndex* const* index = std::get_if<AnyIndex*>(&choice.index);
  if (index == nullptr) throw std::invalid_argument("source '" + choice.source + "' needs an index of its kind");
  return **index;
}

std::unique_ptr<ClassSource> class_source(const SourceChoice& choice, const LabelProblem& problem,
                                          const SourceSettings& settings, bool share) {
  const std::string& name = choice.source;
  if (settings.step != nullptr) {
    if (problem.local.empty()) throw std::invalid_argument("steps of the double sum need a number for each point");
    if (name != "exact" && name != "sampled") {
      throw std::invalid_argument("source is '" + name + "'; steps of the double sum need 'exact' or 'sampled'");
    }
  }
  if (name == "exact") return all_classes_source(settings);
  if (name == "sampled") {
    return sampled_source(settings, label_selection(choice, problem, share), choice.log_alpha, share);
  }
  if (problem.classes.by_feature() && name != "exact" && name != "sampled") {
    throw std::invalid_argument("source is '" + name + "'; rows of features need 'exact' or 'sampled'");
  }
  if (name == "mips") {
    auto& index = index_of<ClusterIndex>(choice);
    return searched_source(settings, index, search_options(choice, problem, index));
  }
  if (name == "decomposed" || name == "messages") {
    auto& index = index_of<DecomposedIndex>(choice);
    const auto messages = name == "messages" ? std::optional(choice.messages) : std::nullopt;
    return decomposed_source(settings, index, search_options(choice, problem, index), messages);
  }
  place_of("source", name, class_source_facts);  // throws, as it is none of these
  return nullptr;
}

}  // namespace

void check(const LabelProblem& problem) {
  const FeatureMap& map = problem.map;
  const auto n = static_cast<std::size_t>(n_cols(map.x)) + (map.centre.empty() ? 0 : 1);
  const std::size_t n_features = map.learns() ? map.embeddings.size() : map.n_hidden;
  const bool by_feature = problem.classes.by_feature();
  if (map.n_hidden < 1 || (!by_feature && map.n_columns() > problem.classes.width()) || n_features != n) {
    throw std::invalid_argument("the features, the embeddings and the classes do not fit each other");
  }
  if (!map.centre.empty() && (map.centre.size() != n || !std::holds_alternative<DenseView>(map.x))) {
    throw std::invalid_argument("a centre has one number more than dense points have features");
  }
  if (by_feature && (map.learns() || !std::holds_alternative<CsrView>(map.x))) {
    throw std::invalid_argument("rows of features need sparse points and no embeddings");
  }
  if (!problem.weights.empty() && problem.weights.size() != map.n_points()) {
    throw std::invalid_argument("sample_weight does not have a number for each point");
  }
  if (!problem.local.empty() && problem.local.size() != map.n_points()) {
    throw std::invalid_argument("local does not have a number for each point");
  }
  if (!problem.counts.empty() && problem.counts.size() != problem.classes.size()) {
    throw std::invalid_argument("counts do not have a number for each class");
  }
  if (!(problem.embedding_ridge > 0) || !std::isfinite(problem.embedding_ridge)) {
    throw std::invalid_argument("embedding_ridge is not a positive number");
  }
  const Excluded& labels = problem.labels;
  check(labels, map.n_points(), problem.classes.size(), "labels");
  for (std::size_t i = 0; i < map.n_points(); ++i) {
    if (labels.of(i).empty()) throw std::invalid_argument("a point has no label");
  }
}

std::unique_ptr<Trainer> label_trainer(const LabelProblem& problem, const LabelPlan& plan) {
  const Settings& loop = plan.settings;
  SourceSettings settings{problem.classes, problem.map.n_columns(), label_loss(plan.loss, plan.smoothing),
                          plan.implicit,   loop.n_threads,          loop.isa};
  if (!plan.step.rule.empty()) {
    settings.step = label_step(plan.step);
    settings.local_step = plan.local_step;
  }
  return label_trainer(problem, class_source(plan.source, problem, settings, loop.share_classes), loop);
}

}  // namespace manyclass
