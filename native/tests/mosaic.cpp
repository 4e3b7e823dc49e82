// The exact MosaicML orders against the peer's own outputs, without Python: shuffles, samplings, deals, and NumPy's draws.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "mosaic.hpp"

using nlohmann::json;
using tombola::Pcg64;
namespace mosaic = tombola::mosaic;
using Ints = std::vector<std::int64_t>;

extern std::string vectors_folder;

namespace {

json load(const std::string& name) {
  std::ifstream file(vectors_folder + "/mosaic/" + name);
  REQUIRE_MESSAGE(file.good(), "cannot read ", vectors_folder, "/mosaic/", name);
  return json::parse(file);
}

mosaic::Name name_of(const std::string& name) {
  const std::vector<std::string> names{"naive", "py1b", "py1s", "py2s", "py1br", "py1e"};
  return static_cast<mosaic::Name>(std::find(names.begin(), names.end(), name) - names.begin());
}

template <class T>
Ints ordered(const json& c) {
  const Ints units = c["shard_sizes"].get<Ints>();
  const auto block = c["block_size"].get<std::int64_t>();
  std::vector<T> ids(static_cast<std::size_t>(std::accumulate(units.begin(), units.end(), std::int64_t{0})));
  const mosaic::Block range{block, static_cast<std::int64_t>(0.75 * static_cast<double>(block)),
                            static_cast<std::int64_t>(1.25 * static_cast<double>(block))};
  mosaic::order<T>(name_of(c["algo"]), units.data(), static_cast<std::int64_t>(units.size()), c["num_canonical_nodes"],
                   c["seed"], c["epoch"], range, ids.data());
  return {ids.begin(), ids.end()};
}

}  // namespace

TEST_CASE("shuffles are the peer's") {
  int checked = 0;
  for (const auto* file : {"order.json", "peer.json"}) {
    const json given = load(file);
    for (const json& c : given["shuffle"]) {
      if (c.contains("error")) continue;  // refused in Python, before it comes here
      const Ints wanted = c["ids"].get<Ints>();
      CHECK(ordered<std::int32_t>(c) == wanted);
      CHECK(ordered<std::int64_t>(c) == wanted);
      ++checked;
    }
  }
  CHECK(checked > 200);
}

TEST_CASE("samplings are the peer's") {
  for (const auto* file : {"order.json", "peer.json"}) {
    const json given = load(file);
    for (const json& c : given["sampling"]) {
      const Ints sizes = c["samples_per_shard"].get<Ints>();
      const std::uint64_t epoch = c["use_epoch"].get<bool>() ? c["epoch"].get<std::uint64_t>() : 0;
      Ints counts(sizes.size());
      mosaic::sample_shards(sizes.data(), static_cast<std::int64_t>(sizes.size()), c["choose"], c["granularity"],
                            c["seed"].get<std::uint64_t>() + epoch, counts.data());
      CHECK(counts == c["choose_per_shard"].get<Ints>());
    }
  }
}

TEST_CASE("deals are the peer's") {
  int checked = 0;
  const json given = load("order.json");
  for (const json& c : given["partition"]) {
    const std::int64_t records = c["num_samples"], canonical = c["num_canonical_nodes"], nodes = c["num_physical_nodes"];
    // The plain ones; rows with padding and numbers that do not divide are Python's to prepare.
    if (canonical % nodes != 0 || records < canonical || !c["initial_physical_nodes"].is_null()) continue;
    const std::int64_t row = (records + canonical - 1) / canonical, drop = c["drop_first"].get<std::int64_t>();
    const mosaic::Deal how{records,        canonical, nodes, c["ranks_per_node"], c["workers_per_rank"],
                           c["batch_size"], drop - drop % nodes, row, row, nullptr, false};
    const Ints wanted = c["ids"].get<Ints>();
    for (const int threads : {1, 3}) {
      Ints out(wanted.size());
      mosaic::deal<std::int64_t, std::int64_t>(how, nullptr, nullptr, out.data(), threads);
      CHECK(out == wanted);
    }
    ++checked;
  }
  CHECK(checked >= 4);
}

TEST_CASE("draws made many at a time are those made one by one") {
  for (const std::uint64_t seed : {0u, 7u, 9176u}) {
    for (const std::int64_t n : {1, 2, 255, 257, 5000, 140'000}) {
      Pcg64 many(seed), one(seed);
      many.next32();  // a half waits: the batches have to take it first
      one.next32();
      std::vector<std::int32_t> fast(static_cast<std::size_t>(n)), slow(static_cast<std::size_t>(n));
      std::iota(fast.begin(), fast.end(), 0);
      std::iota(slow.begin(), slow.end(), 0);
      mosaic::shuffle(fast.data(), n, many);
      for (auto i = static_cast<std::size_t>(n) - 1; i > 0; --i) std::swap(slow[i], slow[one.interval(i)]);
      CHECK(fast == slow);
      CHECK(many.next32() == one.next32());
      std::vector<double> units(7);
      many.units(units.size(), units.data());
      for (const double unit : units) CHECK(unit == one.unit());
    }
  }
}
