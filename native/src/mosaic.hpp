// The exact MosaicML orders: bit for bit the record order of mosaicml-streaming 0.13.0 under NumPy 2.1.3, and of its
// earlier py1b. They need O(records), add seeds and repeat records, as the original does. T is int32 where the
// records fit, int64 elsewhere; the results are the same.
#pragma once
#include <cstdint>
#include <vector>

#include "pcg64.hpp"

namespace tombola::mosaic {

// Generator.shuffle of x[0 … n).
template <class T>
void shuffle(T* x, std::int64_t n, Pcg64& draws);

// Generator.choice(n, k, replace=False), in its order.
std::vector<std::int64_t> choose(std::int64_t n, std::int64_t k, Pcg64& draws);

enum class Name : int { naive, py1b, py1s, py2s, py1br, py1e };

struct Block {
  std::int64_t records;    // py1b: what is shuffled at a time
  std::int64_t low, high;  // py1br, py1e: a block is drawn from low … high − 1; py1br's stagger from 0 … low − 1
};

// ids[virtual position] = virtual record, for units[0 … count) laid end to end: sum(units) entries.
template <class T>
void order(Name name, const std::int64_t* units, std::int64_t count, std::int64_t canonical_nodes, std::uint64_t seed,
           std::uint64_t epoch, Block block, T* ids);

// out[i] = the i-th of the n 32-bit numbers that fill the upper half of out[0 … n), in place.
void widen(std::int64_t* out, std::int64_t n);

// Records each shard gives, when `chosen` are wanted of sum(sizes) and are picked `granularity` at a time.
void sample_shards(const std::int64_t* sizes, std::int64_t shards, std::int64_t chosen, std::int64_t granularity,
                   std::uint64_t seed, std::int64_t* counts);

// The records of counts[s] draws from each shard s: whole passes, then a sorted random remainder. One generator runs
// through all shards. `records` has sum(counts) entries; returns the units.
template <class T>
std::vector<std::int64_t> sample_records(const std::int64_t* starts, const std::int64_t* sizes,
                                         const std::int64_t* counts, std::int64_t shards, std::uint64_t seed,
                                         T* records);

// Who reads which virtual position: (nodes, ranks, workers, batches, batch) entries, −1 where there is nothing left.
struct Deal {
  std::int64_t records, canonical_nodes, nodes, ranks, workers, batch, drop_first;
  std::int64_t row;            // entries of a canonical node's row, the padding included
  std::int64_t filled;         // of which come before the padding
  const std::int64_t* pads;    // places of the row that the padding repeats; row − filled of them
  bool tiled;                  // fewer records than canonical nodes: 0 … records − 1 over and over

  std::int64_t per_node() const { return (canonical_nodes * row - drop_first) / nodes; }
  std::int64_t per_rank() const { return (per_node() + ranks - 1) / ranks; }
  std::int64_t batches_per_worker() const { return (per_rank() + workers * batch - 1) / (workers * batch); }
};

// out[…] = records_of[ids[virtual position]]; either table may be null, which means it maps a number to itself.
template <class T, class Out>
void deal(const Deal& how, const T* ids, const T* records_of, Out* out, int threads);

// The inverse of order[0 … positions), in which a record may come any number of times: record r is read at the rising
// positions found[starts[r] … starts[r + 1]). `starts` has records + 1 entries, `found` as many as there are positions.
template <class T>
void find_table(const T* order, std::int64_t positions, std::int64_t records, T* starts, T* found);

}  // namespace tombola::mosaic
