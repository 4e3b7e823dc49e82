// The random numbers of the array shuffles: eight xoshiro256++ generators side by side, seeded from a key.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "keys.hpp"

namespace tombola {

static_assert(std::endian::native == std::endian::little, "words are taken apart from their low end");

// Eight interleaved generators: words come as lane 0…7 of step 0, lane 0…7 of step 1, and so on. A loop over the lanes
// is what compilers turn into vector instructions.
class Lanes8 {
 public:
  static constexpr int kLanes = 8;

  explicit Lanes8(std::uint64_t key);
  void fill(std::uint64_t* out, int steps);  // 8 × steps words

 private:
  alignas(64) std::uint64_t state_[4][kLanes];
};

// Whole numbers below bounds that fall by one from draw to draw, as Fisher–Yates needs them.
//
// Draws come in groups of 16, one 32-bit half of a word each: floor(half × bound / 2^32), which is exactly uniform once
// halves whose low product is below 2^32 mod bound are refused. A refusal discards its whole group, so that no draw
// depends on where in a group it stands.
class Falling {
 public:
  static constexpr int kGroup = 16;
  static constexpr int kBlock = 256;  // draws computed at a time

  Falling(std::uint64_t key, std::uint32_t first_bound) : lanes_(key), bound_(first_bound) {}

  // The next draws, at most kBlock and never past the bound 2; bounds below 2 need no draw. Returns how many.
  int next(std::uint32_t* out);

 private:
  void group(std::uint32_t* out);
  void refill();

  Lanes8 lanes_;
  std::uint32_t bound_;
  int used_ = kWords;
  static constexpr int kWords = kBlock / 2;
  alignas(64) std::uint64_t words_[kWords];
};

// Letters of a few bits from one stream: floor(64 / bits) from each word, low bits first. `run` starts at a fresh word.
class Letters {
 public:
  Letters(std::uint64_t key, int bits) : lanes_(key), bits_(bits), each_(64 / bits) {}

  int bits() const { return bits_; }
  int each() const { return each_; }
  std::uint64_t word() {
    if (used_ == kWords) {
      lanes_.fill(words_, kWords / Lanes8::kLanes);
      used_ = 0;
    }
    return words_[used_++];
  }

 private:
  static constexpr int kWords = 256;
  Lanes8 lanes_;
  int bits_, each_;
  int used_ = kWords;
  alignas(64) std::uint64_t words_[kWords];
};

}  // namespace tombola
