// The buffer of a shuffle: Python objects in, one out at random for each that comes in.
//
// An iterator of the interpreter's own kind and not a method behind the binding's dispatch: a record costs two calls and
// a swap.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "keys.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Ordinals = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class ShuffleBuffer {
 public:
  ShuffleBuffer(nb::object source, std::uint64_t key, std::int64_t records_max, std::int64_t bytes_max,
                std::int64_t initial, nb::object size_of, nb::object mark)
      : source_(nb::steal(PyObject_GetIter(source.ptr()))),
        size_of_(std::move(size_of)),
        mark_(std::move(mark)),
        key_(key),
        records_max_(records_max),
        bytes_max_(bytes_max),
        initial_(initial) {
    if (!source_.is_valid()) throw nb::python_error();
    if (bytes_max_ > 0 && size_of_.is_none()) throw std::invalid_argument("a bound of bytes needs a size_of");
  }

  // A new reference; null at the end, and null with an error set where the source or a callback failed.
  PyObject* next() {
    if (busy_) {
      PyErr_SetString(PyExc_ValueError, "the buffer of this shuffle is being filled already, by a thread or by its source");
      return nullptr;
    }
    busy_ = true;
    const bool ok = fill();
    busy_ = false;
    if (!ok || records_.empty()) return nullptr;
    const auto slot = static_cast<std::size_t>(
        tombola::below(tombola::word(key_, static_cast<std::uint64_t>(emitted_)), records_.size()));
    ++emitted_;
    PyObject* out = records_[slot].release().ptr();
    const std::size_t last = records_.size() - 1;
    if (slot != last) {
      records_[slot] = std::move(records_[last]);
      ordinals_[slot] = ordinals_[last];
    }
    records_.pop_back();
    ordinals_.pop_back();
    if (bytes_max_ > 0) {
      bytes_ -= sizes_[slot];
      sizes_[slot] = sizes_[last];
      sizes_.pop_back();
    }
    return out;
  }

  void load(nb::list records, Ordinals ordinals, std::int64_t emitted, std::int64_t pulled, bool done,
            std::int64_t next_mark) {
    if (nb::len(records) != ordinals.shape(0)) throw std::invalid_argument("records and ordinals differ in number");
    std::vector<nb::object> taken;
    std::vector<std::int64_t> sizes;
    for (nb::handle record : records) {
      taken.push_back(nb::borrow(record));
      if (bytes_max_ > 0) sizes.push_back(nb::cast<std::int64_t>(size_of_(record)));
    }
    records_ = std::move(taken);
    sizes_ = std::move(sizes);
    ordinals_.assign(ordinals.data(), ordinals.data() + ordinals.shape(0));
    bytes_ = 0;
    for (const std::int64_t size : sizes_) bytes_ += size;
    emitted_ = emitted;
    pulled_ = pulled;
    done_ = done;
    next_mark_ = next_mark;
  }

  nb::object ordinals() const {
    auto* copy = new std::vector<std::int64_t>(ordinals_);
    nb::capsule owner(copy, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(copy->data(), {copy->size()}, owner));
  }

  nb::list records() const {
    nb::list out;
    for (const nb::object& record : records_) out.append(record);
    return out;
  }

  std::int64_t emitted() const { return emitted_; }
  std::int64_t pulled() const { return pulled_; }
  bool done() const { return done_; }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(source_.ptr());
    Py_VISIT(size_of_.ptr());
    Py_VISIT(mark_.ptr());
    for (const nb::object& record : records_) Py_VISIT(record.ptr());
    return 0;
  }

  void clear() {
    source_.reset();
    size_of_.reset();
    mark_.reset();
    records_.clear();
  }

 private:
  bool full() const {
    if (records_.empty()) return false;
    if (records_max_ > 0 && static_cast<std::int64_t>(records_.size()) >= records_max_) return true;
    return bytes_max_ > 0 && bytes_ >= bytes_max_;
  }

  bool fill() {
    // With `initial` records come out early, and the buffer grows by one for each until it is full.
    const bool early = initial_ > 0 && emitted_ > 0;
    for (int pulls = 0; !done_ && !full(); ++pulls) {
      if (early && pulls == 2 && !records_.empty()) return true;
      if (initial_ > 0 && emitted_ == 0 && static_cast<std::int64_t>(records_.size()) >= initial_) return true;
      if (!pull()) return false;
    }
    return true;
  }

  bool pull() {
    if (pulled_ == next_mark_ && !mark_.is_none()) {
      nb::object answer = nb::steal(PyObject_CallFunction(mark_.ptr(), "L", static_cast<long long>(pulled_)));
      if (!answer.is_valid()) return false;
      next_mark_ = PyLong_AsLongLong(answer.ptr());
      if (next_mark_ == -1 && PyErr_Occurred()) return false;
    }
    nb::object record = nb::steal(PyIter_Next(source_.ptr()));
    if (!record.is_valid()) {
      if (PyErr_Occurred()) return false;
      done_ = true;
      return true;
    }
    if (bytes_max_ > 0) {
      nb::object answer = nb::steal(PyObject_CallFunctionObjArgs(size_of_.ptr(), record.ptr(), nullptr));
      if (!answer.is_valid()) return false;
      const long long size = PyLong_AsLongLong(answer.ptr());
      if (size == -1 && PyErr_Occurred()) return false;
      sizes_.push_back(size);
      bytes_ += size;
    }
    records_.push_back(std::move(record));
    ordinals_.push_back(pulled_++);
    return true;
  }

  nb::object source_, size_of_, mark_;
  std::vector<nb::object> records_;
  std::vector<std::int64_t> ordinals_, sizes_;
  std::uint64_t key_;
  std::int64_t records_max_, bytes_max_, initial_;
  std::int64_t bytes_ = 0, emitted_ = 0, pulled_ = 0, next_mark_ = 0;
  bool done_ = false, busy_ = false;
};

