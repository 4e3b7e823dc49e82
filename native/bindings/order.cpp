#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>

#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "checks.hpp"
#include "keys.hpp"
#include "lanes.hpp"
#include "parallel.hpp"
#include "permutation.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using tombola::LaneEpoch;
using tombola::Line;
using tombola::Permutation;

namespace {

using In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
constexpr std::int64_t kGrain = std::int64_t{1} << 16;  // fewer numbers than this are not worth a thread

void same_size(const In& in, const Out& out) {
  if (in.shape(0) != out.shape(0)) throw std::invalid_argument("in and out differ in length");
}

template <class Function>
void each(const In& in, const Out& out, int threads, std::int64_t end, const char* what, const Function& function) {
  same_size(in, out);
  const std::int64_t* from = in.data();
  std::int64_t* to = out.data();
  const auto count = static_cast<std::int64_t>(in.shape(0));
  nb::gil_scoped_release unlocked;
  tombola::check_below(from, count, end, what);
  tombola::parallel_for(count, threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
    function(from + begin, to + begin, end - begin);
  });
}

// A vector handed to NumPy without a copy.
nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>> give(std::vector<std::int64_t>&& values) {
  auto* owned = new std::vector<std::int64_t>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  return nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
}

}  // namespace

void bind_order(nb::module_& m) {
  m.def("child", &tombola::child, "key"_a, "i"_a, "The i-th child of a 64-bit key.");

  nb::class_<Permutation>(m, "Permutation", "A keyed bijection on 0…n−1.")
      .def(nb::init<std::int64_t, std::uint64_t>(), "n"_a, "key"_a)
      .def("at_one", [](const Permutation& p, std::int64_t i) {
        tombola::check_one_below(i, p.size(), "position");
        return p.at(i);
      }, "i"_a)
      .def("find_one", [](const Permutation& p, std::int64_t j) {
        tombola::check_one_below(j, p.size(), "value");
        return p.find(j);
      }, "j"_a)
      .def(
          "at",
          [](const Permutation& p, In in, Out out, int threads) {
            each(in, out, threads, p.size(), "position", [&](auto* from, auto* to, std::int64_t n) { p.at(from, to, n); });
          },
          "inputs"_a, "out"_a, "threads"_a)
      .def(
          "find",
          [](const Permutation& p, In in, Out out, int threads) {
            each(in, out, threads, p.size(), "value", [&](auto* from, auto* to, std::int64_t n) { p.find(from, to, n); });
          },
          "values"_a, "out"_a, "threads"_a)
      .def(
          "run",
          [](const Permutation& p, std::int64_t first, Out out, int threads) {
            std::int64_t* to = out.data();
            const auto count = static_cast<std::int64_t>(out.shape(0));
            tombola::check_range_below(first, 1, count, p.size(), "position");
            nb::gil_scoped_release unlocked;
            tombola::parallel_for(count, threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
              p.run(first + begin, end - begin, to + begin);
            });
          },
          "first"_a, "out"_a, "threads"_a);

  nb::class_<Line>(m, "Line", "Shards end to end in a keyed order, cut into lanes.")
      .def(
          "__init__",
          [](Line* self, In starts, std::int64_t lanes, std::uint64_t home_key, int threads) {
            const std::int64_t* data = starts.data();
            const auto units = static_cast<std::int64_t>(starts.shape(0)) - 1;
            nb::gil_scoped_release unlocked;
            new (self) Line(data, units, lanes, home_key, threads);
          },
          "starts"_a, "lanes"_a, "home_key"_a, "threads"_a, nb::keep_alive<1, 2>());

  nb::class_<LaneEpoch>(m, "LaneEpoch", "One epoch of the lanes order.")
      .def(
          "__init__",
          [](LaneEpoch* self, std::shared_ptr<Line> line, std::uint64_t parts_key, std::uint64_t records_key,
             std::uint64_t window_key, std::uint64_t phase_key, std::int64_t window_shards,
             std::int64_t window_records, bool spread_phases, int threads) {
            nb::gil_scoped_release unlocked;
            new (self) LaneEpoch(std::move(line), {parts_key, records_key, window_key, phase_key},
                                 {window_shards, window_records}, spread_phases, threads);
          },
          "line"_a, "parts_key"_a, "records_key"_a, "window_key"_a, "phase_key"_a, "window_shards"_a,
          "window_records"_a, "spread_phases"_a, "threads"_a)
      .def(
          "at",
          [](const LaneEpoch& e, In in, Out out, int threads) {
            each(in, out, threads, e.line().records(), "position", [&](auto* from, auto* to, std::int64_t n) {
              for (std::int64_t i = 0; i < n; ++i) to[i] = e.at(from[i]);
            });
          },
          "positions"_a, "out"_a, "threads"_a)
      .def(
          "find",
          [](const LaneEpoch& e, In in, Out out, int threads) {
            each(in, out, threads, e.line().records(), "record", [&](auto* from, auto* to, std::int64_t n) {
              for (std::int64_t i = 0; i < n; ++i) to[i] = e.find(from[i]);
            });
          },
          "records"_a, "out"_a, "threads"_a)
      .def(
          "slice",
          [](const LaneEpoch& e, std::int64_t start, std::int64_t step, Out out, int threads) {
            if (step < 1 || e.line().lanes() % step != 0) throw std::invalid_argument("step must divide the lanes");
            std::int64_t* to = out.data();
            const auto count = static_cast<std::int64_t>(out.shape(0));
            tombola::check_range_below(start, step, count, e.line().records(), "position");
            nb::gil_scoped_release unlocked;
            e.slice(start, step, count, to, threads);
          },
          "start"_a, "step"_a, "out"_a, "threads"_a)
      .def(
          "visits",
          [](const LaneEpoch& e) {
            tombola::Visits v;
            {
              nb::gil_scoped_release unlocked;
              v = e.visits();
            }
            return std::make_tuple(give(std::move(v.lane)), give(std::move(v.unit)), give(std::move(v.record_begin)),
                                   give(std::move(v.record_end)), give(std::move(v.first)), give(std::move(v.last)));
          },
          "(lane, unit, record begin, record end, first position, last position), one entry a visit.");
}
