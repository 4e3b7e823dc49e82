// The records of a batch, from wherever they lie in mapped shards straight into the batch's columns.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mds.hpp"

namespace tombola {

struct Row {
  const MdsView* shard;
  std::int64_t record;
};

struct GatherFault {
  Fault fault = Fault::none;
  std::int64_t row = -1;
};

// Memory that is not cleared before it is filled.
struct Memory {
  std::unique_ptr<std::uint8_t[]> data;
  std::uint64_t bytes = 0;
};

struct GatheredColumn {
  Memory data;
  std::unique_ptr<std::int64_t[]> offsets;  // rows + 1 of them; none for a column of one size
};

// Reads the rows with up to so many threads. wanted are places in sizes. On a fault, which is that of the first
// row that has one, whatever the threads, nothing is returned.
GatherFault gather(std::span<const Row> rows, std::span<const std::int64_t> sizes,
                   std::span<const std::int64_t> wanted, int threads, std::vector<GatheredColumn>& out);

}  // namespace tombola
