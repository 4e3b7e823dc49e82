// The extension module: one bind_* function per room, each in a file of its own.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_arrays(nb::module_& m);
void bind_order(nb::module_& m);
void bind_combine(nb::module_& m);
void bind_formats(nb::module_& m);
void bind_stores(nb::module_& m);
void bind_quality(nb::module_& m);
void bind_mosaic(nb::module_& m);

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of tombola. Private: call it through tombola's rooms, which check their input.";
  bind_order(m);
  bind_combine(m);
  bind_formats(m);
  bind_stores(m);
  bind_quality(m);
  bind_mosaic(m);
  bind_arrays(m);
}
