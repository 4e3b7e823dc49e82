#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bitmap.hpp"
#include "checks.hpp"
#include "combine.hpp"
#include "parallel.hpp"
#include "weave.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using tombola::Bitmap;
using tombola::LaneEpoch;
using tombola::Units;
using tombola::Weave;

namespace {

using In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
constexpr std::int64_t kGrain = std::int64_t{1} << 15;

void same_size(std::size_t one, std::size_t two) {
  if (one != two) throw std::invalid_argument("the arrays differ in length");
}

template <class Function>
void each(const In& in, const Out& out, int threads, std::int64_t end, const char* what, const Function& function) {
  same_size(in.shape(0), out.shape(0));
  const std::int64_t* from = in.data();
  std::int64_t* to = out.data();
  const auto count = static_cast<std::int64_t>(out.shape(0));
  nb::gil_scoped_release unlocked;
  tombola::check_below(from, count, end, what);
  tombola::parallel_for(count, threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = function(from[i]);
  });
}

}  // namespace

void bind_combine(nb::module_& m) {
  m.def(
      "deal_fractions",
      [](In sizes, std::int64_t total, std::int64_t granularity, std::uint64_t key, Out out) {
        same_size(sizes.shape(0), out.shape(0));
        tombola::deal_fractions(sizes.data(), static_cast<std::int64_t>(sizes.shape(0)), total, granularity, key,
                                out.data());
      },
      "sizes"_a, "total"_a, "granularity"_a, "key"_a, "out"_a,
      "How many records each shard gives to a fractional repeat of so many in all.");

  nb::class_<Units>(m, "Units", "The line of all repeats of all shards, the fractional ones included.")
      .def(
          "__init__",
          [](Units* self, In unit_start, In unit_shard, Flags unit_whole, In shard_start, std::uint64_t key) {
            same_size(unit_start.shape(0), unit_shard.shape(0) + 1);
            same_size(unit_shard.shape(0), unit_whole.shape(0));
            const auto units = static_cast<std::int64_t>(unit_shard.shape(0));
            const auto shards = static_cast<std::int64_t>(shard_start.shape(0)) - 1;
            tombola::check_below(unit_shard.data(), units, shards, "shard");
            new (self) Units{unit_start.data(),  unit_shard.data(), unit_whole.data(),
                             shard_start.data(), units, shards, key};
          },
          "unit_start"_a, "unit_shard"_a, "unit_whole"_a, "shard_start"_a, "key"_a, nb::keep_alive<1, 2>(),
          nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>())
      .def(
          "at",
          [](const Units& u, In on_line, Out out, int threads) {
            same_size(on_line.shape(0), out.shape(0));
            const std::int64_t* from = on_line.data();
            std::int64_t* to = out.data();
            const auto count = static_cast<std::int64_t>(out.shape(0));
            nb::gil_scoped_release unlocked;
            tombola::check_below(from, count, u.unit_start[u.units], "place on the line");
            tombola::parallel_for(count, threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
              u.at(from + begin, to + begin, end - begin);
            });
          },
          "on_line"_a, "out"_a, "threads"_a)
      .def(
          "find_in_fraction",
          [](const Units& u, In shard, In offset, Out out) {
            same_size(shard.shape(0), out.shape(0));
            same_size(offset.shape(0), out.shape(0));
            nb::gil_scoped_release unlocked;
            tombola::check_below(shard.data(), static_cast<std::int64_t>(shard.shape(0)), u.shards, "shard");
            for (std::size_t i = 0; i < out.shape(0); ++i) {
              const std::int64_t* start = u.shard_start + shard.data()[i];
              tombola::check_one_below(offset.data()[i], start[1] - start[0], "place in a shard");
              out.data()[i] = u.find_in_fraction(shard.data()[i], offset.data()[i]);
            }
          },
          "shard"_a, "offset"_a, "out"_a);

  m.def(
      "chairman",
      [](In weights, Out out) {
        tombola::chairman(weights.data(), static_cast<std::int64_t>(weights.shape(0)), out.data());
      },
      "weights"_a, "out"_a, "A sequence of sum(weights) streams, each within one of its share in every prefix.");
  m.def(
      "spread_phases",
      [](In sequence, In weights, std::int64_t lanes) {
        nb::gil_scoped_release unlocked;
        const tombola::Spread found =
            tombola::spread_phases(sequence.data(), static_cast<std::int64_t>(sequence.shape(0)), weights.data(),
                                   static_cast<std::int64_t>(weights.shape(0)), lanes);
        return std::make_pair(found.multiplier, found.deviation);
      },
      "sequence"_a, "weights"_a, "lanes"_a,
      "(multiplier, bound of the error over all lanes × length) of the best way to start lanes along a sequence.");
  m.def(
      "phases",
      [](std::uint64_t multiplier, std::int64_t length, Out out) {
        for (std::size_t c = 0; c < out.shape(0); ++c) {
          out.data()[c] = tombola::phase_of_lane(static_cast<std::int64_t>(c), multiplier, length);
        }
      },
      "multiplier"_a, "length"_a, "out"_a);

  nb::class_<Weave>(m, "Weave", "Streams woven together lane by lane.")
      .def(
          "__init__",
          [](Weave* self, std::int64_t lanes, std::int64_t run, std::int64_t block, std::int64_t epoch_records,
             std::vector<std::int64_t> lengths) {
            new (self) Weave(lanes, run, block, epoch_records, std::move(lengths));
          },
          "lanes"_a, "run"_a, "block"_a, "epoch_records"_a, "lengths"_a)
      .def(
          "add_segment",
          [](Weave& w, In grid, std::int64_t columns, std::int64_t stride, In start, In phase, In column,
             std::optional<std::uint64_t> key, bool carry) {
            for (const auto& array : {start, phase, column}) {
              same_size(array.shape(0), static_cast<std::size_t>(w.lanes()));
            }
            const auto rows = static_cast<std::int64_t>(grid.shape(0)) / columns;
            nb::gil_scoped_release unlocked;
            w.add_segment(grid.data(), rows, columns, stride, start.data(), phase.data(), column.data(), key,
                          carry);
          },
          "grid"_a, "columns"_a, "stride"_a, "start"_a, "phase"_a, "column"_a,
          "key"_a = nb::none(), "carry"_a = false)
      .def(
          "set_shards",
          [](Weave& w, std::int64_t stream, In first_of, In record_of, std::int64_t records) {
            same_size(first_of.shape(0), record_of.shape(0));
            tombola::check_one_below(stream, w.streams(), "stream");
            w.set_shards(stream, first_of.data(), record_of.data(), static_cast<std::int64_t>(first_of.shape(0)),
                         records);
          },
          "stream"_a, "first_of"_a, "record_of"_a, "records"_a)
      .def(
          "map",
          [](const Weave& w, In positions, std::int64_t epoch, Out stream, Out pass, Out at, int threads) {
            same_size(positions.shape(0), stream.shape(0));
            same_size(positions.shape(0), pass.shape(0));
            same_size(positions.shape(0), at.shape(0));
            const std::int64_t* from = positions.data();
            std::int64_t *i = stream.data(), *p = pass.data(), *q = at.data();
            const auto count = static_cast<std::int64_t>(positions.shape(0));
            nb::gil_scoped_release unlocked;
            tombola::check_below(from, count, w.epoch_records(), "position");
            tombola::parallel_for(count, threads, kGrain, [&](std::int64_t begin, std::int64_t end) {
              w.map(from + begin, end - begin, epoch, i + begin, p + begin, q + begin);
            });
          },
          "positions"_a, "epoch"_a, "stream"_a, "pass_"_a, "at"_a, "threads"_a)
      .def(
          "unmap",
          [](const Weave& w, std::int64_t stream, In lane, In place, std::int64_t epoch, Out positions) {
            same_size(lane.shape(0), positions.shape(0));
            same_size(place.shape(0), positions.shape(0));
            nb::gil_scoped_release unlocked;
            tombola::check_one_below(stream, w.streams(), "stream");
            tombola::check_below(lane.data(), static_cast<std::int64_t>(lane.shape(0)), w.lanes(), "lane");
            w.unmap(stream, lane.data(), place.data(), static_cast<std::int64_t>(lane.shape(0)), epoch,
                    positions.data());
          },
          "stream"_a, "lane"_a, "place"_a, "epoch"_a, "positions"_a)
      .def(
          "counts",
          [](const Weave& w, std::int64_t epoch, std::int64_t position, Out out) {
            same_size(out.shape(0), static_cast<std::size_t>(w.lanes() * w.streams()));
            nb::gil_scoped_release unlocked;
            w.counts(epoch, position, out.data());
          },
          "epoch"_a, "position"_a, "out"_a)
      .def(
          "to_records",
          [](const Weave& w, std::int64_t stream, Out values) {
            nb::gil_scoped_release unlocked;
            tombola::check_one_below(stream, w.streams(), "stream");
            // A stream's own layout may list its records several times over, but never more often than a pass is long.
            const std::int64_t own = std::max<std::int64_t>(1, w.own_records(stream));
            const std::int64_t copies = std::max<std::int64_t>(1, w.length(stream) / own);
            tombola::check_below(values.data(), static_cast<std::int64_t>(values.shape(0)),
                                 w.own_records(stream) * copies, "record of a stream");
            w.to_records(stream, values.data(), static_cast<std::int64_t>(values.shape(0)));
          },
          "stream"_a, "values"_a)
      .def(
          "slice",
          [](const Weave& w, std::int64_t start, std::int64_t step, std::int64_t epoch,
             const std::vector<std::pair<std::vector<std::int64_t>, std::vector<const LaneEpoch*>>>& sources, Out out, int threads) {
            if (step < 1 || w.lanes() % step != 0) throw std::invalid_argument("step must divide the lanes");
            std::vector<Weave::Source> from;
            same_size(sources.size(), static_cast<std::size_t>(w.streams()));
            for (const auto& [numbers, passes] : sources) {
              same_size(numbers.size(), passes.size());
              const auto stream = static_cast<std::int64_t>(from.size());
              for (const LaneEpoch* pass : passes) {
                if (pass->line().lanes() != w.lanes() || pass->line().records() != w.length(stream)) {
                  throw std::invalid_argument("a pass of stream " + std::to_string(stream) + " has another length");
                }
              }
              from.push_back({numbers, passes});
            }
            std::int64_t* to = out.data();
            const auto count = static_cast<std::int64_t>(out.shape(0));
            tombola::check_range_below(start, step, count, w.epoch_records(), "position");
            nb::gil_scoped_release unlocked;
            w.slice(start, step, count, epoch, from, to, threads);
          },
          "start"_a, "step"_a, "epoch"_a, "sources"_a, "out"_a, "threads"_a);

  using Words = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  nb::class_<Bitmap>(m, "Bitmap", "A bitmap of records that counts and finds them.")
      .def(
          "__init__",
          [](Bitmap* self, Words words) {
            const std::uint64_t* data = words.data();
            const auto count = static_cast<std::int64_t>(words.shape(0));
            nb::gil_scoped_release unlocked;
            new (self) Bitmap(data, count);
          },
          "words"_a, nb::keep_alive<1, 2>())
      .def_prop_ro("count", &Bitmap::count)
      .def(
          "rank",
          [](const Bitmap& b, In places, Out out, int threads) {
            each(places, out, threads, b.places() + 1, "place", [&](std::int64_t place) { return b.rank(place); });
          },
          "places"_a, "out"_a, "threads"_a, "How many bits are set before each place.")
      .def(
          "select",
          [](const Bitmap& b, In numbers, Out out, int threads) {
            each(numbers, out, threads, b.count(), "number of a kept record", [&](std::int64_t number) { return b.select(number); });
          },
          "numbers"_a, "out"_a, "threads"_a, "The places of the set bits with these numbers.");
}
