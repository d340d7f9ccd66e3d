// Choice models: one pass over choosers and their alternatives, and alternatives drawn.
#include "bindings/fields.hpp"
#include "bindings/module.hpp"
#include "manyclass/choice/draws.hpp"
#include "manyclass/choice/sums.hpp"

namespace manyclass {

namespace {

struct SumsCall {
  ChoiceQuestion question;
  ChoiceSums sums;
};

Fields<SumsCall> sums_fields() {
  Fields<ChoiceRows> rows("ChoiceRows");
  rows.needs<&ChoiceRows::n_rows, &ChoiceRows::constants, &ChoiceRows::tastes, &ChoiceRows::features,
             &ChoiceRows::n_features>();
  rows.takes<&ChoiceRows::indptr, &ChoiceRows::alternatives, &ChoiceRows::pair_features, &ChoiceRows::pair_coef,
             &ChoiceRows::offsets, &ChoiceRows::listed_only, &ChoiceRows::own_tastes>();
  Fields<ChoiceModel> model("ChoiceModel");
  model.takes<&ChoiceModel::model, &ChoiceModel::nests, &ChoiceModel::dissimilarity, &ChoiceModel::log_normalizers>();
  Fields<ChoiceQuestion> question("ChoiceQuestion");
  question.takes<&ChoiceQuestion::chosen, &ChoiceQuestion::weights, &ChoiceQuestion::isa>();
  question.needs<&ChoiceQuestion::n_threads>();
  question.with<&ChoiceQuestion::rows>(rows).with<&ChoiceQuestion::model>(model);
  Fields<ChoiceSums> sums("ChoiceSums");
  sums.takes<&ChoiceSums::losses, &ChoiceSums::inclusive_values, &ChoiceSums::taste_gradient,
             &ChoiceSums::pair_gradient, &ChoiceSums::constant_gradient, &ChoiceSums::nest_gradient,
             &ChoiceSums::probabilities, &ChoiceSums::covariances>();
  return Fields<SumsCall>("choice_sums").with<&SumsCall::question>(question).with<&SumsCall::sums>(sums);
}

void sums_of(const SumsCall& call) {
  released([&] { choice_sums(call.question, call.sums); });
}

Fields<ChoiceDraws> draws_fields() {
  Fields<ChoiceDraws> fields("draw_choice_sets");
  fields.needs<&ChoiceDraws::rows, &ChoiceDraws::chosen, &ChoiceDraws::n_alternatives, &ChoiceDraws::n_draws,
               &ChoiceDraws::seed, &ChoiceDraws::epoch, &ChoiceDraws::n_threads>();
  fields.takes<&ChoiceDraws::begins, &ChoiceDraws::ends, &ChoiceDraws::alternatives, &ChoiceDraws::past,
               &ChoiceDraws::shares, &ChoiceDraws::share>();
  return fields;
}

auto drawn(const ChoiceDraws& draws) {
  const DrawnSets sets = released([&] { return draw_choice_sets(draws); });
  return std::tuple(array_of(sets.indptr), array_of(sets.alternatives), array_of(sets.log_weights),
                    array_of(sets.places));
}

}  // namespace

void bind_choice(py::module_& m) {
  bind_function(m, sums_fields(), sums_of);
  bind_function(m, draws_fields(), drawn);
}

}  // namespace manyclass
