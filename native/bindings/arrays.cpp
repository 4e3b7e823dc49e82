#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays_exact.hpp"
#include "arrays_file.hpp"
#include "arrays_follow.hpp"
#include "arrays_pov.hpp"
#include "arrays_views.hpp"
#include "permutation.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using tombola::Strided;
using tombola::Tuning;

namespace {

using Clock = std::chrono::steady_clock;
using Limits = std::array<std::uint64_t, 7>;
// (address, bytes from row to row, bytes of a run, inner axes as (size, step))
using View = std::tuple<std::uintptr_t, std::int64_t, std::uint64_t, std::vector<std::pair<std::int64_t, std::int64_t>>>;
constexpr std::uint64_t kFollowFrom = 128;  // measured: below, moving rows twice costs less than moving them far once
using Out = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Tuning tuning_of(const Limits& limits) {
  if (limits[0] == 0) return {};
  // Limits given are those of a test with few rows: these go back in several waves too, through files in several runs, and
  // are dealt near by, in slots that are often too small.
  return {limits[0], limits[1], static_cast<int>(limits[2]), limits[3], limits[4], limits[5], limits[6], 64, 1, tombola::Near::always, 1};
}

std::vector<Strided> strided(const std::vector<View>& views) {
  std::vector<Strided> all;
  for (const auto& [address, step, bytes, axes] : views) {
    Strided one{reinterpret_cast<std::byte*>(address), step, bytes, {}};
    for (const auto& [size, inner] : axes) one.axes.push_back({size, inner});
    all.push_back(std::move(one));
  }
  return all;
}

// Runs work(stop) without the GIL, unless it is kept. Ctrl-C is looked for a few times a second; when there was one, the
// work ends between two tasks, where every row is in the array, and the interpreter's exception goes on.
template <class Work>
void interruptible(bool keep_gil, const Work& work) {
  auto looked = Clock::now();
  bool raised = false;
  const tombola::Stop stop = [&] {
    if (Clock::now() - looked < std::chrono::milliseconds(100)) return raised;
    if (keep_gil) {
      raised = raised || PyErr_CheckSignals() != 0;
    } else {
      const nb::gil_scoped_acquire locked;
      raised = raised || PyErr_CheckSignals() != 0;
    }
    looked = Clock::now();
    return raised;
  };
  if (keep_gil) {
    work(stop);
  } else {
    const nb::gil_scoped_release unlocked;
    work(stop);
  }
  if (raised) throw nb::python_error();
}

using FileShuffle = bool (*)(const tombola::FileLayout&, std::uint64_t, int, const tombola::Stop&, const Tuning&);

void bind_file(nb::module_& m, const char* name, FileShuffle shuffle, const char* words) {
  m.def(
      name,
      [shuffle](int source, int target, std::uint64_t skip, std::uint64_t rows, std::uint64_t row_bytes,
                std::uint64_t memory_bytes_max, std::uint64_t key, int threads, const Limits& limits) {
        const tombola::FileLayout file{source, target, skip, rows, row_bytes, memory_bytes_max};
        const Tuning tuning = tuning_of(limits);
        try {
          interruptible(false, [&](const tombola::Stop& stop) { shuffle(file, key, threads, stop, tuning); });
        } catch (const std::system_error& problem) {
          PyErr_SetObject(PyExc_OSError, nb::make_tuple(problem.code().value(), problem.what()).ptr());
          throw nb::python_error();
        }
      },
      "source"_a, "target"_a, "skip"_a, "rows"_a, "row_bytes"_a, "memory_bytes_max"_a, "key"_a, "threads"_a,
      "limits"_a = Limits{}, words);
}

// As many threads as are worth starting. On a busy machine a started thread may wait for a few milliseconds, and what it
// has begun waits with it. So a shuffle that takes less than about that does without: measured, two nanoseconds a row,
// an eighth of one for each of its first 256 bytes and a sixteenth for the others.
int threads_worth(std::uint64_t n, std::uint64_t row_bytes, int threads) {
  constexpr double kWorth = 3e6;
  const double first = static_cast<double>(std::min<std::uint64_t>(row_bytes, 256)), all = static_cast<double>(row_bytes);
  return static_cast<double>(n) * (2 + first / 8 + (all - first) / 16) < kWorth ? 1 : threads;
}

// What NumPy's __array_struct__ points to: https://numpy.org/doc/stable/reference/arrays.interface.html
struct ArrayStruct {
  enum Flags { kWriteable = 0x400 };
  int two, axes;
  char kind;
  int item_bytes, flags;
  Py_intptr_t *sizes, *steps;
  void* data;
  PyObject* descr;
};
static_assert(sizeof(Py_intptr_t) == sizeof(std::int64_t));

const ArrayStruct& array_struct(nb::capsule capsule) {
  const auto* found = static_cast<const ArrayStruct*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (found == nullptr) throw nb::python_error();
  if (found->two != 2) throw nb::value_error("this is no __array_struct__");
  return *found;
}

std::optional<Strided> rows_of(const ArrayStruct& a) {
  const std::vector<std::int64_t> sizes(a.sizes, a.sizes + a.axes), steps(a.steps, a.steps + a.axes);
  return tombola::rows_of(static_cast<std::byte*>(a.data), a.axes, sizes.data(), steps.data(),
                          static_cast<std::uint64_t>(a.item_bytes));
}

}  // namespace

