// See functions.hpp.
#include "bindings/functions.hpp"

namespace manyclass {

namespace {

// The parameters as Python writes them.
std::string signature_of(const PythonFunction& function) {
  std::string text;
  const auto add = [&text](const std::string& parameter) { text += (text.empty() ? "" : ", ") + parameter; };
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const PythonFunction::Parameter& parameter = function.parameters[i];
    if (i == function.n_by_position) add("*");
    add(std::string(parameter.name) + (parameter.initial ? "=" + std::string(py::repr(parameter.initial)) : ""));
  }
  if (function.has_fields) add("**kwargs");
  return function.name + "(" + text + ")";
}

std::string documentation(const PythonFunction& function, bool constructs) {
  std::string line = signature_of(function);
  if (constructs) line.insert(line.find('(') + 1, line.ends_with("()") ? "self" : "self, ");
  return function.text.empty() ? line : line + "\n\n" + function.text;
}

PythonFunction noted(const char* name, void* answers, bool has_fields, bool is_method, Notes notes) {
  PythonFunction function{.name = name, .answers = answers, .has_fields = has_fields};
  if (is_method) function.parameters.push_back({py::str("self"), {}});
  for (const Note& note : notes) {
    if (note.parameter != nullptr) {
      function.parameters.push_back({py::str(note.parameter->name),
                                     note.initial != nullptr ? *note.initial : py::object(),
                                     !static_cast<bool>(note.parameter->flag_noconvert)});
    }
    if (note.names_follow) function.n_by_position = function.parameters.size();
    if (note.text != nullptr) function.text = note.text;
    function.keeps_all = function.keeps_all || note.keeps_all;
  }
  return function;
}

// Arguments live as long as the object that views them.
void keep_all(py::handle object, const py::args& args, const py::kwargs& keywords) {
  py::detail::keep_alive_impl(object, args);
  py::detail::keep_alive_impl(object, keywords);
}

}  // namespace

PythonCall::PythonCall(const PythonFunction& called, const py::args& args, const py::kwargs& keywords)
    : function(called), fields(keywords) {
  const std::size_t n = called.parameters.size();
  if (args.size() > std::min(n, called.n_by_position)) {
    throw py::type_error(signature_of(called) + " was given " + std::to_string(args.size()) + " arguments by position");
  }
  arguments.reserve(n);
  std::size_t n_named = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const PythonFunction::Parameter& parameter = called.parameters[i];
    PyObject* object = i < args.size() ? PyTuple_GET_ITEM(args.ptr(), static_cast<py::ssize_t>(i)) : nullptr;
    if (object == nullptr) {
      object = PyDict_GetItemWithError(keywords.ptr(), parameter.name.ptr());
      if (object != nullptr) ++n_named;
    }
    if (object == nullptr) object = parameter.initial.ptr();
    if (object == nullptr) throw py::type_error(signature_of(called) + " needs '" + std::string(parameter.name) + "'");
    arguments.emplace_back(object);
  }
  if (n_named == keywords.size()) {
    if (n_named > 0) fields = py::kwargs();
    return;
  }
  py::dict others;
  for (const auto& [key, value] : keywords) others[key] = value;
  for (const PythonFunction::Parameter& parameter : called.parameters) {
    if (others.contains(parameter.name)) PyDict_DelItem(others.ptr(), parameter.name.ptr());
  }
  if (!called.has_fields) {
    throw py::type_error(signature_of(called) + " has no " + std::string(py::repr(py::list(others)[0])));
  }
  fields = py::kwargs(others);
}

void PythonCall::refuse(std::size_t i, const std::string& kind) const {
  const py::str type = py::type::of(arguments[i]).attr("__name__");
  throw py::type_error(function.name + ": " + std::string(function.parameters[i].name) + " is of type " +
                       std::string(type) + "; it must be " + kind);
}

py::cpp_function python_function(const char* name, void* answers, Answer answer, bool has_fields, py::handle scope,
                                 bool is_method, Notes notes) {
  py::options options;
  options.disable_function_signatures();
  const PythonFunction function = noted(name, answers, has_fields, is_method, notes);
  const std::string text = documentation(function, false);
  const auto call = [function, answer](const py::args& args, const py::kwargs& keywords) {
    py::object result = answer(PythonCall(function, args, keywords));
    if (function.keeps_all) keep_all(result, args, keywords);
    return result;
  };
  if (is_method) return {call, py::name(name), py::scope(scope), py::is_method(scope), text.c_str()};
  return {call, py::name(name), py::scope(scope), text.c_str()};
}

py::cpp_function python_constructor(void* answers, Construct construct, bool has_fields, py::handle scope,
                                    Notes notes) {
  py::options options;
  options.disable_function_signatures();
  const PythonFunction function = noted("__init__", answers, has_fields, false, notes);
  const std::string text = documentation(function, true);
  return {
      [function, construct](py::detail::value_and_holder& object, const py::args& args, const py::kwargs& keywords) {
        construct(PythonCall(function, args, keywords), object);
        if (function.keeps_all) keep_all(reinterpret_cast<PyObject*>(object.inst), args, keywords);
      },
      py::name("__init__"),
      py::scope(scope),
      py::is_method(scope),
      py::detail::is_new_style_constructor(),
      text.c_str()};
}

}  // namespace manyclass
