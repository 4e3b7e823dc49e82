// Streams combined: what part of each shard a fractional repeat takes, and which record a place on the line of all
// repeats is.
#pragma once
#include <cstdint>

namespace tombola {

// How many records each shard gives to a fractional repeat of `total` records, 0 ≤ total < the sum of the sizes.
// Each shard consists of picks of `granularity` records, the last one shorter. The shards lie in a keyed order on a
// line, and picks are taken at even distances along it from a keyed offset on (systematic sampling), so every pick is
// as likely as any other. What is then missing from the total, or too much, is made up by the first shards of the
// line.
void deal_fractions(const std::int64_t* sizes, std::int64_t shards, std::int64_t total, std::int64_t granularity,
                    std::uint64_t key, std::int64_t* out);

// The line of units: every whole repeat of a shard, and its fractional one, which is the prefix of a permutation of
// the shard keyed by child(key, shard).
struct Units {
  const std::int64_t* unit_start;  // units + 1
  const std::int64_t* unit_shard;
  const std::uint8_t* unit_whole;
  const std::int64_t* shard_start;  // shards + 1
  std::int64_t units;
  std::int64_t shards;
  std::uint64_t key;

  void at(const std::int64_t* on_line, std::int64_t* records, std::int64_t count) const;
  // The place a record of a shard has in the permutation of the shard: below the size of the fraction, it is taken.
  std::int64_t find_in_fraction(std::int64_t shard, std::int64_t offset) const;
};

}  // namespace tombola
