// What each bind_<stage>.cpp adds to the module.
#pragma once

#include <pybind11/pybind11.h>

namespace manyclass {

void bind_bounds(pybind11::module_& m);
void bind_choice(pybind11::module_& m);
void bind_interrupts(pybind11::module_& m);
void bind_io(pybind11::module_& m);
void bind_label_mixtures(pybind11::module_& m);
void bind_label_sets(pybind11::module_& m);
void bind_losses(pybind11::module_& m);
void bind_train(pybind11::module_& m);
void bind_weight_arrays(pybind11::module_& m);
void bind_weights(pybind11::module_& m);
void bind_output_layer(pybind11::module_& m);
void bind_utilities(pybind11::module_& m);
void bind_gradient(pybind11::module_& m);
void bind_math(pybind11::module_& m);
void bind_plans(pybind11::module_& m);
void bind_pairs(pybind11::module_& m);
void bind_probe(pybind11::module_& m);
void bind_parts(pybind11::module_& m);
void bind_registry(pybind11::module_& m);
void bind_search(pybind11::module_& m);
void bind_skip_gram(pybind11::module_& m);
void bind_word_pairs(pybind11::module_& m);

}  // namespace manyclass
