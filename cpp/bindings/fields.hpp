// Structs of the core, made of Python's keywords: each field has the name of its member, and an unknown or a missing one
// is an error that names it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "manyclass/train/minibatches/label_steps.hpp"

namespace manyclass {

// The name of a struct's member, as the compiler spells a pointer to it: GCC ends this text by "member =
// &manyclass::Plan::solver; ...]", Clang by "member = &manyclass::Plan::solver]".
template <auto member>
constexpr std::string_view name_of() {
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::size_t end = text.find_first_of(";]", text.find("member = "));
  constexpr std::size_t begin = text.rfind("::", end) + 2;
  return text.substr(begin, end - begin);
}

// What a value must be, for messages.
template <class Value>
std::string kind_of(std::type_identity<Value>) {
  if constexpr (std::is_same_v<Value, bool>) return "True or False";
  if constexpr (std::is_integral_v<Value>) return "an integer in its range";
  if constexpr (std::is_floating_point_v<Value>) return "a number";
  if constexpr (std::is_same_v<Value, std::string> || std::is_same_v<Value, Isa>) return "a string";
  return "of the core's type for it";
}
template <class T>
std::string kind_of(std::type_identity<std::span<T>>) {
  return "a contiguous array of " + py::str(py::dtype::of<std::remove_const_t<T>>()).template cast<std::string>();
}
template <class T>
std::string kind_of(std::type_identity<Matrix<T>>) {
  return kind_of(std::type_identity<std::span<T>>{});
}

// Writes a value of Python's into the field of this name.
template <class Value>
void put(Value& field, const std::string& name, py::handle value) {
  py::detail::make_caster<Value> caster;
  if (!caster.load(value, true)) {
    throw py::type_error(name + " is " + py::repr(value).template cast<std::string>() + "; it must be " +
                         kind_of(std::type_identity<Value>{}));
  }
  field = py::detail::cast_op<Value>(std::move(caster));
}

template <class Struct>
class Fields {
 public:
  struct Field {
    std::string name;
    bool needed;
    std::function<void(Struct&, py::handle)> put;
  };

  explicit Fields(std::string name) : name_(std::move(name)) {}

  // Fields that must be given.
  template <auto... member>
  Fields& needs() {
    return (member_as<member>(name_of<member>(), true), ...);
  }

  // Fields that keep the struct's own value where they are not given, or are None.
  template <auto... member>
  Fields& takes() {
    return (member_as<member>(name_of<member>(), false), ...);
  }

  // A field that has another name than its member.
  template <auto member>
  Fields& member_as(std::string_view name, bool needed) {
    return add(std::string(name), needed,
               [own = std::string(name)](Struct& made, py::handle value) { manyclass::put(made.*member, own, value); });
  }

  // The fields of a member that is a struct itself, beside those of this one.
  template <auto part, class Part>
  Fields& with(const Fields<Part>& fields) {
    for (const auto& field : fields.all()) {
      add(field.name, field.needed, [put = field.put](Struct& made, py::handle value) { put(made.*part, value); });
    }
    return *this;
  }

  // A field that `put` writes into the struct.
  Fields& add(std::string name, bool needed, std::function<void(Struct&, py::handle)> put) {
    fields_.push_back({std::move(name), needed, std::move(put)});
    return *this;
  }

  const std::string& name() const { return name_; }
  const std::vector<Field>& all() const { return fields_; }

  Struct of(const py::kwargs& given) const {
    Struct made{};
    std::size_t n_known = 0;
    for (const Field& field : fields_) {
      const py::str key(field.name);
      if (given.contains(key)) {
        ++n_known;
        if (field.needed || !given[key].is_none()) field.put(made, given[key]);
      } else if (field.needed) {
        throw py::type_error(name_ + " needs '" + field.name + "'");
      }
    }
    if (n_known < given.size()) refuse_unknown(given);
    return made;
  }

 private:
  void refuse_unknown(const py::kwargs& given) const {
    std::string known;
    for (const Field& field : fields_) known.append(known.empty() ? "'" : ", '").append(field.name).append("'");
    for (const std::pair<py::handle, py::handle> item : given) {
      const auto name = item.first.cast<std::string>();
      if (known.find("'" + name + "'") != std::string::npos) continue;
      throw py::type_error(name_ + " has no '" + name + "'; it has " + known);
    }
  }

  std::string name_;
  std::vector<Field> fields_;
};

// Adds to `_core.fields`, by the name of the struct or function, whether each field is needed.
template <class Struct>
void list_fields(py::module_& m, const Fields<Struct>& fields) {
  if (!py::hasattr(m, "fields")) m.attr("fields") = py::dict();
  py::dict listed;
  for (const auto& field : fields.all()) listed[py::str(field.name)] = field.needed;
  m.attr("fields")[py::str(fields.name())] = listed;
}

// A class that Python makes of the fields; check(made) throws for what does not fit together.
template <class Struct, class Check>
void bind_struct(py::module_& m, const Fields<Struct>& fields, const Check& check) {
  list_fields(m, fields);
  py::class_<Struct>(m, fields.name().c_str())
      .def(py::init([fields, check](const py::kwargs& given) {
             Struct made = fields.of(given);
             check(made);
             return made;
           }),
           KeepAll());
}

// A function of one struct, made of keywords.
template <class Struct, class Function>
void bind_function(py::module_& m, const Fields<Struct>& fields, Function* function, const char* returns = "") {
  list_fields(m, fields);
  m.def(
      fields.name().c_str(), [fields, function](const py::kwargs& given) { return function(fields.of(given)); },
      returns);
}

// A method of a class whose fields are named "Class.method".
template <class Class, class Struct, class Function>
void bind_method(py::module_& m, py::class_<Class>& of, const Fields<Struct>& fields, Function* function) {
  list_fields(m, fields);
  of.def(fields.name().substr(fields.name().find('.') + 1).c_str(),
         [fields, function](const Class& self, const py::kwargs& given) { return function(self, fields.of(given)); });
}

inline Fields<LabelStepChoice> label_step_fields() {
  return Fields<LabelStepChoice>("LabelStepChoice")
      .takes<&LabelStepChoice::rule, &LabelStepChoice::reduction, &LabelStepChoice::formulation,
             &LabelStepChoice::rule_options>();
}

}  // namespace manyclass
