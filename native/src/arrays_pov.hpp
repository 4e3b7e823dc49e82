// The parallel offset virtual-block shuffle, in place: the permutation "pov" of (n, key, steps). An approximation of a
// uniform shuffle that gets better with every iteration; the GPU kernels compute the same.
#pragma once
#include <cstdint>
#include <vector>

#include "arrays_follow.hpp"

namespace tombola {

struct PovSteps {
  int iterations;
  std::uint64_t virtual_block_size;   // physical blocks in a virtual block
  std::uint64_t physical_block_size;  // rows in a physical block
  std::vector<std::uint64_t> offsets; // where block 0 may begin
};

// False when it was stopped between two virtual blocks; several arrays are not.
bool pov_arrays(const std::vector<Strided>& arrays, std::uint64_t n, std::uint64_t key, const PovSteps& steps,
                int threads, const Stop& stop);

}  // namespace tombola
