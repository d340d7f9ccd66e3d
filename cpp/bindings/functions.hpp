// Functions and classes for Python: `def` as pybind11 has it, in a fraction of its time to compile, since what reads an
// argument is compiled once for each type and not for each function.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"

namespace manyclass {

// What Python calls: its parameters, and the object of C++ that answers, which lives as long as the process.
struct PythonFunction {
  struct Parameter {
    py::str name;
    py::object initial;  // none: it must be given
    bool converts = true;
  };

  std::string name;
  void* answers = nullptr;
  std::vector<Parameter> parameters{};
  std::size_t n_by_position = static_cast<std::size_t>(-1);  // the parameters behind them must be named
  bool has_fields = false;                                   // reads keywords of other names itself
  bool keeps_all = false;
  std::string text{};
};

// What `def` is told of a function beside its name: a parameter, a mark, or a text.
struct Note {
  Note(const py::arg& given) : parameter(&given) {}                           // NOLINT: py::arg and others are notes
  Note(const py::arg_v& given) : parameter(&given), initial(&given.value) {}  // NOLINT
  Note(py::kw_only) : names_follow(true) {}                                   // NOLINT
  Note(KeepAll) : keeps_all(true) {}                                          // NOLINT
  Note(const char* given) : text(given) {}                                    // NOLINT

  const py::arg* parameter = nullptr;
  const py::object* initial = nullptr;
  bool names_follow = false, keeps_all = false;
  const char* text = nullptr;
};
using Notes = std::initializer_list<Note>;

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

// The objects that Python gives for the parameters, in their order, and the keywords beside them.
struct PythonCall {
  const PythonFunction& function;
  std::vector<py::handle> arguments{};
  py::kwargs fields{};

  PythonCall(const PythonFunction& called, const py::args& args, const py::kwargs& keywords);
  [[noreturn]] void refuse(std::size_t i, const std::string& kind) const;
};

using Answer = py::object (*)(const PythonCall&);
using Construct = void (*)(const PythonCall&, py::detail::value_and_holder&);

// `answers` is the object that answer() or construct() calls.
py::cpp_function python_function(const char* name, void* answers, Answer answer, bool has_fields, py::handle scope,
                                 bool is_method, Notes notes);
py::cpp_function python_constructor(void* answers, Construct construct, bool has_fields, py::handle scope, Notes notes);

// An argument as its parameter takes it.
template <class P>
class Argument {
 public:
  Argument(const PythonCall& call, std::size_t i) { load(call, i); }
  decltype(auto) get() { return py::detail::cast_op<P>(std::move(caster_)); }

 private:
  void load(const PythonCall& call, std::size_t i) {
    if (!caster_.load(call.arguments[i], call.function.parameters[i].converts)) {
      call.refuse(i, kind_of(std::type_identity<std::remove_cvref_t<P>>{}));
    }
  }

  py::detail::make_caster<P> caster_;
};

template <>
class Argument<const py::kwargs&> {
 public:
  Argument(const PythonCall& call, std::size_t) : fields_(call.fields) {}
  const py::kwargs& get() const { return fields_; }

 private:
  const py::kwargs& fields_;
};

// The parameters of what answers; members have the object of a class before them.
template <class... P>
struct ParameterTypes {
  static constexpr bool have_fields = (false || ... || std::is_same_v<P, const py::kwargs&>);

