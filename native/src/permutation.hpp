// A keyed bijection on 0…n−1 with random access both ways and O(1) memory.
//
// n ≤ 128: a Fisher–Yates table of bytes. Above: an alternating Feistel network of 12 rounds on exactly
// bit_length(n−1) bits, walked again while the result is outside.
#pragma once
#include <array>
#include <cstdint>

namespace tombola {

class Permutation {
 public:
  static constexpr std::int64_t kTableMax = 128;
  static constexpr std::int64_t kSizeMax = std::int64_t{1} << 62;
  static constexpr int kRounds = 12;

  Permutation(std::int64_t n, std::uint64_t key);  // 1 ≤ n ≤ 2^62

  std::int64_t size() const { return n_; }
  std::int64_t at(std::int64_t i) const;    // 0 ≤ i < n
  std::int64_t find(std::int64_t j) const;  // the inverse

  // Whole arrays; in and out may be the same memory.
  void at(const std::int64_t* in, std::int64_t* out, std::int64_t count) const;
  void find(const std::int64_t* in, std::int64_t* out, std::int64_t count) const;
  // out[k] = at(first + k)
  void run(std::int64_t first, std::int64_t count, std::int64_t* out) const;

 private:
  template <bool Forward>
  void apply(const std::int64_t* in, std::int64_t* out, std::int64_t count) const;
  bool is_table() const { return n_ <= kTableMax; }

  std::int64_t n_;
  int right_bits_ = 0;
  std::uint32_t left_mask_ = 0, right_mask_ = 0;
  std::array<std::uint32_t, kRounds> round_keys_{};
  std::array<std::uint8_t, kTableMax> table_;  // left uninitialised above kTableMax: parts are made by the million
};

}  // namespace tombola
