// The extension module manyclass._core: one bind_<stage>.cpp per stage of the flow.
#include "bindings/module.hpp"

#include "bindings/arrays.hpp"
#include "manyclass/core/isa.hpp"
#include "manyclass/core/parallel.hpp"

namespace manyclass {

PYBIND11_MODULE(_core, module) {
  Module m(module);
  m.doc() = "The C++ core of manyclass: views in, arrays out. Internal; its functions may change at any time.";
  m.def("best_isa", [] { return name_of(best_isa()); }, "Widest instruction set of this processor that is used.");
  m.def("most_threads", most_threads, "The most threads that OpenMP gives to a team of the calling thread.");
  m.def(
      "team_size",
      [](int n_threads) {
        int size = 0;
        run_team(n_threads, [&size](Member me) {
          if (me.rank() == 0) size = me.size();
        });
        return size;
      },
      py::arg("n_threads"),
      "Return how many threads a team gets that asks for n_threads, under the limits of this moment.");
  m.def("by_openmp", by_openmp, "Whether the package was built with OpenMP.");
  bind_registry(m);
  bind_interrupts(m);
  bind_io(m);
  bind_train(m);
  bind_weight_arrays(m);
  bind_weights(m);
  bind_label_mixtures(m);
  bind_output_layer(m);
  bind_utilities(m);
  bind_bounds(m);
  bind_choice(m);
  bind_gradient(m);
  bind_label_sets(m);
  bind_losses(m);
  bind_mixed(m);
  bind_plans(m);
  bind_pairs(m);
  bind_probe(m);
  bind_search(m);
  bind_skip_gram(m);
  bind_word_pairs(m);
}

}  // namespace manyclass
