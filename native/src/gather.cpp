#include "gather.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "parallel.hpp"

namespace tombola {
namespace {

// Rows ahead of the one being read. A record's place is known only after its offset, so offsets go further ahead.
constexpr std::size_t kOffsetsAhead = 24, kRecordsAhead = 10;
// So much of a record ahead is fetched; the processor itself goes on from there.
constexpr std::uint32_t kBytesAhead = 512;
// It does not go on across the end of a page, which here is the kernel's smallest whatever it uses: of records of a few
// pages the beginning of each further one is fetched too. In longer ones the copy is far ahead of what that would save.
constexpr std::uintptr_t kPageBytes = 4096, kPageBytesAhead = 256;
constexpr std::uint32_t kPagedBytes = 32 << 10;
// Less than this is not worth a thread.
constexpr std::int64_t kRowsPerThread = 4096;
constexpr std::uint64_t kBytesPerThread = std::uint64_t{1} << 20;

// What is the same for all rows of a gather.
struct Asked {
  std::span<const Row> rows;
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> wanted;
  std::uint64_t variable = 0;  // columns whose size each record says
  std::uint64_t fixed = 0;     // bytes of the others together

  Asked(std::span<const Row> asked, std::span<const std::int64_t> all, std::span<const std::int64_t> columns)
      : rows(asked), sizes(all), wanted(columns) {
    for (const std::int64_t size : sizes) {
      if (size < 0) {
        ++variable;
      } else {
        fixed += static_cast<std::uint64_t>(size);
      }
    }
  }
};

// The lowest row that has a fault, of all threads.
class LowestRow {
 public:
  void note(std::int64_t row) {
    std::int64_t before = row_.load(std::memory_order_relaxed);
    while (row < before && !row_.compare_exchange_weak(before, row, std::memory_order_relaxed)) {}
  }
  bool any() const { return row_.load(std::memory_order_relaxed) != kNone; }

