#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "mapping.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

[[noreturn]] void raise_os_error(const std::system_error& error) {
  errno = error.code().value();
  PyErr_SetFromErrno(PyExc_OSError);
  throw nb::python_error();
}

}  // namespace

void bind_stores(nb::module_& m) {
  m.def(
      "map_file",
      [](int descriptor, std::size_t bytes) {
        try {
          auto mapping = std::make_unique<tombola::Mapping>(descriptor, bytes);
          const std::uint8_t* data = mapping->data();
          nb::capsule owner(mapping.release(),
                            [](void* p) noexcept { delete static_cast<tombola::Mapping*>(p); });
          return nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(data, {bytes}, owner);
        } catch (const std::system_error& error) {
          raise_os_error(error);
        }
      },
      "descriptor"_a, "bytes"_a, "An open file as read-only memory; the descriptor may be closed at once.");
  m.def(
      "filesystem_magic",
      [](int descriptor) {
        try {
          return tombola::filesystem_magic(descriptor);
        } catch (const std::system_error& error) {
          raise_os_error(error);
        }
      },
      "descriptor"_a, "The kernel's magic number of the file system an open file is on; 0 where there is none.");
}
