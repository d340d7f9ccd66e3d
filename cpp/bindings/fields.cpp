// See fields.hpp.
#include "bindings/fields.hpp"

namespace manyclass {

namespace {

[[noreturn]] void refuse_unknown(const FieldList& list, const py::kwargs& keywords) {
  std::string known;
  for (const Field& field : list.fields) known.append(known.empty() ? "'" : ", '").append(field.name).append("'");
  for (const std::pair<py::handle, py::handle> item : keywords) {
    const auto name = item.first.cast<std::string>();
    if (known.find("'" + name + "'") != std::string::npos) continue;
    throw py::type_error(list.name + " has no '" + name + "'; it has " + known);
  }
  throw py::type_error(list.name + " has a field twice");
}

}  // namespace

void FieldList::write(void* made, const py::kwargs& keywords) const {
  std::size_t n_known = 0;
  for (const Field& field : fields) {
    const py::str key(field.name);
    if (keywords.contains(key)) {
      ++n_known;
      const py::object value = keywords[key];
      if (field.needed || !value.is_none()) field.put(static_cast<char*>(made) + field.offset, field.name, value);
    } else if (field.needed) {
      throw py::type_error(name + " needs '" + field.name + "'");
    }
  }
  if (n_known < keywords.size()) refuse_unknown(*this, keywords);
}

void list_fields(Module& m, const FieldList& list) {
  if (!py::hasattr(m, "fields")) m.attr("fields") = py::dict();
  py::dict listed;
  for (const Field& field : list.fields) listed[py::str(field.name)] = field.needed;
  m.attr("fields")[py::str(list.name)] = listed;
}

}  // namespace manyclass
