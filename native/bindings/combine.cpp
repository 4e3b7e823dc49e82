#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "combine.hpp"
#include "parallel.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using tombola::Units;

namespace {

using In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
constexpr std::int64_t kGrain = std::int64_t{1} << 15;

void same_size(std::size_t one, std::size_t two) {
  if (one != two) throw std::invalid_argument("the arrays differ in length");
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
            new (self) Units{unit_start.data(),  unit_shard.data(), unit_whole.data(),
                             shard_start.data(), static_cast<std::int64_t>(unit_shard.shape(0)), key};
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
            for (std::size_t i = 0; i < out.shape(0); ++i) {
              out.data()[i] = u.find_in_fraction(shard.data()[i], offset.data()[i]);
            }
          },
          "shard"_a, "offset"_a, "out"_a);
}
