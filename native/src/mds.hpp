// An MDS shard in memory, read without trusting a byte of it.
//
//   0            uint32 n, the records
//   4            uint32 o[n + 1], offsets from the file's start; o[n] is the file's end
//   4 + 4(n + 1) configuration as JSON, up to o[0]
//   o[i]         record i: uint32 length of each variable column, then the payloads of all columns, in order
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tombola {

inline std::uint32_t load32(const std::uint8_t* from) {
  std::uint32_t value;
  std::memcpy(&value, from, 4);  // payloads give no alignment
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}

enum class Fault : int {
  none = 0,
  no_record = 1,   // the record's number is not below n
  offset = 2,      // its offsets fall, begin inside the header, or end outside the shard
  lengths = 3,     // the lengths of its columns do not add up to the record
  changed = 4,     // it was damaged when it was read, and is not any more
};

struct Piece {
  const std::uint8_t* data;
  std::uint32_t bytes;
};

struct MdsView {
  const std::uint8_t* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;

  static constexpr std::uint64_t header(std::uint64_t records) { return 4 + 4 * (records + 1); }

  // False when so many bytes cannot hold the table of offsets they announce.
  static bool open(const std::uint8_t* data, std::uint64_t bytes, MdsView& view) {
    if (bytes < 8) return false;
    view = {data, bytes, load32(data)};
    return header(view.records) <= bytes;
  }

  void prefetch_offset(std::uint64_t record) const {
    if (record < records) __builtin_prefetch(data + 4 + 4 * record);
  }

  void prefetch_record(std::uint64_t record) const {
    if (record >= records) return;
    const std::uint64_t begin = load32(data + 4 + 4 * record);
    if (begin < bytes) __builtin_prefetch(data + begin);
  }

  Fault record(std::int64_t number, Piece& found) const {
    if (number < 0 || static_cast<std::uint64_t>(number) >= records) return Fault::no_record;
    const std::uint8_t* table = data + 4 + 4 * static_cast<std::uint64_t>(number);
    const std::uint64_t begin = load32(table), end = load32(table + 4);
    if (begin < header(records) || begin > end || end > bytes) return Fault::offset;
    found = {data + begin, static_cast<std::uint32_t>(end - begin)};
    return Fault::none;
  }
};

// The columns of a record: sizes[c] bytes each, or −1 where every record says how many.
inline Fault cut(const Piece& record, std::span<const std::int64_t> sizes, std::uint64_t variable, Piece* out) {
  const std::uint64_t head = 4 * variable;
  if (head > record.bytes) return Fault::lengths;
  const std::uint8_t* length = record.data;
  std::uint64_t at = head;
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    std::uint64_t bytes;
    if (sizes[c] < 0) {
      bytes = load32(length);
      length += 4;
    } else {
      bytes = static_cast<std::uint64_t>(sizes[c]);
    }
    if (bytes > record.bytes - at) return Fault::lengths;
    out[c] = {record.data + at, static_cast<std::uint32_t>(bytes)};
    at += bytes;
  }
  return at == record.bytes ? Fault::none : Fault::lengths;
}

}  // namespace tombola
