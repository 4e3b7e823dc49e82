// The draws of NumPy's default_rng(seed), made without NumPy: SeedSequence, PCG64 (XSL-RR) and the bounded draws that
// Generator.shuffle, integers, choice and uniform are made of, as NumPy 2.1.3 makes them. NumPy may change those
// methods between releases; an order that has to stay what it was cannot depend on the one that is installed.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tombola {

class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    // SeedSequence(seed).generate_state(4, uint64): a pool of four words, each mixed into each other one.
    std::uint32_t pool[4], constant = 0x43b0d7e5u;
    auto hash = [&constant](std::uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875u;
      value *= constant;
      return value ^ (value >> 16);
    };
    for (int i = 0; i < 4; ++i) pool[i] = hash(i < 2 ? static_cast<std::uint32_t>(seed >> (32 * i)) : 0u);
    for (int from = 0; from < 4; ++from)
      for (int to = 0; to < 4; ++to)
        if (from != to) {
          const std::uint32_t mixed = 0xca01f9ddu * pool[to] - 0x4973f715u * hash(pool[from]);
          pool[to] = mixed ^ (mixed >> 16);
        }
    std::uint64_t words[4] = {};
    constant = 0x8b51f9ddu;
    for (int i = 0; i < 8; ++i) {
      std::uint32_t value = pool[i % 4] ^ constant;
      constant *= 0x58f38dedu;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= static_cast<std::uint64_t>(value) << (32 * (i % 2));
    }
    increment_ = join(words[2], words[3]) << 1 | 1u;
    state_ = (increment_ + join(words[0], words[1])) * kMultiplier + increment_;
  }

  std::uint64_t next64() {
    state_ = state_ * kMultiplier + increment_;
    return output(state_);
  }

  // The low half of a word first; the high half waits for the next call, however many words are drawn in between.
  std::uint32_t next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const std::uint64_t word = next64();
    has_half_ = true;
    half_ = static_cast<std::uint32_t>(word >> 32);
    return static_cast<std::uint32_t>(word);
  }

  double unit() { return static_cast<double>(next64() >> 11) * (1.0 / 9007199254740992.0); }

  // 0 … most by masking and rejection: what shuffle draws.
  std::uint64_t interval(std::uint64_t most) {
    if (most == 0) return 0;
    const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(most);
    std::uint64_t value;
    if (most <= 0xffffffffu) {
      do value = next32() & mask;
      while (value > most);
    } else {
      do value = next64() & mask;
      while (value > most);
    }
    return value;
  }

  // 0 … most by Lemire's multiplication: what integers and choice draw.
  std::uint64_t bounded(std::uint64_t most) {
    if (most == 0) return 0;
    if (most == 0xffffffffu) return next32();
    if (most == ~std::uint64_t{0}) return next64();
    if (most < 0xffffffffu) {
      const auto range = static_cast<std::uint32_t>(most) + 1;
      std::uint64_t product = std::uint64_t{next32()} * range;
      if (static_cast<std::uint32_t>(product) < range) {
        const std::uint32_t threshold = (0u - range) % range;
        while (static_cast<std::uint32_t>(product) < threshold) product = std::uint64_t{next32()} * range;
      }
      return product >> 32;
    }
    const std::uint64_t range = most + 1;
    u128 product = static_cast<u128>(next64()) * range;
    if (static_cast<std::uint64_t>(product) < range) {
      const std::uint64_t threshold = (0u - range) % range;
      while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<u128>(next64()) * range;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // out[k] = interval(first − k) for k = 0 … count − 1, where all the bounds lie between the same powers of two and
  // below 2^32. `out` needs room for 4 values more. Without branches on the rejections, which no predictor can learn,
  // and with two words in flight, because the multiplication that leads from one to the next is the longest wait.
  void descend(std::uint64_t first, std::size_t count, std::uint32_t* out) {
    const auto mask = static_cast<std::uint32_t>(~std::uint64_t{0} >> std::countl_zero(first));
    auto bound = static_cast<std::uint32_t>(first);
    const std::uint32_t last = bound - static_cast<std::uint32_t>(count);
    auto offer = [&](std::uint32_t raw) {
      const std::uint32_t value = raw & mask;
      *out = value;
      const std::uint32_t taken = value <= bound;
      out += taken;
      bound -= taken;
    };
    if (has_half_ && bound != last) offer(next32());
    const u128 multiplier_2 = kMultiplier * kMultiplier, increment_2 = increment_ * (kMultiplier + 1);
    u128 state = state_;
    while (bound - last >= 4) {
      const std::uint64_t one = output(state * kMultiplier + increment_);
      state = state * multiplier_2 + increment_2;
      const std::uint64_t two = output(state);
      offer(static_cast<std::uint32_t>(one));
      offer(static_cast<std::uint32_t>(one >> 32));
      offer(static_cast<std::uint32_t>(two));
      offer(static_cast<std::uint32_t>(two >> 32));
    }
    state_ = state;
    while (bound != last) offer(next32());
  }

  // out[k] = unit() for k = 0 … count − 1, two words in flight.
  void units(std::size_t count, double* out) {
    const u128 multiplier_2 = kMultiplier * kMultiplier, increment_2 = increment_ * (kMultiplier + 1);
    u128 state = state_;
    std::size_t k = 0;
    for (; k + 2 <= count; k += 2) {
      const std::uint64_t one = output(state * kMultiplier + increment_);
      state = state * multiplier_2 + increment_2;
      const std::uint64_t two = output(state);
      out[k] = static_cast<double>(one >> 11) * (1.0 / 9007199254740992.0);
      out[k + 1] = static_cast<double>(two >> 11) * (1.0 / 9007199254740992.0);
    }
    state_ = state;
    if (k < count) out[k] = unit();
  }

 private:
  __extension__ using u128 = unsigned __int128;
  static constexpr u128 join(std::uint64_t high, std::uint64_t low) { return static_cast<u128>(high) << 64 | low; }
  static constexpr u128 kMultiplier = static_cast<u128>(0x2360ed051fc65da4u) << 64 | 0x4385df649fccf645u;

  static std::uint64_t output(u128 state) {
    const auto high = static_cast<std::uint64_t>(state >> 64);
    return std::rotr(high ^ static_cast<std::uint64_t>(state), static_cast<int>(high >> 58));
  }

  u128 state_, increment_;
  std::uint32_t half_ = 0;
  bool has_half_ = false;
};

}  // namespace tombola