// An iterator that counts.
class Counted {
 public:
  Counted(nb::object source, std::int64_t count) : source_(nb::steal(PyObject_GetIter(source.ptr()))), count_(count) {
    if (!source_.is_valid()) throw nb::python_error();
  }

  PyObject* next() {
    PyObject* record = PyIter_Next(source_.ptr());
    if (record != nullptr) ++count_;
    return record;
  }

  std::int64_t count() const { return count_; }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(source_.ptr());
    return 0;
  }

  void clear() { source_.reset(); }

 private:
  nb::object source_;
  std::int64_t count_;
};

// A function over the records of an iterator. Where both are dicts, what it returns is put into the record, of which
// the names in `without` are left out. Where the function fails or returns None, `fail` is called, and raises.
class Mapped {
 public:
  Mapped(nb::object source, nb::object function, nb::tuple without, nb::object fail)
      : source_(nb::steal(PyObject_GetIter(source.ptr()))),
        function_(std::move(function)),
        without_(std::move(without)),
        fail_(std::move(fail)) {
    if (!source_.is_valid()) throw nb::python_error();
  }

  PyObject* next() {
    nb::object record = nb::steal(PyIter_Next(source_.ptr()));
    if (!record.is_valid()) return nullptr;
    try {
      nb::object out;
      try {
        out = function_(record);  // by vectorcall
        if (PyDict_CheckExact(record.ptr()) && PyDict_CheckExact(out.ptr())) out = merged(record, std::move(out));
      } catch (nb::python_error& error) {
        if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C is nobody's failure
        fail_(count_, record, error.value());
        throw;
      }
      if (out.is_none()) fail_(count_, record, nb::none());
      ++count_;
      return out.release().ptr();
    } catch (nb::python_error& error) {
      error.restore();
      return nullptr;
    }
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(source_.ptr());
    Py_VISIT(function_.ptr());
    Py_VISIT(without_.ptr());
    Py_VISIT(fail_.ptr());
    return 0;
  }

  void clear() {
    source_.reset();
    function_.reset();
    without_.reset();
    fail_.reset();
  }