 private:
  static constexpr std::int64_t kNone = INT64_MAX;
  std::atomic<std::int64_t> row_{kNone};
};

Fault read_row(const Asked& asked, std::size_t row, Piece& record, Piece* columns) {
  const Fault fault = asked.rows[row].shard->record(asked.rows[row].record, record);
  return fault == Fault::none ? cut(record, asked.sizes, asked.variable, columns) : fault;
}

// Where each record lies, and the sizes of its wanted variable columns, at lengths of the column + row + 1. With one
// variable column that follows from the offsets alone, and no record is touched.
bool locate(const Asked& asked, int threads, Piece* records, const std::vector<GatheredColumn>& out) {
  LowestRow bad;
  parallel_for(
      static_cast<std::int64_t>(asked.rows.size()), threads, kRowsPerThread, [&](std::int64_t begin, std::int64_t end) {
        std::vector<Piece> columns(asked.sizes.size());
        const auto last = static_cast<std::size_t>(end);
        const std::uint64_t least = 4 * asked.variable + asked.fixed;
        for (auto row = static_cast<std::size_t>(begin); row < last; ++row) {
          if (row + kOffsetsAhead < last) {
            const Row& ahead = asked.rows[row + kOffsetsAhead];
            ahead.shard->prefetch_offset(static_cast<std::uint64_t>(ahead.record));
          }
          Fault fault;
          if (asked.variable < 2) {
            fault = asked.rows[row].shard->record(asked.rows[row].record, records[row]);
            const std::uint64_t bytes = records[row].bytes;
            if (fault == Fault::none && (asked.variable == 0 ? bytes != least : bytes < least)) fault = Fault::lengths;
            if (fault == Fault::none && asked.variable == 1) {
              for (const GatheredColumn& column : out) {
                if (column.offsets.data() != nullptr) {
                  column.offsets.as<std::int64_t>()[row + 1] = static_cast<std::int64_t>(bytes - least);
                }
              }
            }
          } else {
            if (row + kRecordsAhead < last) {
              const Row& ahead = asked.rows[row + kRecordsAhead];
              ahead.shard->prefetch_record(static_cast<std::uint64_t>(ahead.record));
            }
            fault = read_row(asked, row, records[row], columns.data());
            if (fault == Fault::none) {
              for (std::size_t w = 0; w < out.size(); ++w) {
                if (out[w].offsets.data() == nullptr) continue;
                out[w].offsets.as<std::int64_t>()[row + 1] = columns[static_cast<std::size_t>(asked.wanted[w])].bytes;
              }
            }
          }
          if (fault != Fault::none) {
            bad.note(static_cast<std::int64_t>(row));
            return;
          }
        }
      });
  return !bad.any();
}

void fetch(const Piece& ahead) {
  for (std::uint32_t at = 0; at < std::min(ahead.bytes, kBytesAhead); at += 64) __builtin_prefetch(ahead.data + at);
  if (ahead.bytes <= kBytesAhead) {
    if (ahead.bytes > 0) __builtin_prefetch(ahead.data + ahead.bytes - 1);
  } else if (ahead.bytes <= kPagedBytes) {
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(ahead.data) % kPageBytes;
    for (std::uintptr_t page = kPageBytes - past; page < ahead.bytes; page += kPageBytes) {
      const std::uintptr_t end = std::min<std::uintptr_t>(page + kPageBytesAhead, ahead.bytes);
      for (std::uintptr_t at = page; at < end; at += 64) __builtin_prefetch(ahead.data + at);
    }
  }
}

void copy_piece(std::uint8_t* to, const Piece& piece) {
  // Numbers are the most usual; a call each would cost more than they do.
  if (piece.bytes == 8) {
    std::memcpy(to, piece.data, 8);
  } else if (piece.bytes == 4) {
    std::memcpy(to, piece.data, 4);
  } else if (piece.bytes > 0) {
    std::memcpy(to, piece.data, piece.bytes);
  }
}

// The bytes. What was measured is measured again: a file may change under its mapping.
bool copy(const Asked& asked, int threads, const Piece* records, const std::vector<GatheredColumn>& out) {
  LowestRow bad;
  parallel_for(static_cast<std::int64_t>(asked.rows.size()), threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Piece> columns(asked.sizes.size());
    const auto last = static_cast<std::size_t>(end);
    for (auto row = static_cast<std::size_t>(begin); row < last; ++row) {
      if (row + kRecordsAhead < last) fetch(records[row + kRecordsAhead]);
      bool sound = cut(records[row], asked.sizes, asked.variable, columns.data()) == Fault::none;
      for (std::size_t w = 0; sound && w < out.size(); ++w) {
        const Piece& piece = columns[static_cast<std::size_t>(asked.wanted[w])];
        std::uint64_t at = std::uint64_t{piece.bytes} * row;
        if (out[w].offsets.data() != nullptr) {
          const std::int64_t* offsets = out[w].offsets.as<std::int64_t>();
          at = static_cast<std::uint64_t>(offsets[row]);
          sound = offsets[row + 1] - offsets[row] == piece.bytes;
        }
        if (sound) copy_piece(out[w].data.data() + at, piece);
      }
      if (!sound) {
        bad.note(static_cast<std::int64_t>(row));
        return;
      }
    }
  });
  return !bad.any();
}

// The slow way to the first row that is damaged, once it is known that there is one.
GatherFault first_fault(const Asked& asked) {
  std::vector<Piece> columns(asked.sizes.size());
  for (std::size_t row = 0; row < asked.rows.size(); ++row) {
    Piece record{};
    const Fault fault = read_row(asked, row, record, columns.data());
    if (fault != Fault::none) return {fault, static_cast<std::int64_t>(row)};
  }
  return {Fault::changed, 0};
}

}  // namespace

GatherFault gather(std::span<const Row> rows, std::span<const std::int64_t> sizes,
                   std::span<const std::int64_t> wanted, int threads, Pool* pool, std::vector<GatheredColumn>& out) {
  const Asked asked(rows, sizes, wanted);
  const std::size_t count = rows.size();
  out.clear();
  out.resize(wanted.size());
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    if (sizes[static_cast<std::size_t>(wanted[w])] < 0) out[w].offsets = Block::of((count + 1) * 8, pool);
  }
  const Block scratch = Block::of(count * sizeof(Piece), pool);
  Piece* records = scratch.as<Piece>();
  bool sound = locate(asked, threads, records, out);
  if (sound) {
    std::uint64_t total = 0;
    for (std::size_t w = 0; w < wanted.size(); ++w) {
      std::uint64_t bytes = static_cast<std::uint64_t>(sizes[static_cast<std::size_t>(wanted[w])]) * count;
      if (out[w].offsets.data() != nullptr) {
        std::int64_t* offsets = out[w].offsets.as<std::int64_t>();
        offsets[0] = 0;
        for (std::size_t row = 0; row < count; ++row) offsets[row + 1] += offsets[row];
        bytes = static_cast<std::uint64_t>(offsets[count]);
      }
      out[w].data = Block::of(bytes, pool);
      total += bytes;
    }
    const auto wide = std::min<std::uint64_t>(static_cast<std::uint64_t>(threads), total / kBytesPerThread + 1);
    sound = copy(asked, static_cast<int>(wide), records, out);
  }
  if (sound) return {};
  out.clear();
  return first_fault(asked);
}

}  // namespace tombola