  template <class F>
  static decltype(auto) apply(F& f, const PythonCall& call) {
    return apply(f, call, std::index_sequence_for<P...>{});
  }
  template <class F, std::size_t... i>
  static decltype(auto) apply(F& f, const PythonCall& call, std::index_sequence<i...>) {
    return std::invoke(f, Argument<P>(call, i).get()...);
  }
};

template <class Object, class F>
struct ParametersOf : ParametersOf<void, decltype(&F::operator())> {};
template <class Object, class R, class... A>
struct ParametersOf<Object, R (*)(A...)> : std::type_identity<ParameterTypes<A...>> {};
template <class Object, class C, class R, class... A>
struct ParametersOf<Object, R (C::*)(A...)> : std::type_identity<ParameterTypes<Object&, A...>> {};
template <class Object, class C, class R, class... A>
struct ParametersOf<Object, R (C::*)(A...) const> : std::type_identity<ParameterTypes<const Object&, A...>> {};
template <class C, class R, class... A>
struct ParametersOf<void, R (C::*)(A...) const> : std::type_identity<ParameterTypes<A...>> {};

template <class Object, class F>
py::object answer(const PythonCall& call) {
  using Types = typename ParametersOf<Object, F>::type;
  auto& f = *static_cast<F*>(call.function.answers);
  using R = decltype(Types::apply(f, call));
  if constexpr (std::is_void_v<R>) {
    Types::apply(f, call);
    return py::none();
  } else if constexpr (std::is_base_of_v<py::object, R>) {
    return Types::apply(f, call);
  } else {
    return py::cast(Types::apply(f, call));
  }
}

template <class Object, class F>
py::cpp_function made_function(const char* name, F f, py::handle scope, bool is_method, Notes notes) {
  if constexpr (std::is_empty_v<F> && requires { +f; }) {  // a pointer: one instance for each type
    return made_function<Object>(name, +f, scope, is_method, notes);
  } else {
    return python_function(name, new F(std::move(f)), &answer<Object, F>, ParametersOf<Object, F>::type::have_fields,
                           scope, is_method, notes);
  }
}

// A constructor: of the values of these types, or by a function.
template <class F>
struct Init {
  F f;
};
template <class F>
Init<F> constructor(F f) {
  return {std::move(f)};
}
template <class... A>
struct InitBy {};
template <class... A>
InitBy<A...> constructor() {
  return {};
}

template <class T, class F>
void construct(const PythonCall& call, py::detail::value_and_holder& object) {
  auto made = ParametersOf<void, F>::type::apply(*static_cast<F*>(call.function.answers), call);
  if constexpr (std::is_same_v<decltype(made), T>) {
    object.value_ptr() = new T(std::move(made));
  } else {
    object.value_ptr() = made.release();
  }
}

// A module, and a class T in one.
class Module : public py::module_ {
 public:
  explicit Module(const py::module_& m) : py::module_(m) {}

  template <class F>
  Module& def(const char* name, F f, const auto&... notes) {
    attr(name) = made_function<void>(name, std::move(f), *this, false, {notes...});
    return *this;
  }
};

template <class T>
class Class : public py::class_<T> {
 public:
  Class(const Module& m, const char* name) : py::class_<T>(m, name) {}
  explicit Class(const py::object& known) : py::class_<T>(known) {}

  template <class F>
  Class& def(const char* name, F f, const auto&... notes) {
    this->attr(name) = made_function<T>(name, std::move(f), *this, true, {notes...});
    return *this;
  }

  template <class F>
  Class& def(Init<F> by, const auto&... notes) {
    this->attr("__init__") = python_constructor(new F(std::move(by.f)), &construct<T, F>,
                                                ParametersOf<void, F>::type::have_fields, *this, {notes...});
    return *this;
  }
  template <class... A>
  Class& def(InitBy<A...>, const auto&... notes) {
    return def(constructor([](A... values) { return std::make_unique<T>(std::move(values)...); }), notes...);
  }

  template <class F>
  Class& def_static(const char* name, F f, const auto&... notes) {
    this->attr(name) = py::staticmethod(made_function<T>(name, std::move(f), *this, false, {notes...}));
    return *this;
  }

  template <class F>
  Class& def_property_readonly(const char* name, F get) {
    return property(name, made_function<T>(name, std::move(get), *this, true, {}), py::none());
  }
  template <class F, class G>
  Class& def_property(const char* name, F get, G set) {
    return property(name, made_function<T>(name, std::move(get), *this, true, {}),
                    made_function<T>(name, std::move(set), *this, true, {py::arg("value")}));
  }
  template <class M, class C>
  Class& def_readonly(const char* name, M C::* member) {
    return def_property_readonly(name, [member](const T& self) { return self.*member; });
  }
  template <class M, class C>
  Class& def_readwrite(const char* name, M C::* member) {
    return def_property(
        name, [member](const T& self) { return self.*member; }, [member](T& self, M value) { self.*member = value; });
  }
  Class& def_readonly_static(const char* name, const auto* value) {
    this->attr(name) = *value;
    return *this;
  }

  // What pybind11 itself binds.
  py::class_<T>& by_pybind11() { return *this; }

 private:
  Class& property(const char* name, const py::object& get, const py::object& set) {
    this->attr(name) = py::handle(reinterpret_cast<PyObject*>(&PyProperty_Type))(get, set);
    return *this;
  }
};

}  // namespace manyclass
