// What each bind_<stage>.cpp adds to the module.
#pragma once

#include "bindings/functions.hpp"

namespace manyclass {

void bind_bounds(Module& m);
void bind_choice(Module& m);
void bind_interrupts(Module& m);
void bind_io(Module& m);
void bind_label_mixtures(Module& m);
void bind_label_sets(Module& m);
void bind_losses(Module& m);
void bind_mixed(Module& m);
void bind_train(Module& m);
void bind_weight_arrays(Module& m);
void bind_weights(Module& m);
void bind_output_layer(Module& m);
void bind_utilities(Module& m);
void bind_gradient(Module& m);
void bind_plans(Module& m);
void bind_pairs(Module& m);
void bind_probe(Module& m);
void bind_registry(Module& m);
void bind_search(Module& m);
void bind_skip_gram(Module& m);
void bind_word_pairs(Module& m);

}  // namespace manyclass
