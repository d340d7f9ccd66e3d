// The facts of all parts, by kind, and of what may be set of them.
#include <pybind11/stl.h>

#include <cmath>

#include "bindings/module.hpp"
#include "manyclass/exact/full_batch_losses.hpp"
#include "manyclass/math/noise.hpp"
#include "manyclass/math/root.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/objective/label_loss.hpp"
#include "manyclass/step/schedule.hpp"
#include "manyclass/train/common/setting_facts.hpp"
#include "manyclass/train/minibatches/class_source.hpp"
#include "manyclass/train/minibatches/label_steps.hpp"
#include "manyclass/train/points/batch_prox.hpp"
#include "manyclass/train/points/plan.hpp"

namespace manyclass {

namespace {

namespace py = pybind11;

py::dict dict_of(const Parameter& parameter) {
  py::dict dict;
  dict["name"] = parameter.name;
  dict["default"] = parameter.initial;
  dict["low"] = parameter.low;
  dict["high"] = parameter.high;
  dict["open_low"] = parameter.open_low;
  dict["sentence"] = parameter.sentence;
  return dict;
}

py::dict dict_of(const char* kind, const Facts& facts) {
  py::list flags, parameters;
  for (const std::string_view flag : facts.flags) flags.append(flag);
  for (const Parameter& parameter : facts.parameters) parameters.append(dict_of(parameter));
  py::dict dict;
  dict["kind"] = kind;
  dict["name"] = facts.name;
  dict["sentence"] = facts.sentence;
  dict["source"] = facts.source;
  dict["biased"] = facts.biased;
  dict["flags"] = flags;
  dict["parameters"] = parameters;
  return dict;
}

py::dict dict_of(const Setting& setting) {
  const auto end = [&](double value) -> py::object {
    if (setting.kind == "integer" && std::isfinite(value)) return py::int_(static_cast<int>(value));
    return py::float_(value);
  };
  py::dict dict;
  dict["of"] = setting.of;
  dict["name"] = setting.name;
  dict["default"] = setting.initial;
  dict["sentence"] = setting.sentence;
  dict["kind"] = setting.kind;
  dict["choices"] = setting.choices;
  dict["beside"] = setting.beside;
  dict["low"] = end(setting.low);
  dict["high"] = end(setting.high);
  dict["open_low"] = setting.open_low;
  dict["needs"] = setting.needs;
  return dict;
}

py::list all_settings() {
  py::list all;
  for (const Setting& setting : setting_facts) all.append(dict_of(setting));
  return all;
}

py::list registry() {
  py::list all;
  const auto add = [&](const char* kind, std::span<const Facts> parts) {
    for (const Facts& facts : parts) all.append(dict_of(kind, facts));
  };
  add("solver", solver_facts());
  add("selection", selection_facts);
  add("schedule", schedule_facts);
  add("noise", noise_facts);
  add("local_step", local_step_facts);
  add("local_family", local_family_facts);
  add("label_loss", Alternatives<LabelLoss>::facts);
  add("full_batch_loss", FullBatchLosses::facts);
  add("formulation", formulation_facts);
  add("root", root_finder_facts);
  add("partition", partition_facts);
  add("source", class_source_facts);
  add("reduction", reduction_facts);
  add("label_solver", label_solver_facts());
  return all;
}

}  // namespace

void bind_registry(Module& m) {
  m.def("registry", &registry, "Facts of every part: kind, name, sentence, source, biased, flags, parameters.");
  m.def("settings", &all_settings, "What may be set of parts beside the numbers that each owns.");
}

}  // namespace manyclass
