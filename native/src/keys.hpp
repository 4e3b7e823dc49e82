// Keys and the two mixers everything is built from. See docs/reference/order.md for the definition in words;
// tests/vectors pins every number.
#pragma once
#include <cstdint>

namespace tombola {

inline constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15ull;       // 2^64 / golden ratio, odd
inline constexpr std::uint64_t kChildSalt = 0xD1B54A32D192ED03ull;   // keeps children apart from a key's own words

// 64-bit finaliser (Stafford's variant 13, the one of SplitMix64).
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// 32-bit mixer with two multiplies (constants found by C. Wellons' hash prospector, public domain).
constexpr std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

// The i-th random word of a key.
constexpr std::uint64_t word(std::uint64_t key, std::uint64_t i) { return mix64(key + (i + 1) * kGamma); }

// The i-th child of a key: a key of its own, unrelated to the words of its parent.
constexpr std::uint64_t child(std::uint64_t key, std::uint64_t i) {
  return mix64(mix64(key ^ kChildSalt) + (i + 1) * kGamma);
}

// floor(word * n / 2^64): a number below n. The bias is below n / 2^64.
inline std::uint64_t below(std::uint64_t random_word, std::uint64_t n) {
  __extension__ using u128 = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<u128>(random_word) * n) >> 64);
}

}  // namespace tombola
