#include "arrays_pov.hpp"

#include <bit>
#include <cstring>

#include "arrays_rows.hpp"
#include "keys.hpp"
#include "mover.hpp"
#include "permutation.hpp"

namespace tombola {
namespace {

constexpr std::uint64_t kBufferMax = 1 << 20;  // bytes of a virtual block that are copied aside; larger ones swap rows

// One iteration: what all its virtual blocks share.
struct Round {
  std::uint64_t n, blocks, per_virtual, block_rows, offset, bits_key;
  Permutation deal;

  Round(std::uint64_t rows, const PovSteps& s, std::uint64_t key)
      : n(rows), blocks((rows + s.physical_block_size - 1) / s.physical_block_size),
        per_virtual(s.virtual_block_size), block_rows(s.physical_block_size),
        offset(s.offsets[below(word(key, 0), s.offsets.size())]), bits_key(child(key, 2)),
        deal(static_cast<std::int64_t>(blocks), child(key, 1)) {}

  std::uint64_t virtual_blocks() const { return (blocks + per_virtual - 1) / per_virtual; }
};

// The scratch of one worker.
struct Local {
  std::vector<std::uint64_t> places;  // the rows of the virtual block, in the order of its slots
  std::vector<std::uint64_t> drawn;   // random bits above, the slot's number below; then sorted
  std::vector<std::uint64_t> sorted;
  std::vector<std::uint32_t> counts;
  std::vector<std::byte> rows;
};

void list_places(const Round& round, std::uint64_t v, Local& local) {
  local.places.clear();
  local.drawn.clear();
  const std::uint64_t bits = word(round.bits_key, v);
  const auto low = static_cast<std::uint32_t>(bits), high = static_cast<std::uint32_t>(bits >> 32);
  const std::uint64_t first = v * round.per_virtual, last = std::min(first + round.per_virtual, round.blocks);
  for (std::uint64_t i = first; i < last; ++i) {
    const auto begin = static_cast<std::uint64_t>(round.deal.at(static_cast<std::int64_t>(i))) * round.block_rows;
    const std::uint64_t rows = std::min(round.block_rows, round.n - begin);
    for (std::uint64_t k = 0; k < rows; ++k) {
      const std::uint64_t place = begin + k + round.offset;
      const auto slot = static_cast<std::uint32_t>((i - first) * round.block_rows + k);
      local.drawn.push_back(static_cast<std::uint64_t>(mix32(mix32(slot ^ low) ^ high)) << 32 | local.places.size());
      local.places.push_back(place < round.n ? place : place - round.n);
    }
  }
}

// Sorts local.drawn: dealt by their leading bits, about one to a bin, then put right by insertion.
void sort_drawn(Local& local) {
  const std::size_t n = local.drawn.size();
  const int shift = 64 - std::max(static_cast<int>(std::bit_width(n)), 1);
  local.counts.assign((std::size_t{1} << (64 - shift)) + 1, 0);
  for (const std::uint64_t x : local.drawn) ++local.counts[(x >> shift) + 1];
  for (std::size_t i = 1; i < local.counts.size(); ++i) local.counts[i] += local.counts[i - 1];
  local.sorted.resize(n);
  for (const std::uint64_t x : local.drawn) local.sorted[local.counts[x >> shift]++] = x;
  for (std::size_t i = 1; i < n; ++i) {
    const std::uint64_t x = local.sorted[i];
    std::size_t k = i;
    for (; k > 0 && local.sorted[k - 1] > x; --k) local.sorted[k] = local.sorted[k - 1];
    local.sorted[k] = x;
  }
}

std::size_t source(const Local& local, std::size_t i) { return static_cast<std::uint32_t>(local.sorted[i]); }

template <std::uint64_t Bytes>
void exchange_fixed(std::byte* data, Local& local) {
  struct Row {
    std::byte bytes[Bytes];
  };
  Row* const rows = reinterpret_cast<Row*>(data);
  local.rows.resize(local.places.size() * Bytes);
  Row* const copies = reinterpret_cast<Row*>(local.rows.data());
  for (std::size_t i = 0; i < local.places.size(); ++i) copies[i] = rows[local.places[i]];
  for (std::size_t i = 0; i < local.places.size(); ++i) rows[local.places[i]] = copies[source(local, i)];
}

void exchange_copied(const Mover& mover, Local& local) {
  const std::uint64_t bytes = mover.row_bytes();
  local.rows.resize(local.places.size() * bytes);
  for (std::size_t i = 0; i < local.places.size(); ++i) mover.save(local.places[i], local.rows.data() + i * bytes);
  for (std::size_t i = 0; i < local.places.size(); ++i) {
    mover.restore(local.places[i], local.rows.data() + source(local, i) * bytes);
  }
}

// Along the cycles, with one row in hand: rows too large for a copy of the whole virtual block.
void exchange_swapped(const Mover& mover, Local& local) {
  std::vector<bool> done(local.places.size(), false);
  for (std::size_t start = 0; start < done.size(); ++start) {
    if (done[start] || source(local, start) == start) continue;
    mover.save(local.places[start], local.rows.data());
    std::size_t at = start;
    for (; source(local, at) != start; at = source(local, at)) {
      mover.move(local.places[at], local.places[source(local, at)]);
      done[at] = true;
    }
    mover.restore(local.places[at], local.rows.data());
    done[at] = true;
  }
}

void exchange(const Strided& array, Local& local) {
  if (array.axes.empty() && array.step == static_cast<std::int64_t>(array.bytes)) {
    switch (array.bytes) {
      case 1: return exchange_fixed<1>(array.base, local);
      case 2: return exchange_fixed<2>(array.base, local);
      case 4: return exchange_fixed<4>(array.base, local);
      case 8: return exchange_fixed<8>(array.base, local);
      case 16: return exchange_fixed<16>(array.base, local);
      case 64: return exchange_fixed<64>(array.base, local);
      case 256: return exchange_fixed<256>(array.base, local);
      default: break;
    }
  }
  const Mover mover(array);
  if (local.places.size() * mover.row_bytes() <= kBufferMax) {
    exchange_copied(mover, local);
  } else {
    local.rows.resize(mover.row_bytes());
    exchange_swapped(mover, local);
  }
}

}  // namespace

bool pov_arrays(const std::vector<Strided>& arrays, std::uint64_t n, std::uint64_t key, const PovSteps& steps,
                int threads, const Stop& stop) {
  if (n < 2) return true;
  const Stop allowed = arrays.size() == 1 ? stop : Stop{};
  std::vector<Local> locals(static_cast<std::size_t>(std::max(threads, 1)));
  for (int t = 0; t < steps.iterations; ++t) {
    const Round round(n, steps, child(key, static_cast<std::uint64_t>(t)));
    const bool done = run_tasks(
        static_cast<std::int64_t>(round.virtual_blocks()), threads, allowed, [&](std::int64_t v, int worker) {
          Local& local = locals[static_cast<std::size_t>(worker)];
          list_places(round, static_cast<std::uint64_t>(v), local);
          sort_drawn(local);
          for (const Strided& array : arrays) exchange(array, local);
        });
    if (!done) return false;
  }
  return true;
}

}  // namespace tombola
