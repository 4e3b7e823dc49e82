// The permutation "exact" of rows in a file too large for memory: the first scatter reads one file and writes another
// by buffers, then each bucket is read, shuffled in memory and written back. Two passes over the rows.
#pragma once
#include <cstdint>

#include "arrays_exact.hpp"

namespace tombola {

struct FileLayout {
  int source, target;        // file descriptors; the target has its full size already
  std::uint64_t skip;        // bytes before the first row, the same in both
  std::uint64_t rows, row_bytes;
  std::uint64_t memory_bytes_max;
};

// What such a shuffle needs at least; more lets it read and write longer runs. 0 when the rows are so few that there
// is no first scatter.
std::uint64_t exact_file_memory(std::uint64_t rows, std::uint64_t row_bytes, const Tuning& tuning = {});

// Throws std::system_error when a file cannot be read or written. False when it was stopped.
bool exact_file(const FileLayout& file, std::uint64_t key, int threads, const Stop& stop, const Tuning& tuning = {});

}  // namespace tombola
