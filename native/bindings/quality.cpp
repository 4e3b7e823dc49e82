#include "quality.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/tuple.h>

namespace nb = nanobind;
using namespace nb::literals;
using tombola::BatchTally;

namespace {

using In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Reals = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Given = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

Given give(std::vector<std::int64_t>&& values) {
  auto* owned = new std::vector<std::int64_t>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<std::int64_t>*>(p); });
  return Given(owned->data(), {owned->size()}, owner);
}

}  // namespace

void bind_quality(nb::module_& m) {
  nb::class_<BatchTally>(m, "BatchTally", "What batches are made of, counted in one pass.")
      .def(
          "__init__",
          [](BatchTally* self, In starts, std::int64_t batch_size, std::int64_t readers, std::int64_t run,
             std::int64_t window_batches, std::int64_t gap) {
            if (batch_size < 1 || readers < 1 || run < 1 || window_batches < 1 || starts.shape(0) < 2) {
              throw std::invalid_argument("a tally needs a shard, a batch, a reader and a window of at least one");
            }
            new (self) BatchTally(starts.data(), static_cast<std::int64_t>(starts.shape(0)) - 1,
                                  {batch_size, readers, run, window_batches, gap});
          },
          "starts"_a, "batch_size"_a, "readers"_a, "run"_a, "window_batches"_a, "gap"_a, nb::keep_alive<1, 2>())
      .def(
          "add",
          [](BatchTally& tally, std::int64_t first, In records, Table out) {
            const auto batches = static_cast<std::int64_t>(out.shape(1));
            if (out.shape(0) != 6) throw std::invalid_argument("out has six rows");
            std::int64_t* to = out.data();
            const std::int64_t* from = records.data();
            const auto count = static_cast<std::int64_t>(records.shape(0));
            if (batches > 0 && count % batches != 0) throw std::invalid_argument("records are not whole batches");
            nb::gil_scoped_release unlocked;
            tally.add(first, from, count,
                      {to, to + batches, to + 2 * batches, to + 3 * batches, to + 4 * batches, to + 5 * batches});
          },
          "first"_a, "records"_a, "out"_a,
          "Rows of out: same-shard pairs, distinct shards, shards new in the window; pairs and distinct shards within "
          "ranks, summed over them; pairs within the worst rank.")
      .def("stretches",
           [](const BatchTally& tally) {
             auto s = tally.stretches();
             return std::make_tuple(give(std::move(s.unit)), give(std::move(s.first)), give(std::move(s.last)));
           })
      .def("worst_gap", &BatchTally::worst_gap, "positions"_a);

  m.def(
      "label_batches",
      [](Labels labels, std::int64_t batch_size, std::int64_t classes, std::int32_t watched, Reals entropy, Table out) {
        const auto count = static_cast<std::int64_t>(labels.shape(0));
        const auto batches = static_cast<std::int64_t>(entropy.shape(0));
        if (batch_size < 1 || count != batches * batch_size || out.shape(0) != 2 ||
            static_cast<std::int64_t>(out.shape(1)) != batches || watched < 0 || watched >= classes) {
          throw std::invalid_argument("labels, batches and outputs do not fit together");
        }
        double* reals = entropy.data();
        std::int64_t* to = out.data();
        const std::int32_t* from = labels.data();
        nb::gil_scoped_release unlocked;
        tombola::label_batches(from, count, batch_size, classes, watched, reals, to, to + batches);
      },
      "labels"_a, "batch_size"_a, "classes"_a, "watched"_a, "entropy"_a, "out"_a,
      "Entropy in nats, pairs of equal labels and rows with the watched label, of each batch.");
}
