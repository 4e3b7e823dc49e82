// The extension module: one bind_* function per room, each in a file of its own.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_arrays(nb::module_& m);
void bind_order(nb::module_& m);
void bind_combine(nb::module_& m);
void bind_formats(nb::module_& m);
void bind_objects(nb::module_& m);
void bind_stores(nb::module_& m);
void bind_quality(nb::module_& m);
void bind_mosaic(nb::module_& m);
void bind_pipeline(nb::module_& m);

namespace {

PyObject* names = nullptr;  // of the module as it was made first

// A notebook that drops the package from sys.modules and imports it anew gets the types there are: a type is made once
// a process. What was made before goes on working with what is made after. True when that was done.
bool made_before(nb::module_& m) {
  if (names != nullptr) {
    m.attr("__dict__").attr("update")(nb::borrow(names));
    return true;
  }
  names = nb::object(m.attr("__dict__")).release().ptr();
  // Or the types would still be held when nanobind looks for what was left behind.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { Py_CLEAR(names); }));
  return false;
}

}  // namespace

NB_MODULE(_core, m) {
#if defined(NDEBUG)
  // What a process still holds when it ends is no leak: a spawned worker of a DataLoader ends with its dataset in hand, and
  // would write twenty lines about it. A debug build goes on telling.
  nb::set_leak_warnings(false);
#endif
  if (made_before(m)) return;
  m.doc() = "The C++ core of tombola. Private: call it through tombola's rooms, which check their input.";
  bind_order(m);
  bind_combine(m);
  bind_formats(m);
  bind_objects(m);
  bind_stores(m);
  bind_quality(m);
  bind_mosaic(m);
  bind_arrays(m);
  bind_pipeline(m);
}