 private:
  nb::object merged(const nb::object& record, nb::object out) const {
    const bool same = out.is(record);
    if (same && nb::len(without_) == 0) return out;
    nb::object whole = nb::steal(PyDict_Copy(record.ptr()));
    if (!whole.is_valid()) throw nb::python_error();
    for (nb::handle name : without_) {
      if (PyDict_DelItem(whole.ptr(), name.ptr()) != 0) throw nb::python_error();
    }
    if (!same && PyDict_Update(whole.ptr(), out.ptr()) != 0) throw nb::python_error();
    return whole;
  }

  nb::object source_, function_;
  nb::tuple without_;
  nb::object fail_;
  std::int64_t count_ = 0;
};

template <class T>
PyObject* next_of(PyObject* self) {
  return nb::inst_ptr<T>(self)->next();
}

PyObject* iter_of(PyObject* self) {
  Py_INCREF(self);
  return self;
}

template <class T>
int traverse_of(PyObject* self, visitproc visit, void* arg) {
#if PY_VERSION_HEX >= 0x03090000
  Py_VISIT(Py_TYPE(self));
#endif
  return nb::inst_ready(self) ? nb::inst_ptr<T>(self)->traverse(visit, arg) : 0;
}

template <class T>
int clear_of(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<T>(self)->clear();
  return 0;
}

template <class T>
PyType_Slot kSlots[] = {{Py_tp_iter, reinterpret_cast<void*>(&iter_of)},
                        {Py_tp_iternext, reinterpret_cast<void*>(&next_of<T>)},
                        {Py_tp_traverse, reinterpret_cast<void*>(&traverse_of<T>)},
                        {Py_tp_clear, reinterpret_cast<void*>(&clear_of<T>)},
                        {0, nullptr}};

}  // namespace

void bind_pipeline(nb::module_& m) {
  nb::class_<Counted>(m, "Counted", nb::type_slots(kSlots<Counted>), "The records of an iterator, counted.")
      .def(nb::init<nb::object, std::int64_t>(), "source"_a, "count"_a)
      .def_prop_ro("count", &Counted::count, "How many came out, from the count that was given on.");
  nb::class_<Mapped>(m, "Mapped", nb::type_slots(kSlots<Mapped>), "A function over the records of an iterator.")
      .def(nb::init<nb::object, nb::object, nb::tuple, nb::object>(),
           nb::sig("def __init__(self, source: object, function: object, without: tuple[str, ...], fail: object) -> None"),
           "source"_a, "function"_a, "without"_a, "fail"_a);
  nb::class_<ShuffleBuffer>(m, "ShuffleBuffer", nb::type_slots(kSlots<ShuffleBuffer>),
                            "Records of an iterator, in an order shuffled within a buffer. Bounds of 0 are none.")
      .def(nb::init<nb::object, std::uint64_t, std::int64_t, std::int64_t, std::int64_t, nb::object, nb::object>(),
           "source"_a, "key"_a, "records_max"_a, "bytes_max"_a, "initial"_a, "size_of"_a.none(), "mark"_a.none())
      .def("load", &ShuffleBuffer::load,
           nb::sig("def load(self, records: list[Any], ordinals: NDArray[numpy.int64], emitted: int, pulled: int, done: "
                   "bool, next_mark: int) -> None"),
           "records"_a, "ordinals"_a, "emitted"_a, "pulled"_a, "done"_a, "next_mark"_a,
           "Sets what is in the buffer and how far it is.")
      .def("ordinals", &ShuffleBuffer::ordinals, nb::sig("def ordinals(self) -> NDArray[numpy.int64]"), "By slot: the number of the record in the source.")
      .def("records", &ShuffleBuffer::records, nb::sig("def records(self) -> list[Any]"), "By slot: the record.")
      .def_prop_ro("emitted", &ShuffleBuffer::emitted, "Records given out.")
      .def_prop_ro("pulled", &ShuffleBuffer::pulled, "Records taken in.")
      .def_prop_ro("done", &ShuffleBuffer::done, "Whether the source has ended.");
}
