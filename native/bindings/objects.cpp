// Columns as Python's own objects: what reading a record at a time costs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Data = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Objects = nb::typed<nb::list, nb::any>;
using Offsets = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object stolen(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

Objects values(Data data, Offsets offsets, bool text) {
  const std::size_t entries = offsets.shape(0);
  if (entries == 0) throw std::invalid_argument("there are no offsets");
  const auto count = static_cast<Py_ssize_t>(entries - 1);
  Objects out = nb::steal<Objects>(stolen(PyList_New(count)).release());
  const auto* bytes = reinterpret_cast<const char*>(data.data());
  const auto size = static_cast<std::int64_t>(data.shape(0));
  for (Py_ssize_t row = 0; row < count; ++row) {
    const std::int64_t begin = offsets.data()[row], end = offsets.data()[row + 1];
    if (begin < 0 || begin > end || end > size) throw std::invalid_argument("the offsets lie outside the data");
    const auto length = static_cast<Py_ssize_t>(end - begin);
    PyObject* value = text ? PyUnicode_DecodeUTF8(bytes + begin, length, nullptr)
                           : PyBytes_FromStringAndSize(bytes + begin, length);
    if (value == nullptr) throw nb::python_error();
    PyList_SetItem(out.ptr(), row, value);
  }
  return out;
}

// One dict a row out of a list a column.
Objects rows(nb::handle names, nb::handle columns, Py_ssize_t count) {
  if (!PyTuple_Check(names.ptr()) || !PyList_Check(columns.ptr())) throw nb::type_error("a tuple and a list");
  const Py_ssize_t width = PyTuple_Size(names.ptr());
  if (PyList_Size(columns.ptr()) != width) throw std::invalid_argument("names and columns differ in number");
  for (Py_ssize_t c = 0; c < width; ++c) {
    PyObject* column = PyList_GetItem(columns.ptr(), c);
    if (!PyList_Check(column) || PyList_Size(column) != count) {
      throw std::invalid_argument("a column is no list of that many values");
    }
  }
  Objects out = nb::steal<Objects>(stolen(PyList_New(count)).release());
  for (Py_ssize_t row = 0; row < count; ++row) {
    nb::object record = stolen(PyDict_New());
    for (Py_ssize_t c = 0; c < width; ++c) {
      PyObject* value = PyList_GetItem(PyList_GetItem(columns.ptr(), c), row);
      if (value == nullptr || PyDict_SetItem(record.ptr(), PyTuple_GetItem(names.ptr(), c), value) != 0) {
        throw nb::python_error();
      }
    }
    PyList_SetItem(out.ptr(), row, record.release().ptr());
  }
  return out;
}

}  // namespace

void bind_objects(nb::module_& m) {
  m.def("values", &values, "data"_a, "offsets"_a, "text"_a,
        "The values of a column of bytes, or of UTF-8 text, as a list; a UnicodeDecodeError where it is none.");
  m.def("rows", &rows, "names"_a, "columns"_a, "count"_a, "One dict a row, out of a list of values for each column.");
}
