// Moves rows once, in place, to where a permutation wants them: for rows too large to be moved several times, and for
// rows that do not lie side by side.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arrays_exact.hpp"
#include "mover.hpp"

namespace tombola {

// Row i becomes what row from[i] was, in all the arrays. Destroys `from`. T: std::uint32_t or std::uint64_t.
template <class T>
void follow(T* from, std::uint64_t n, const std::vector<Strided>& arrays, int threads);

// The permutation "exact" of (n, key), the same for all the arrays. Each goes the way that suits its rows: moved
// directly, or once along the permutation, which is computed for itself then and costs four bytes a row (eight from 2^32
// rows on). False when it was stopped; several arrays are not, as they would not be in step any more.
bool exact_arrays(const std::vector<Strided>& arrays, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop,
                  std::uint64_t follow_from, const Tuning& tuning = {});

// out[i] = which row comes to place i
bool exact_permutation(std::int64_t* out, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop,
                       const Tuning& tuning = {});

// The permutation "exact_gpu1": Fisher–Yates upwards, place k drawing from the key's words. In parallel on a GPU, in
// sequence here. T: std::uint32_t, std::uint64_t or std::int64_t. False when it was stopped.
template <class T>
bool gpu1_permutation(T* out, std::uint64_t n, std::uint64_t key, const Stop& stop);

// "exact_gpu1" for arrays in memory. False when it was stopped, before any row has moved.
bool gpu1_arrays(const std::vector<Strided>& arrays, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop);

}  // namespace tombola
