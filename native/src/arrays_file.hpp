// The permutation "exact" of rows in a file too large for memory, written to another file in two passes over the rows.
//
// exact_file: the first scatter reads one file and writes another by windows, then each bucket is read, shuffled in
// memory and written back. exact_file_follow: the permutation is computed for itself, rows go to the bucket where it
// wants them, then each bucket is read in order and written back. That moves rows less, but takes memory for each.
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

std::uint64_t exact_file_follow_memory(std::uint64_t rows, std::uint64_t row_bytes, const Tuning& tuning = {});

// Throw std::system_error when a file cannot be read or written. False when it was stopped. The scatter is for rows of
// at most kDirectMax bytes.
bool exact_file(const FileLayout& file, std::uint64_t key, int threads, const Stop& stop, const Tuning& tuning = {});
bool exact_file_follow(const FileLayout& file, std::uint64_t key, int threads, const Stop& stop,
                       const Tuning& tuning = {});

}  // namespace tombola