void bind_arrays(nb::module_& m) {
  m.attr("FOLLOW_FROM") = kFollowFrom;
  m.def("threads_worth", &threads_worth, "n"_a, "row_bytes"_a, "threads"_a, "How many threads are worth starting.");
  m.attr("TABLE_MAX") = tombola::Permutation::kTableMax;
  m.attr("DIRECT_MAX") = tombola::kDirectMax;
  m.def(
      "exact_arrays",
      [](const std::vector<View>& views, std::uint64_t n, std::uint64_t key, int threads, bool keep_gil,
         std::uint64_t follow_from, const Limits& limits) {
        const std::vector<Strided> arrays = strided(views);
        const Tuning tuning = tuning_of(limits);
        interruptible(keep_gil, [&](const tombola::Stop& stop) {
          tombola::exact_arrays(arrays, n, key, keep_gil ? 1 : threads, stop, follow_from, tuning);
        });
      },
      "views"_a, "n"_a, "key"_a, "threads"_a, "keep_gil"_a = false, "follow_from"_a = kFollowFrom,
      "limits"_a = Limits{},
      "Shuffles arrays of n rows in unison, in place. keep_gil for object pointers, which no other thread must see "
      "halfway. Rows of follow_from bytes and more are moved once along the permutation.");
  m.def(
      "exact_array",
      [](nb::capsule capsule, std::uint64_t key, int threads, bool keep_gil) {
        const ArrayStruct& a = array_struct(capsule);
        if (a.axes == 0 || (a.flags & ArrayStruct::kWriteable) == 0) return false;
        std::optional<Strided> rows = rows_of(a);
        if (!rows) return false;
        const auto n = static_cast<std::uint64_t>(a.sizes[0]);
        const std::vector<Strided> arrays{std::move(*rows)};
        const int worth = keep_gil ? 1 : threads_worth(n, arrays[0].row_bytes(), threads);
        interruptible(keep_gil, [&](const tombola::Stop& stop) {
          tombola::exact_arrays(arrays, n, key, worth, stop, kFollowFrom);
        });
        return true;
      },
      "array_struct"_a, "key"_a, "threads"_a, "keep_gil"_a,
      "exact_arrays for one NumPy array; false, and nothing is done, when it is not one to shuffle.");
  m.def(
      "rows_of",
      [](nb::capsule capsule) -> std::optional<View> {
        const ArrayStruct& a = array_struct(capsule);
        if (a.axes == 0) throw nb::value_error("an array of no axes has no rows");
        const std::optional<Strided> rows = rows_of(a);
        if (!rows) return {};
        std::vector<std::pair<std::int64_t, std::int64_t>> axes;
        for (const auto& [size, step] : rows->axes) axes.emplace_back(size, step);
        return View{reinterpret_cast<std::uintptr_t>(rows->base), rows->step, rows->bytes, axes};
      },
      "array_struct"_a,
      "Where the rows of a NumPy array are: address, bytes from row to row, bytes of a run, inner axes as (size, step). "
      "None when elements of it overlap.");
  m.def(
      "exact_file_memory",
      [](std::uint64_t rows, std::uint64_t row_bytes, const Limits& limits) {
        return tombola::exact_file_memory(rows, row_bytes, tuning_of(limits));
      },
      "rows"_a, "row_bytes"_a, "limits"_a = Limits{}, "Bytes of memory that exact_file needs at least; 0: it cannot.");
  m.def(
      "exact_file_follow_memory",
      [](std::uint64_t rows, std::uint64_t row_bytes) { return tombola::exact_file_follow_memory(rows, row_bytes); },
      "rows"_a, "row_bytes"_a, "Bytes of memory that exact_file_follow needs at least.");
  bind_file(m, "exact_file", &tombola::exact_file,
            "Writes the rows of a file to another, shuffled as exact_arrays would, by scattering them.");
  bind_file(m, "exact_file_follow", &tombola::exact_file_follow,
            "Writes the rows of a file to another, shuffled as exact_arrays would, along the permutation.");
  m.def(
      "gpu1_arrays",
      [](const std::vector<View>& views, std::uint64_t n, std::uint64_t key, int threads, bool keep_gil) {
        const std::vector<Strided> arrays = strided(views);
        interruptible(keep_gil, [&](const tombola::Stop& stop) {
          tombola::gpu1_arrays(arrays, n, key, keep_gil ? 1 : threads, stop);
        });
      },
      "views"_a, "n"_a, "key"_a, "threads"_a, "keep_gil"_a = false, "The permutation of the GPU kernels, on the CPU.");
  m.def(
      "gpu1_permutation",
      [](Out out, std::uint64_t key) {
        std::int64_t* data = out.data();
        const std::uint64_t n = out.shape(0);
        interruptible(false, [&](const tombola::Stop& stop) { tombola::gpu1_permutation(data, n, key, stop); });
      },
      "out"_a, "key"_a);
  m.def(
      "pov_arrays",
      [](const std::vector<View>& views, std::uint64_t n, std::uint64_t key, int iterations,
         std::uint64_t virtual_block_size, std::uint64_t physical_block_size, const std::vector<std::uint64_t>& offsets,
         int threads, bool keep_gil) {
        const std::vector<Strided> arrays = strided(views);
        const tombola::PovSteps steps{iterations, virtual_block_size, physical_block_size, offsets};
        interruptible(keep_gil, [&](const tombola::Stop& stop) {
          tombola::pov_arrays(arrays, n, key, steps, keep_gil ? 1 : threads, stop);
        });
      },
      "views"_a, "n"_a, "key"_a, "iterations"_a, "virtual_block_size"_a, "physical_block_size"_a, "offsets"_a,
      "threads"_a, "keep_gil"_a = false, "The parallel offset virtual-block shuffle of arrays in unison, in place.");
  m.def(
      "exact_permutation",
      [](Out out, std::uint64_t key, int threads, const Limits& limits) {
        std::int64_t* data = out.data();
        const std::uint64_t n = out.shape(0);
        const Tuning tuning = tuning_of(limits);
        interruptible(false, [&](const tombola::Stop& stop) {
          tombola::exact_permutation(data, n, key, threads, stop, tuning);
        });
      },
      "out"_a, "key"_a, "threads"_a, "limits"_a = Limits{}, "out[i] becomes the row that comes to place i.");
}
