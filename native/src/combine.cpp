#include "combine.hpp"

#include <algorithm>
#include <vector>

#include "keys.hpp"
#include "permutation.hpp"
#include "search.hpp"

namespace tombola {
namespace {

__extension__ using u128 = unsigned __int128;

// Permutations of a few hundred shards at hand: neighbours on a slice come from as many shards as there are lanes.
class PermutationCache {
 public:
  static constexpr std::size_t kSlots = 256;

  const Permutation& get(std::int64_t shard, std::int64_t size, std::uint64_t key) {
    if (shards_.empty()) {
      shards_.assign(kSlots, -1);
      permutations_.assign(kSlots, Permutation(1, 0));
    }
    const std::size_t slot = static_cast<std::size_t>(shard) % kSlots;
    if (shards_[slot] != shard) {
      shards_[slot] = shard;
      permutations_[slot] = Permutation(size, child(key, static_cast<std::uint64_t>(shard)));
    }
    return permutations_[slot];
  }

 private:
  std::vector<std::int64_t> shards_;
  std::vector<Permutation> permutations_;
};

}  // namespace

void deal_fractions(const std::int64_t* sizes, std::int64_t shards, std::int64_t total, std::int64_t granularity,
                    std::uint64_t key, std::int64_t* out) {
  std::int64_t all = 0;
  for (std::int64_t s = 0; s < shards; ++s) all += sizes[s];
  const std::uint64_t offset = below(word(key, 0), static_cast<std::uint64_t>(all));
  const std::uint64_t short_key = child(key, 1);
  const Permutation line(shards, child(key, 0));
  std::int64_t picks_passed = 0, picks_taken = 0, given = 0;
  for (std::int64_t place = 0; place < shards; ++place) {
    const std::int64_t s = line.at(place), size = sizes[s], picks = (size - 1) / granularity + 1;
    picks_passed += picks;
    const auto due = static_cast<std::int64_t>(
        (static_cast<u128>(total) * static_cast<u128>(picks_passed) + offset) / static_cast<u128>(all));
    const std::int64_t taken = due - picks_taken;
    picks_taken = due;
    // The last pick of a shard is the short one; it is among those taken as likely as any other.
    const bool has_short = static_cast<std::int64_t>(below(word(short_key, static_cast<std::uint64_t>(s)),
                                                           static_cast<std::uint64_t>(picks))) < taken;
    out[s] = has_short ? size - (picks - taken) * granularity : taken * granularity;
    given += out[s];
  }
  for (std::int64_t place = 0; given != total; ++place) {
    const std::int64_t s = line.at(place);
    const std::int64_t more = std::clamp(total - given, -out[s], sizes[s] - out[s]);
    out[s] += more;
    given += more;
  }
}

void Units::at(const std::int64_t* on_line, std::int64_t* records, std::int64_t count) const {
  PermutationCache cache;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t unit = last_not_above(unit_start, units, on_line[i]);
    const std::int64_t shard = unit_shard[unit], first = shard_start[shard];
    std::int64_t offset = on_line[i] - unit_start[unit];
    if (unit_whole[unit] == 0) {
      const std::int64_t size = shard_start[shard + 1] - first;
      offset = count < 64 ? Permutation(size, child(key, static_cast<std::uint64_t>(shard))).at(offset)
                          : cache.get(shard, size, key).at(offset);
    }
    records[i] = first + offset;
  }
}

std::int64_t Units::find_in_fraction(std::int64_t shard, std::int64_t offset) const {
  const std::int64_t size = shard_start[shard + 1] - shard_start[shard];
  return Permutation(size, child(key, static_cast<std::uint64_t>(shard))).find(offset);
}

}  // namespace tombola
