// The exact shuffle, in place: the permutation "exact" of (n, key), uniform over all n! orders.
//
// docs/reference/arrays.md defines it in words, tombola/arrays/_slow.py is the same in Python, tests/vectors pin it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "arrays_tasks.hpp"
#include "mover.hpp"

namespace tombola {

// Whether a scatter of small rows deals them in memory of its own (arrays_deal.hpp).
enum class Near { never, always, if_faster };

// Where the method changes from one step to another. The permutation is a function of these too: the defaults are part
// of the method's name and never change. Tests force them small, so that six rows go through every step.
struct Tuning {
  std::uint64_t leaf_max = 1 << 16;    // up to so many rows: Fisher–Yates
  std::uint64_t leaf_aim = 1 << 15;    // the mean leaf when there are more
  int fan_bits_max = 8;                // a scatter deals to 2^this buckets at most
  std::uint64_t margin = 64;           // a scatter ends when a slice has room for fewer rows
  std::uint64_t slice_min = 1 << 14;   // a scatter has no more tasks than leave this many rows to a slice
  std::uint64_t tasks_max = 32;
  std::uint64_t stagger_min = 1024;    // from this many rows to a region on, regions begin in different cache sets
  std::uint64_t displaced_aim = 4 << 20;  // bytes of displaced rows to keep aside at a time: changes no result
  std::uint64_t file_run_min = 16 << 10;   // bytes written to a bucket of a file at once, if it can be: nor does this
  Near near = Near::if_faster;             // nor this
  std::uint64_t near_spreads = 6;          // nor this: how much more than the mean a slot there has room for
};

// The n rows of an array, shuffled with up to `threads` threads. False when it was stopped: the rows are all there then,
// in some order. The stash of the rows that a scatter displaces is the only memory taken. Rows have at most kDirectMax
// bytes; larger ones are cheaper to follow (arrays_follow.hpp).
inline constexpr std::uint64_t kDirectMax = 512;
bool exact_shuffle(const Strided& array, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop,
                   const Tuning& tuning = {});

// One bucket of the first scatter, read from a file: what exact_shuffle does with each.
void exact_bucket(std::byte* data, std::uint64_t n, std::uint64_t row_bytes, std::uint64_t key, const Tuning& tuning);

}  // namespace tombola
