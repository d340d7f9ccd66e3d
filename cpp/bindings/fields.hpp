// Structs of the core, made of Python's keywords: each field has the name of its member, and an unknown or a missing
// one is an error that names it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/functions.hpp"
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

// Writes a value of Python's into the field of this name.
template <class Value>
void put(void* field, const std::string& name, py::handle value) {
  py::detail::make_caster<Value> caster;
  if (!caster.load(value, true)) {
    throw py::type_error(name + " is " + py::repr(value).template cast<std::string>() + "; it must be " +
                         kind_of(std::type_identity<Value>{}));
  }
  *static_cast<Value*>(field) = py::detail::cast_op<Value>(std::move(caster));
}

// A field of a struct whose type is not known here: where it stands in the struct, and what writes it.
struct Field {
  std::string name;
  bool needed;
  std::size_t offset;
  std::function<void(void* field, const std::string& name, py::handle value)> put;
};

// The fields of a struct by their names.
struct FieldList {
  std::string name;
  std::vector<Field> fields{};

  void write(void* made, const py::kwargs& keywords) const;
};

template <class Struct>
class Fields : public FieldList {
 public:
  explicit Fields(std::string struct_name) : FieldList{std::move(struct_name)} {}

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
  Fields& member_as(std::string_view field_name, bool needed) {
    fields.push_back({std::string(field_name), needed, offset_of(member), put_of(member)});
    return *this;
  }

  // The fields of a member that is a struct itself, beside those of this one.
  template <auto part>
  Fields& with(const FieldList& part_fields) {
    for (Field field : part_fields.fields) {
      field.offset += offset_of(part);
      fields.push_back(std::move(field));
    }
    return *this;
  }

  // A field that `put` writes into the struct.
  Fields& add(const std::string& field_name, bool needed, void (*put)(Struct&, py::handle)) {
    fields.push_back({field_name, needed, 0, [put](void* made, const std::string&, py::handle value) {
                        put(*static_cast<Struct*>(made), value);
                      }});
    return *this;
  }

  Struct of(const py::kwargs& keywords) const {
    Struct made{};
    write(&made, keywords);
    return made;
  }

 private:
  template <class Value, class Owner>
  static auto put_of(Value Owner::*) {
    return &put<Value>;
  }

  // Where the member stands in a struct, of which only the address is asked for.
  template <class Value, class Owner>
  static std::size_t offset_of(Value Owner::* member) {
    alignas(Struct) static char room[sizeof(Struct)];
    return static_cast<std::size_t>(reinterpret_cast<char*>(&(reinterpret_cast<Struct*>(room)->*member)) - room);
  }
};

// Adds to `_core.fields`, by the name of the struct or function, whether each field is needed.
void list_fields(Module& m, const FieldList& list);

// A class that Python makes of the fields; check(made) throws for what does not fit together.
template <class Struct, class Check>
void bind_struct(Module& m, const Fields<Struct>& fields, const Check& check) {
  list_fields(m, fields);
  Class<Struct>(m, fields.name.c_str())
      .def(constructor([fields, check](const py::kwargs& given) {
             Struct made = fields.of(given);
             check(made);
             return made;
           }),
           KeepAll());
}

// A function of one struct, made of keywords.
template <class Struct, class Function>
void bind_function(Module& m, const Fields<Struct>& fields, Function* function, const char* returns = "") {
  list_fields(m, fields);
  m.def(
      fields.name.c_str(), [fields, function](const py::kwargs& given) { return function(fields.of(given)); }, returns);
}

// A method of a class whose fields are named "Class.method".
template <class T, class Struct, class Function>
void bind_method(Module& m, Class<T>& of, const Fields<Struct>& fields, Function* function) {
  list_fields(m, fields);
  of.def(fields.name.substr(fields.name.find('.') + 1).c_str(),
         [fields, function](const T& self, const py::kwargs& given) { return function(self, fields.of(given)); });
}

inline Fields<LabelStepChoice> label_step_fields() {
  return Fields<LabelStepChoice>("LabelStepChoice")
      .takes<&LabelStepChoice::rule, &LabelStepChoice::reduction, &LabelStepChoice::formulation,
             &LabelStepChoice::rule_options>();
}

}  // namespace manyclass
