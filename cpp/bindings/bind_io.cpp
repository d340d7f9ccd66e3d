// Text files of sparse data, and whether arrays are such data.
#include <memory>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "manyclass/io/xmc_reader.hpp"

namespace manyclass {

namespace {

// A NumPy array that owns the buffer.
template <class T>
py::array_t<T> to_array(Buffer<T> buffer) {
  T* const data = buffer.data.get();
  const py::capsule owner(data, [](void* p) { std::unique_ptr<T[]>(static_cast<T*>(p)); });
  buffer.data.release();
  return py::array_t<T>(static_cast<py::ssize_t>(buffer.size), data, owner);
}

py::tuple read_xmc_arrays(const Array<std::uint8_t>& text, const std::string& name, std::optional<bool> header,
                          bool zero_based, std::optional<Index> n_features, std::optional<Index> n_labels,
                          int n_threads) {
  const std::span<const char> characters(reinterpret_cast<const char*>(text.data()),
                                         static_cast<std::size_t>(text.size()));
  XmcData data =
      released([&] { return read_xmc(characters, name, {header, zero_based, n_features, n_labels}, n_threads); });
  return py::make_tuple(data.n_features, data.n_labels, to_array(std::move(data.x_indptr)),
                        to_array(std::move(data.x_indices)), to_array(std::move(data.x_data)),
                        to_array(std::move(data.y_indptr)), to_array(std::move(data.y_indices)));
}

}  // namespace

void bind_io(py::module_& m) {
  m.def("read_xmc", &read_xmc_arrays, py::arg("text").noconvert(), py::arg("name"), py::arg("header").none(true),
        py::arg("zero_based"), py::arg("n_features").none(true), py::arg("n_labels").none(true), py::arg("n_threads"),
        "Parse a text in the XMC repository's form. Returns n_features, n_labels, the arrays indptr, indices, "
        "data of X and indptr, indices of Y.");
  m.def(
      "is_canonical",
      [](std::span<const Offset> indptr, std::span<const Index> indices, std::span<const float> data,
         py::ssize_t n_features) {
        return is_canonical(CsrView{indptr, indices, data, as_index(n_features, "the number of columns")});
      },
      "indptr"_a, "indices"_a, "data"_a, "n_features"_a,
      "Whether they are a CSR matrix with sorted, distinct columns and finite values.");
}

}  // namespace manyclass
