// Rows anywhere in memory, and copies between them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "arrays_rows.hpp"

namespace tombola {

// An array as the walk sees it: row i is at base + i × step, and is `bytes` bytes at each place of the inner axes.
struct Strided {
  struct Axis {
    std::int64_t size, step;
  };
  std::byte* base;
  std::int64_t step;
  std::uint64_t bytes;
  std::vector<Axis> axes;  // none: the row is one run of bytes

  std::uint64_t row_bytes() const {
    std::uint64_t total = bytes;
    for (const Axis& axis : axes) total *= static_cast<std::uint64_t>(axis.size);
    return total;
  }
};

// Copies rows between two places of one array, or between an array and a run of bytes.
class Mover {
 public:
  explicit Mover(const Strided& array) : a_(array), row_bytes_(array.row_bytes()) {}

  std::uint64_t row_bytes() const { return row_bytes_; }
  std::byte* at(std::uint64_t i) const { return a_.base + static_cast<std::int64_t>(i) * a_.step; }

  void move(std::uint64_t to, std::uint64_t from) const {
    if (a_.axes.empty()) std::memcpy(at(to), at(from), a_.bytes);
    else each(at(to), at(from), 0);
  }
  void save(std::uint64_t i, std::byte* run) const {
    if (a_.axes.empty()) std::memcpy(run, at(i), a_.bytes);
    else pack(run, at(i), 0);
  }
  void restore(std::uint64_t i, const std::byte* run) const {
    if (a_.axes.empty()) std::memcpy(at(i), run, a_.bytes);
    else unpack(at(i), run, 0);
  }
  void prefetch(std::uint64_t i) const {
    asm volatile("");  // GCC 12 drops calls of a function that does nothing but prefetch
    const std::byte* row = at(i);
    const std::uint64_t reach = a_.axes.empty() ? std::min<std::uint64_t>(a_.bytes, 16 * kLine) : 1;
    for (std::uint64_t k = 0; k < reach; k += kLine) __builtin_prefetch(row + k, 1);
  }

 private:
  void each(std::byte* to, const std::byte* from, std::size_t axis) const {
    if (axis == a_.axes.size()) {
      std::memcpy(to, from, a_.bytes);
      return;
    }
    const auto [size, step] = a_.axes[axis];
    for (std::int64_t k = 0; k < size; ++k) each(to + k * step, from + k * step, axis + 1);
  }
  std::byte* pack(std::byte* to, const std::byte* from, std::size_t axis) const {
    if (axis == a_.axes.size()) {
      std::memcpy(to, from, a_.bytes);
      return to + a_.bytes;
    }
    const auto [size, step] = a_.axes[axis];
    for (std::int64_t k = 0; k < size; ++k) to = pack(to, from + k * step, axis + 1);
    return to;
  }
  const std::byte* unpack(std::byte* to, const std::byte* from, std::size_t axis) const {
    if (axis == a_.axes.size()) {
      std::memcpy(to, from, a_.bytes);
      return from + a_.bytes;
    }
    const auto [size, step] = a_.axes[axis];
    for (std::int64_t k = 0; k < size; ++k) from = unpack(to + k * step, from, axis + 1);
    return from;
  }

  const Strided& a_;
  std::uint64_t row_bytes_;
};

// Rows with gaps inside them, as the exact shuffle moves them: at most AnyRows::kBytesMax bytes.
class SpreadRows {
 public:
  static constexpr bool kUnrolled = false;
  static constexpr bool kNear = false;
  static constexpr bool kFar = false;
  using Row = AnyRows::Row;

  explicit SpreadRows(const Strided& array, std::uint64_t begin = 0)
      : array_(array), mover_(array), begin_(begin), bytes_(mover_.row_bytes()) {}

  std::uint64_t bytes() const { return bytes_; }
  SpreadRows from(std::uint64_t i) const { return SpreadRows(array_, begin_ + i); }
  Row take(std::uint64_t i) const {
    Row row;
    mover_.save(begin_ + i, row.bytes);
    return row;
  }
  void put(std::uint64_t i, const Row& row) const { mover_.restore(begin_ + i, row.bytes); }
  using Head = std::uint64_t;
  Head head(std::uint64_t i) const { return i; }
  std::uint64_t row_of(Head head) const { return head; }
  void swap(Head& head, Row& hand) const {
    const Row old = take(head);
    put(head++, hand);
    std::memcpy(hand.bytes, old.bytes, bytes_);
  }
  void fall(std::uint64_t last, const std::uint32_t* draws, int count) const {
    for (int k = 0; k < count; ++k) {
      const std::uint64_t a = last - static_cast<std::uint64_t>(k), b = draws[k];
      if (a == b) continue;
      const Row row = take(a);
      mover_.move(begin_ + a, begin_ + b);
      put(b, row);
    }
  }
  void warm(std::uint64_t, std::uint64_t) const {}
  void copy_out(std::uint64_t i, std::uint64_t count, std::byte* to) const {
    for (std::uint64_t k = 0; k < count; ++k) mover_.save(begin_ + i + k, to + k * bytes_);
  }
  void copy_in(std::uint64_t i, std::uint64_t count, const std::byte* from) const {
    for (std::uint64_t k = 0; k < count; ++k) mover_.restore(begin_ + i + k, from + k * bytes_);
  }

 private:
  const Strided& array_;
  Mover mover_;
  std::uint64_t begin_, bytes_;
};

}  // namespace tombola
