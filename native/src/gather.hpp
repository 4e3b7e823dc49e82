// The records of a batch, from wherever they lie in mapped shards straight into the batch's columns.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "mds.hpp"
#include "pool.hpp"

namespace tombola {

struct Row {
  const MdsView* shard;
  std::int64_t record;
};

struct GatherFault {
  Fault fault = Fault::none;
  std::int64_t row = -1;
};

struct GatheredColumn {
  Block data;
  Block offsets;  // rows + 1 int64; no memory for a column of one size
};

// Reads the rows with up to so many threads, into memory of the pool when there is one. wanted are places in sizes. On
// a fault, which is that of the first row that has one, whatever the threads, nothing is returned.
GatherFault gather(std::span<const Row> rows, std::span<const std::int64_t> sizes,
                   std::span<const std::int64_t> wanted, int threads, Pool* pool, std::vector<GatheredColumn>& out);

}  // namespace tombola
