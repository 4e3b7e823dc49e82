#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <stdexcept>

#include "mosaic.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using tombola::Pcg64;
namespace mosaic = tombola::mosaic;

namespace {

using In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutDouble = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Ids = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Table = std::optional<nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;

std::int64_t sum(const In& values) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < values.shape(0); ++i) out += values.data()[i];
  return out;
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// What comes in two widths: 32 bits where the records fit, 64 elsewhere.
template <class T>
void bind_width(nb::module_& m) {
  m.def(
      "mosaic_order",
      [](int name, In units, std::int64_t canonical_nodes, std::uint64_t seed, std::uint64_t epoch,
         std::int64_t block_records, std::int64_t block_low, std::int64_t block_high, Ids<T> out) {
        require(static_cast<std::int64_t>(out.shape(0)) == sum(units), "out must hold one entry a record");
        const auto count = static_cast<std::int64_t>(units.shape(0));
        const std::int64_t* from = units.data();
        T* ids = out.data();
        nb::gil_scoped_release unlocked;
        mosaic::order<T>(static_cast<mosaic::Name>(name), from, count, canonical_nodes, seed, epoch,
                         {block_records, block_low, block_high}, ids);
      },
      "name"_a, "units"_a, "canonical_nodes"_a, "seed"_a, "epoch"_a, "block_records"_a, "block_low"_a, "block_high"_a,
      "out"_a.noconvert());
  m.def(
      "mosaic_sample_records",
      [](In starts, In sizes, In counts, std::uint64_t seed, Ids<T> out) {
        require(starts.shape(0) == sizes.shape(0) && sizes.shape(0) == counts.shape(0), "one entry a shard each");
        require(static_cast<std::int64_t>(out.shape(0)) == sum(counts), "out must hold one entry a chosen record");
        const auto shards = static_cast<std::int64_t>(sizes.shape(0));
        nb::gil_scoped_release unlocked;
        return mosaic::sample_records<T>(starts.data(), sizes.data(), counts.data(), shards, seed, out.data());
      },
      "starts"_a, "sizes"_a, "counts"_a, "seed"_a, "out"_a.noconvert());
  m.def(
      "mosaic_find_table",
      [](Table<T> order, Ids<T> starts, Ids<T> found) {
        require(starts.shape(0) > 0, "starts must hold one entry a record and one more");
        require(order.has_value() && order->shape(0) == found.shape(0), "found must hold one entry a position");
        const auto positions = static_cast<std::int64_t>(found.shape(0)), records = static_cast<std::int64_t>(starts.shape(0)) - 1;
        const T* from = order->data();
        nb::gil_scoped_release unlocked;
        mosaic::find_table<T>(from, positions, records, starts.data(), found.data());
      },
      "order"_a.noconvert(), "starts"_a.noconvert(), "found"_a.noconvert());
}

template <class T, class To>
void bind_deal(nb::module_& m) {
  m.def(
      "mosaic_deal",
      [](std::int64_t records, std::int64_t canonical_nodes, std::int64_t nodes, std::int64_t ranks,
         std::int64_t workers, std::int64_t batch, std::int64_t drop_first, std::int64_t filled, In pads, bool tiled,
         Table<T> ids, Table<T> records_of, Ids<To> out, int threads) {
        mosaic::Deal how{records, canonical_nodes, nodes, ranks, workers, batch, drop_first,
                         filled + static_cast<std::int64_t>(pads.shape(0)), filled, pads.data(), tiled};
        const auto entries = nodes * ranks * workers * how.batches_per_worker() * batch;
        require(static_cast<std::int64_t>(out.shape(0)) == entries, "out must hold every entry");
        require(!ids || static_cast<std::int64_t>(ids->shape(0)) == records, "ids must hold one entry a record");
        require(!records_of || static_cast<std::int64_t>(records_of->shape(0)) == records,
                "records_of must hold one entry a record");
        const T* ids_data = ids ? ids->data() : nullptr;
        const T* records_data = records_of ? records_of->data() : nullptr;
        To* to = out.data();
        nb::gil_scoped_release unlocked;
        mosaic::deal<T, To>(how, ids_data, records_data, to, threads);
      },
      "records"_a, "canonical_nodes"_a, "nodes"_a, "ranks"_a, "workers"_a, "batch"_a, "drop_first"_a, "filled"_a,
      "pads"_a, "tiled"_a, "ids"_a.noconvert().none(), "records_of"_a.noconvert().none(), "out"_a.noconvert(), "threads"_a);
}

}  // namespace

void bind_mosaic(nb::module_& m) {
  nb::class_<Pcg64>(m, "Pcg64", "The draws of NumPy's default_rng(seed), as NumPy 2.1.3 makes them.")
      .def(nb::init<std::uint64_t>(), "seed"_a)
      .def("next64", &Pcg64::next64)
      .def("next32", &Pcg64::next32)
      .def("interval", &Pcg64::interval, "most"_a)
      .def(
          "bounded",
          [](Pcg64& draws, std::uint64_t most, Out out) {
            for (std::size_t i = 0; i < out.shape(0); ++i) out.data()[i] = static_cast<std::int64_t>(draws.bounded(most));
          },
          "most"_a, "out"_a)
      .def("units", [](Pcg64& draws, OutDouble out) { draws.units(out.shape(0), out.data()); }, "out"_a)
      .def(
          "shuffle",
          [](Pcg64& draws, Ids<std::int32_t> out) {
            nb::gil_scoped_release unlocked;
            mosaic::shuffle(out.data(), static_cast<std::int64_t>(out.shape(0)), draws);
          },
          "out"_a.noconvert())
      .def(
          "shuffle",
          [](Pcg64& draws, Ids<std::int64_t> out) {
            nb::gil_scoped_release unlocked;
            mosaic::shuffle(out.data(), static_cast<std::int64_t>(out.shape(0)), draws);
          },
          "out"_a.noconvert())
      .def(
          "choose",
          [](Pcg64& draws, std::int64_t n, std::int64_t k) {
            nb::gil_scoped_release unlocked;
            return mosaic::choose(n, k, draws);
          },
          "n"_a, "k"_a);
  m.def(
      "mosaic_sample_shards",
      [](In sizes, std::int64_t chosen, std::int64_t granularity, std::uint64_t seed, Out out) {
        require(sizes.shape(0) == out.shape(0), "one entry a shard");
        require(sum(sizes) > 0, "there must be a record");
        const auto shards = static_cast<std::int64_t>(sizes.shape(0));
        nb::gil_scoped_release unlocked;
        mosaic::sample_shards(sizes.data(), shards, chosen, granularity, seed, out.data());
      },
      "sizes"_a, "chosen"_a, "granularity"_a, "seed"_a, "out"_a);
  m.def(
      "mosaic_widen",
      [](Out out) {
        std::int64_t* to = out.data();
        const auto count = static_cast<std::int64_t>(out.shape(0));
        nb::gil_scoped_release unlocked;
        mosaic::widen(to, count);
      },
      "out"_a.noconvert(), "Spread the 32-bit numbers in the upper half of an array over all of it.");
  bind_width<std::int32_t>(m);
  bind_width<std::int64_t>(m);
  bind_deal<std::int32_t, std::int32_t>(m);
  bind_deal<std::int32_t, std::int64_t>(m);
  bind_deal<std::int64_t, std::int64_t>(m);
}
