// Rows in memory as the shuffles move them: of a size known when compiled, or of any size.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "clones.hpp"

namespace tombola {

inline constexpr std::uint64_t kLine = 64;
inline constexpr std::uint64_t kAheadLines = 2;   // how far before a write head its next lines are asked for
inline constexpr int kAheadDraws = 16;            // how many swaps ahead Fisher–Yates asks for rows

template <std::uint64_t Bytes>
class FixedRows {
 public:
  // Whether a scatter unrolls its loop. Measured: rows of other sizes lose by it, as the row in hand leaves its registers.
  static constexpr bool kUnrolled = (Bytes <= 8 || Bytes == 64) && !TOMBOLA_SANITIZED;
  static constexpr bool kNear = Bytes <= 4;  // whether a scatter may do better near by; measured
  static constexpr bool kFar = false;
  struct Row {
    std::byte bytes[Bytes];
  };

  explicit FixedRows(std::byte* data) : rows_(reinterpret_cast<Row*>(data)) {}

  static constexpr std::uint64_t bytes() { return Bytes; }
  FixedRows from(std::uint64_t i) const { return FixedRows(reinterpret_cast<std::byte*>(rows_ + i)); }
  Row take(std::uint64_t i) const { return rows_[i]; }
  void put(std::uint64_t i, const Row& row) const { rows_[i] = row; }
  // Where a scatter goes on in a region: a pointer, since the loop over them is short enough to feel a sum more.
  using Head = Row*;
  Head head(std::uint64_t i) const { return rows_ + i; }
  std::uint64_t row_of(Head head) const { return static_cast<std::uint64_t>(head - rows_); }
  // The row in hand and the next row of a head change places; what lies ahead is asked for.
  void swap(Head& head, Row& hand) const {
    Row* const at = head++;
    prefetch_ahead(at);
    const Row old = *at;
    *at = hand;
    hand = old;
  }
  // Fisher–Yates from row `last` downwards: row last−k and row draws[k] change places.
  void fall(std::uint64_t last, const std::uint32_t* draws, int count) const {
    if constexpr (Bytes >= 16) {
      for (int k = 0; k < std::min(count, kAheadDraws); ++k) prefetch(rows_ + draws[k]);
    }
    for (int k = 0; k < count; ++k) {
      if constexpr (Bytes >= 16) prefetch(rows_ + draws[std::min(k + kAheadDraws, count - 1)]);
      Row* const a = rows_ + last - static_cast<std::uint64_t>(k);
      Row* const b = rows_ + draws[k];
      const Row x = *a, y = *b;
      *a = y;
      *b = x;
    }
  }
  // Asks for each line once, in order, so that the random accesses that follow find them in cache.
  void warm(std::uint64_t i, std::uint64_t count) const {
    const auto* bytes = reinterpret_cast<const char*>(rows_ + i);
    for (std::uint64_t at = 0; at < count * Bytes; at += kLine) __builtin_prefetch(bytes + at, 1);
  }
  void copy_out(std::uint64_t i, std::uint64_t count, std::byte* to) const {
    if (count > 0) std::memcpy(to, rows_ + i, count * Bytes);
  }
  void copy_in(std::uint64_t i, std::uint64_t count, const std::byte* from) const {
    if (count > 0) std::memcpy(rows_ + i, from, count * Bytes);
  }

 private:
  static void prefetch(const Row* row) {
    const auto* at = reinterpret_cast<const char*>(row);
    for (std::uint64_t k = 0; k < Bytes; k += kLine) __builtin_prefetch(at + k, 1);
  }
  static void prefetch_ahead(const Row* row) {
    const auto* at = reinterpret_cast<const char*>(row) + std::max(kAheadLines * kLine, Bytes);
    for (std::uint64_t k = 0; k < Bytes; k += kLine) __builtin_prefetch(at + k, 1);
  }

  Row* rows_;
};

// Rows of a size only known now, at most kBytesMax, and any number of bytes apart.
class AnyRows {
 public:
  static constexpr bool kUnrolled = false;
  static constexpr bool kNear = false;
  static constexpr bool kFar = false;
  static constexpr std::uint64_t kBytesMax = 512;
  struct Row {
    std::byte bytes[kBytesMax];
  };

  AnyRows(std::byte* data, std::uint64_t bytes, std::int64_t step) : data_(data), bytes_(bytes), step_(step) {}

  std::uint64_t bytes() const { return bytes_; }
  AnyRows from(std::uint64_t i) const { return AnyRows(at(i), bytes_, step_); }
  Row take(std::uint64_t i) const {
    Row row;
    std::memcpy(row.bytes, at(i), bytes_);
    return row;
  }
  void put(std::uint64_t i, const Row& row) const { std::memcpy(at(i), row.bytes, bytes_); }
  using Head = std::byte*;
  Head head(std::uint64_t i) const { return at(i); }
  std::uint64_t row_of(Head head) const { return static_cast<std::uint64_t>((head - data_) / step_); }
  void swap(Head& head, Row& hand) const {
    std::byte* const row = head;
    head += step_;
    const auto far = static_cast<std::int64_t>(std::max(kAheadLines * kLine, bytes_));
    __builtin_prefetch(row + (step_ < 0 ? -far : far), 1);
    exchange(row, hand.bytes);
  }
  void fall(std::uint64_t last, const std::uint32_t* draws, int count) const {
    for (int k = 0; k < std::min(count, kAheadDraws); ++k) __builtin_prefetch(at(draws[k]), 1);
    for (int k = 0; k < count; ++k) {
      __builtin_prefetch(at(draws[std::min(k + kAheadDraws, count - 1)]), 1);
      const std::uint64_t a = last - static_cast<std::uint64_t>(k), b = draws[k];
      if (a != b) exchange(at(a), at(b));
    }
  }
  void warm(std::uint64_t i, std::uint64_t count) const {
    if (!packed()) return;
    for (std::uint64_t k = 0; k < count * bytes_; k += kLine) __builtin_prefetch(at(i) + k, 1);
  }
  void copy_out(std::uint64_t i, std::uint64_t count, std::byte* to) const {
    if (count == 0) return;
    if (packed()) {
      std::memcpy(to, at(i), count * bytes_);
    } else {
      for (std::uint64_t k = 0; k < count; ++k) std::memcpy(to + k * bytes_, at(i + k), bytes_);
    }
  }
  void copy_in(std::uint64_t i, std::uint64_t count, const std::byte* from) const {
    if (count == 0) return;
    if (packed()) {
      std::memcpy(at(i), from, count * bytes_);
    } else {
      for (std::uint64_t k = 0; k < count; ++k) std::memcpy(at(i + k), from + k * bytes_, bytes_);
    }
  }

 private:
  bool packed() const { return step_ == static_cast<std::int64_t>(bytes_); }
  std::byte* at(std::uint64_t i) const { return data_ + static_cast<std::int64_t>(i) * step_; }
  void exchange(std::byte* a, std::byte* b) const { std::swap_ranges(a, a + bytes_, b); }

  std::byte* data_;
  std::uint64_t bytes_;
  std::int64_t step_;
};

}  // namespace tombola
