#include "gather.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "parallel.hpp"

namespace tombola {
namespace {

// Rows ahead of the one being read. A record's place is known only after its offset, so offsets go further ahead.
constexpr std::size_t kOffsetsAhead = 24, kRecordsAhead = 12;
// Less than this is not worth a thread.
constexpr std::int64_t kRowsPerThread = 4096;
constexpr std::uint64_t kBytesPerThread = std::uint64_t{1} << 20;

// Where the wanted columns of each row lie: pieces[row * wanted.size() + w].
GatherFault locate(std::span<const Row> rows, std::span<const std::int64_t> sizes,
                   std::span<const std::int64_t> wanted, int threads, std::vector<Piece>& pieces) {
  const auto variable =
      static_cast<std::uint64_t>(std::count_if(sizes.begin(), sizes.end(), [](auto size) { return size < 0; }));
  GatherFault first;
  std::mutex lock;
  parallel_for(static_cast<std::int64_t>(rows.size()), threads, kRowsPerThread,
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<Piece> columns(sizes.size());
                 const auto last = static_cast<std::size_t>(end);
                 for (auto row = static_cast<std::size_t>(begin); row < last; ++row) {
                   if (row + kOffsetsAhead < last) {
                     const Row& ahead = rows[row + kOffsetsAhead];
                     ahead.shard->prefetch_offset(static_cast<std::uint64_t>(ahead.record));
                   }
                   if (row + kRecordsAhead < last) {
                     const Row& ahead = rows[row + kRecordsAhead];
                     ahead.shard->prefetch_record(static_cast<std::uint64_t>(ahead.record));
                   }
                   Piece record{};
                   Fault fault = rows[row].shard->record(rows[row].record, record);
                   if (fault == Fault::none) fault = cut(record, sizes, variable, columns.data());
                   if (fault != Fault::none) {
                     const std::lock_guard<std::mutex> held(lock);
                     if (first.row < 0 || static_cast<std::int64_t>(row) < first.row) {
                       first = {fault, static_cast<std::int64_t>(row)};
                     }
                     return;
                   }
                   for (std::size_t w = 0; w < wanted.size(); ++w) {
                     pieces[row * wanted.size() + w] = columns[static_cast<std::size_t>(wanted[w])];
                   }
                 }
               });
  return first;
}

Memory allocate(std::uint64_t bytes) { return {std::unique_ptr<std::uint8_t[]>(new std::uint8_t[bytes]), bytes}; }

}  // namespace

GatherFault gather(std::span<const Row> rows, std::span<const std::int64_t> sizes,
                   std::span<const std::int64_t> wanted, int threads, std::vector<GatheredColumn>& out) {
  const std::size_t count = rows.size(), columns = wanted.size();
  std::vector<Piece> pieces(count * columns);
  if (const GatherFault fault = locate(rows, sizes, wanted, threads, pieces); fault.fault != Fault::none) return fault;

  out.clear();
  out.resize(columns);
  std::uint64_t total = 0;
  for (std::size_t w = 0; w < columns; ++w) {
    const std::int64_t size = sizes[static_cast<std::size_t>(wanted[w])];
    std::uint64_t bytes = 0;
    if (size < 0) {
      out[w].offsets.reset(new std::int64_t[count + 1]);
      for (std::size_t row = 0; row < count; ++row) {
        out[w].offsets[row] = static_cast<std::int64_t>(bytes);
        bytes += pieces[row * columns + w].bytes;
      }
      out[w].offsets[count] = static_cast<std::int64_t>(bytes);
    } else {
      bytes = static_cast<std::uint64_t>(size) * count;
    }
    out[w].data = allocate(bytes);
    total += bytes;
  }

  const auto wide = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads), total / kBytesPerThread + 1));
  parallel_for(static_cast<std::int64_t>(count), wide, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
      for (std::size_t w = 0; w < columns; ++w) {
        const Piece& piece = pieces[row * columns + w];
        const std::uint64_t at = out[w].offsets ? static_cast<std::uint64_t>(out[w].offsets[row]) : std::uint64_t{piece.bytes} * row;
        if (piece.bytes > 0) std::memcpy(out[w].data.data.get() + at, piece.data, piece.bytes);
      }
    }
  });
  return {};
}

}  // namespace tombola
