// The core of the orders that combine streams, without Python: what is defined holds, and both ways agree.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "bitmap.hpp"
#include "combine.hpp"
#include "keys.hpp"
#include "permutation.hpp"
#include "weave.hpp"

using tombola::Bitmap;
using tombola::Weave;
using Ints = std::vector<std::int64_t>;

namespace {

std::int64_t draw(std::uint64_t& state, std::int64_t n) {
  return static_cast<std::int64_t>(tombola::below(tombola::word(state++, 0), static_cast<std::uint64_t>(n)));
}

Ints sequence_of(const Ints& weights) {
  Ints out(static_cast<std::size_t>(std::accumulate(weights.begin(), weights.end(), std::int64_t{0})));
  tombola::chairman(weights.data(), static_cast<std::int64_t>(weights.size()), out.data());
  return out;
}

}  // namespace

TEST_CASE("every prefix of a sequence is within one of every share") {
  std::uint64_t state = 1;
  for (int trial = 0; trial < 300; ++trial) {
    Ints weights(static_cast<std::size_t>(1 + draw(state, 8)));
    for (auto& weight : weights) weight = draw(state, 30);
    weights[0] += 1;
    const Ints sequence = sequence_of(weights);
    const auto total = static_cast<std::int64_t>(sequence.size());
    Ints count(weights.size(), 0);
    for (std::int64_t t = 0; t < total; ++t) {
      ++count[static_cast<std::size_t>(sequence[static_cast<std::size_t>(t)])];
      for (std::size_t i = 0; i < weights.size(); ++i) {
        REQUIRE(std::abs(count[i] * total - (t + 1) * weights[i]) < total);
      }
    }
    CHECK(count == weights);
  }
}

TEST_CASE("fractions add up and fit their shards") {
  std::uint64_t state = 2;
  for (int trial = 0; trial < 500; ++trial) {
    Ints sizes(static_cast<std::size_t>(1 + draw(state, 20)));
    for (auto& size : sizes) size = 1 + draw(state, 50);
    const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const std::int64_t total = draw(state, all);
    const std::int64_t granularity = trial % 3 == 0 ? 1 : 1 + draw(state, 80);
    Ints out(sizes.size());
    tombola::deal_fractions(sizes.data(), static_cast<std::int64_t>(sizes.size()), total, granularity, state, out.data());
    CHECK(std::accumulate(out.begin(), out.end(), std::int64_t{0}) == total);
    for (std::size_t s = 0; s < sizes.size(); ++s) CHECK((out[s] >= 0 && out[s] <= sizes[s]));
  }
}

TEST_CASE("bitmaps count and find") {
  std::uint64_t state = 3;
  for (const std::int64_t size : {1, 63, 64, 65, 511, 512, 513, 5000, 70000}) {
    for (const std::int64_t every : {1, 2, 50, 3000}) {
      std::vector<std::uint64_t> words(static_cast<std::size_t>((size + 63) / 64), 0);
      Ints set;
      for (std::int64_t i = 0; i < size; ++i) {
        if (draw(state, every) != 0) continue;
        words[static_cast<std::size_t>(i / 64)] |= std::uint64_t{1} << (i % 64);
        set.push_back(i);
      }
      const Bitmap bitmap(words.data(), static_cast<std::int64_t>(words.size()));
      REQUIRE(bitmap.count() == static_cast<std::int64_t>(set.size()));
      for (std::size_t k = 0; k < set.size(); ++k) {
        REQUIRE(bitmap.select(static_cast<std::int64_t>(k)) == set[k]);
        REQUIRE(bitmap.rank(set[k]) == static_cast<std::int64_t>(k));
      }
      CHECK(bitmap.rank(size) == bitmap.count());
    }
  }
}

TEST_CASE("what a lane reads, counted along, is what locate, find and count say, in every kind of pattern") {
  std::uint64_t state = 4;
  for (int trial = 0; trial < 120; ++trial) {
    const std::int64_t lanes = 1 + draw(state, 5), streams = 1 + draw(state, 4), block = 1 + draw(state, 3);
    const bool many = trial % 3 == 0;  // as many columns as lanes
    Weave weave(lanes, 1, block, lanes * block * 40, Ints(static_cast<std::size_t>(streams), lanes * 7 + 1));
    std::int64_t start = 0;
    for (int segment = 0; segment < 3; ++segment) {
      Ints weights(static_cast<std::size_t>(streams));
      for (auto& weight : weights) weight = draw(state, 4);
      weights[static_cast<std::size_t>(draw(state, streams))] += 1;
      Ints grid = sequence_of(weights);
      if (many) {
        const auto once = grid.size();
        for (std::size_t k = 0; k < once * static_cast<std::size_t>(lanes - 1); ++k) grid.push_back(grid[k]);
      }
      const std::int64_t columns = many ? lanes : 1;
      const auto rows = static_cast<std::int64_t>(grid.size()) / columns;
      Ints starts(static_cast<std::size_t>(lanes), start), phases(starts), column(starts.size(), 0);
      for (std::size_t c = 0; c < starts.size(); ++c) {
        phases[c] = draw(state, rows);
        column[c] = many ? draw(state, lanes) : 0;
      }
      weave.add_segment(grid.data(), rows, columns, 1, starts.data(), phases.data(), column.data(),
                        trial % 2 == 0 ? std::optional<std::uint64_t>(state) : std::nullopt, segment > 0 && !many);
      start += 1 + draw(state, 40);
    }
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      Ints seen(static_cast<std::size_t>(streams), 0);
      for (std::int64_t place = 0; place < (start + 60) * block; ++place) {
        for (std::int64_t i = 0; i < streams; ++i) REQUIRE(weave.count(lane, i, place) == seen[static_cast<std::size_t>(i)]);
        const Weave::Spot spot = weave.locate(lane, place);
        REQUIRE(spot.place == seen[static_cast<std::size_t>(spot.stream)]++);
        REQUIRE(weave.find(lane, spot.stream, spot.place) == place);
      }
    }
  }
}

TEST_CASE("lanes spread along a sequence within the bound that is given for all of them") {
  std::uint64_t state = 5;
  for (int trial = 0; trial < 60; ++trial) {
    Ints weights(static_cast<std::size_t>(2 + draw(state, 4)));
    for (auto& weight : weights) weight = 1 + draw(state, 12);
    const Ints sequence = sequence_of(weights);
    const auto total = static_cast<std::int64_t>(sequence.size());
    const std::int64_t lanes = 1 + draw(state, 32);
    const auto spread = tombola::spread_phases(sequence.data(), total, weights.data(),
                                               static_cast<std::int64_t>(weights.size()), lanes);
    REQUIRE(spread.deviation >= 0);
    for (std::int64_t turn = 0; turn < total; turn += 1 + total / 7) {
      Ints count(weights.size(), 0);
      std::int64_t position = 0;
      for (std::int64_t row = 0; row < 2 * total; ++row) {
        for (std::int64_t c = 0; c < lanes; ++c) {
          const std::int64_t at = (tombola::phase_of_lane(c, spread.multiplier, total) + turn + row) % total;
          ++count[static_cast<std::size_t>(sequence[static_cast<std::size_t>(at)])];
          ++position;
          for (std::size_t i = 0; i < weights.size(); ++i) {
            REQUIRE(std::abs(count[i] * total - position * weights[i]) <= spread.deviation);
          }
        }
      }
    }
  }
}
