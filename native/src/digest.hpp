// A 128-bit digest of bytes, at memory speed, against accidents and not against forgers: it tells whether a file
// kept beside a cache still belongs to what it was made from. Eight lanes of 64-bit words; a step of a lane is a
// bijection of its word, so that no single changed word goes unseen. tombola.formats._digest is its slow twin.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "keys.hpp"

namespace tombola {

inline std::array<std::uint64_t, 2> digest(const std::uint8_t* data, std::size_t bytes) {
  constexpr std::uint64_t kOdd = 0xBF58476D1CE4E5B9ull;
  std::array<std::uint64_t, 8> lanes;
  for (std::size_t j = 0; j < 8; ++j) lanes[j] = word(bytes, j);
  const auto step = [&lanes](const std::uint8_t* block) {
    for (std::size_t j = 0; j < 8; ++j) {
      std::uint64_t w;
      std::memcpy(&w, block + 8 * j, 8);
      if constexpr (std::endian::native == std::endian::big) w = __builtin_bswap64(w);
      lanes[j] = std::rotl(lanes[j] + w * kOdd, 31) * kGamma;
    }
  };
  std::size_t at = 0;
  for (; at + 64 <= bytes; at += 64) step(data + at);
  if (at < bytes) {
    std::uint8_t last[64] = {};  // the length is in the first words, so padding is no ambiguity
    std::memcpy(last, data + at, bytes - at);
    step(last);
  }
  std::uint64_t low = mix64(bytes + kGamma), high = mix64(bytes + 2 * kGamma);
  for (const std::uint64_t lane : lanes) {
    low = mix64(low ^ lane);
    high = mix64(high + lane * kGamma);
  }
  return {low, high};
}

}  // namespace tombola
