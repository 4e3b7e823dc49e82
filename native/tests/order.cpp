// The core against the golden vectors, without Python: at, find and slice of permutations and of the lanes order.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "keys.hpp"
#include "lanes.hpp"
#include "permutation.hpp"

using nlohmann::json;
using tombola::LaneEpoch;
using tombola::Line;
using tombola::Permutation;
using Ints = std::vector<std::int64_t>;

extern std::string vectors_folder;

namespace {

json cases(const std::string& name) {
  std::ifstream file(vectors_folder + "/" + name);
  REQUIRE_MESSAGE(file.good(), "cannot read ", vectors_folder, "/", name);
  return json::parse(file).at("cases");
}

std::uint64_t key_of(const json& hexadecimal) { return std::stoull(hexadecimal.get<std::string>(), nullptr, 16); }

// The first record of each shard that has any, and the end.
Ints starts_of(const json& layout) {
  Ints sizes;
  if (layout.contains("equal")) {
    sizes.assign(layout["equal"][0].get<std::size_t>(), layout["equal"][1].get<std::int64_t>());
  } else {
    sizes = layout["sizes"].get<Ints>();
  }
  Ints starts{0};
  for (const std::int64_t size : sizes) {
    if (size > 0) starts.push_back(starts.back() + size);
  }
  return starts;
}

// What a case asks and what it promises: (positions, records).
std::pair<Ints, Ints> asked(const json& c, std::int64_t length) {
  if (c.contains("inputs")) return {c["inputs"].get<Ints>(), c["outputs"].get<Ints>()};
  Ints positions(static_cast<std::size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  return {positions, c["records"].get<Ints>()};
}

void check_permutation(const Permutation& p, const Ints& inputs, const Ints& outputs) {
  const auto count = static_cast<std::int64_t>(inputs.size());
  Ints got(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CHECK(p.at(inputs[i]) == outputs[i]);
    CHECK(p.find(outputs[i]) == inputs[i]);
  }
  p.at(inputs.data(), got.data(), count);
  CHECK(got == outputs);
  p.find(outputs.data(), got.data(), count);
  CHECK(got == inputs);
  got = inputs;  // in and out may be the same memory
  p.at(got.data(), got.data(), count);
  CHECK(got == outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::int64_t pair[2];
    const std::int64_t size = std::min<std::int64_t>(2, p.size() - inputs[i]);
    p.run(inputs[i], size, pair);
    CHECK(pair[0] == outputs[i]);
    if (size == 2) CHECK(pair[1] == p.at(inputs[i] + 1));
  }
}

std::unique_ptr<LaneEpoch> lanes_of(const json& c, const Ints& starts, int threads) {
  const json &keys = c["keys"], &options = c["options"];
  auto line = std::make_shared<Line>(starts.data(), static_cast<std::int64_t>(starts.size()) - 1,
                                     c["lanes"].get<std::int64_t>(), key_of(keys["home"]), threads);
  const tombola::Window window{options.value("window", std::int64_t{0}), options.value("window_records", std::int64_t{0})};
  return std::make_unique<LaneEpoch>(
      std::move(line), tombola::LaneKeys{key_of(keys["parts"]), key_of(keys["records"]), key_of(keys["window"]), key_of(keys["phase"])}, window,
      options.value("phase", "spread") == "spread", threads);
}

}  // namespace

TEST_CASE("permutations are those of the vectors") {
  int seen = 0;
  for (const json& c : cases("permutation.json")) {
    CAPTURE(c["n"].dump());
    const Permutation p(c["n"].get<std::int64_t>(), key_of(c["key"]));
    check_permutation(p, c["inputs"].get<Ints>(), c["outputs"].get<Ints>());
    ++seen;
  }
  CHECK(seen > 50);
}

TEST_CASE("the global order is the permutation of its key") {
  int seen = 0;
  for (const json& c : cases("global.json")) {
    CAPTURE(c["layout"].dump());
    const std::int64_t records = starts_of(c["layout"]).back();
    const auto [positions, wanted] = asked(c, records);
    check_permutation(Permutation(records, key_of(c["keys"]["permutation"])), positions, wanted);
    ++seen;
  }
  CHECK(seen > 10);
}

TEST_CASE("lanes are those of the vectors") {
  int seen = 0;
  for (const json& c : cases("lanes.json")) {
    CAPTURE(c["layout"].dump());
    CAPTURE(c["options"].dump());
    CAPTURE(c["epoch"].dump());
    const Ints starts = starts_of(c["layout"]);
    const auto epoch = lanes_of(c, starts, 2);
    const auto [positions, wanted] = asked(c, starts.back());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      CHECK(epoch->at(positions[i]) == wanted[i]);
      CHECK(epoch->find(wanted[i]) == positions[i]);
    }
    ++seen;
  }
  CHECK(seen > 100);
}

TEST_CASE("a slice is what at gives, for every step that divides the lanes, with any threads") {
  for (const json& c : cases("lanes.json")) {
    CAPTURE(c["layout"].dump());
    CAPTURE(c["options"].dump());
    const Ints starts = starts_of(c["layout"]);
    const auto epoch = lanes_of(c, starts, 1);
    const std::int64_t length = starts.back(), lanes = epoch->line().lanes();
    for (std::int64_t step = 1; step <= lanes; ++step) {
      if (lanes % step != 0) continue;
      for (const std::int64_t start : {std::int64_t{0}, length / 3, length - 1}) {
        const std::int64_t count = std::min<std::int64_t>((length - start + step - 1) / step, 300);
        Ints got(static_cast<std::size_t>(count));
        for (const int threads : {1, 3}) {
          epoch->slice(start, step, count, got.data(), threads);
          for (std::int64_t k = 0; k < count; ++k) {
            REQUIRE(got[static_cast<std::size_t>(k)] == epoch->at(start + k * step));
          }
        }
      }
    }
  }
}

TEST_CASE("visits hold every record of every lane") {
  for (const json& c : cases("lanes.json")) {
    const Ints starts = starts_of(c["layout"]);
    if (starts.back() > 1000) continue;
    CAPTURE(c["layout"].dump());
    CAPTURE(c["options"].dump());
    const auto epoch = lanes_of(c, starts, 1);
    const tombola::Visits v = epoch->visits();
    const std::int64_t lanes = epoch->line().lanes();
    for (std::int64_t t = 0; t < starts.back(); ++t) {
      const std::int64_t record = epoch->at(t);
      bool held = false;
      for (std::size_t i = 0; i < v.lane.size(); ++i) {
        held = held || (v.lane[i] == t % lanes && v.first[i] <= t && t <= v.last[i] && v.record_begin[i] <= record &&
                        record < v.record_end[i]);
      }
      CHECK(held);
    }
  }
}

TEST_CASE("children of a key are neither its words nor each other's") {
  Ints seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    seen.push_back(static_cast<std::int64_t>(tombola::child(7, i)));
    seen.push_back(static_cast<std::int64_t>(tombola::word(7, i)));
    seen.push_back(static_cast<std::int64_t>(tombola::child(tombola::child(7, 1), i)));
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}
