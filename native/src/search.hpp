#pragma once
#include <cstdint>

namespace tombola {

// The last index i of sorted[0 … count) with sorted[i] <= value; sorted[0] <= value.
inline std::int64_t last_not_above(const std::int64_t* sorted, std::int64_t count, std::int64_t value) {
  std::int64_t low = 0;
  while (count > 1) {  // branch-free halving: the compiler makes a conditional move of it
    const std::int64_t half = count / 2;
    low += (sorted[low + half] <= value) ? half : 0;
    count -= half;
  }
  return low;
}

}  // namespace tombola
