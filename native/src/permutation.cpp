#include "permutation.hpp"

#include <algorithm>
#include <bit>

#include "clones.hpp"
#include "keys.hpp"

namespace tombola {
namespace {

constexpr std::int64_t kBlock = 512;  // numbers handled at a time: halves of a block stay in L1

// One round over a block: into ^= mix32(from ^ key) & mask. This loop is where the time goes.
struct Block {
  alignas(64) std::uint32_t left[kBlock];
  alignas(64) std::uint32_t right[kBlock];
};

TOMBOLA_CLONES void rounds_forward(Block& b, std::int64_t count, const std::uint32_t* keys, std::uint32_t left_mask,
                                   std::uint32_t right_mask) {
  for (int r = 0; r < Permutation::kRounds; r += 2) {
    const std::uint32_t k0 = keys[r], k1 = keys[r + 1];
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t l = b.left[i], x = b.right[i];
      l ^= mix32(x ^ k0) & left_mask;
      x ^= mix32(l ^ k1) & right_mask;
      b.left[i] = l;
      b.right[i] = x;
    }
  }
}

TOMBOLA_CLONES void rounds_backward(Block& b, std::int64_t count, const std::uint32_t* keys, std::uint32_t left_mask,
                                    std::uint32_t right_mask) {
  for (int r = Permutation::kRounds - 2; r >= 0; r -= 2) {
    const std::uint32_t k0 = keys[r], k1 = keys[r + 1];
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t l = b.left[i], x = b.right[i];
      x ^= mix32(l ^ k1) & right_mask;
      l ^= mix32(x ^ k0) & left_mask;
      b.left[i] = l;
      b.right[i] = x;
    }
  }
}

TOMBOLA_CLONES void take_halves(const std::int64_t* in, Block& b, std::int64_t count, int right_bits,
                          std::uint32_t right_mask) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto v = static_cast<std::uint64_t>(in[i]);
    b.left[i] = static_cast<std::uint32_t>(v >> right_bits);
    b.right[i] = static_cast<std::uint32_t>(v) & right_mask;
  }
}

TOMBOLA_CLONES void put_together(const Block& b, std::int64_t* out, std::int64_t count, int right_bits) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::int64_t>((static_cast<std::uint64_t>(b.left[i]) << right_bits) | b.right[i]);
  }
}

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t key) : n_(n) {
  if (is_table()) {
    for (std::int64_t i = 0; i < n; ++i) table_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
    for (std::int64_t i = n - 1; i >= 1; --i) {
      const auto j = below(word(key, static_cast<std::uint64_t>(i)), static_cast<std::uint64_t>(i) + 1);
      std::swap(table_[static_cast<std::size_t>(i)], table_[j]);
    }
    return;
  }
  const int bits = std::bit_width(static_cast<std::uint64_t>(n - 1));
  const int left_bits = bits / 2;
  right_bits_ = bits - left_bits;
  left_mask_ = (1u << left_bits) - 1u;
  right_mask_ = (1u << right_bits_) - 1u;
  for (int r = 0; r < kRounds; r += 2) {
    const std::uint64_t w = word(key, static_cast<std::uint64_t>(r / 2));
    round_keys_[static_cast<std::size_t>(r)] = static_cast<std::uint32_t>(w);
    round_keys_[static_cast<std::size_t>(r) + 1] = static_cast<std::uint32_t>(w >> 32);
  }
}

std::int64_t Permutation::at(std::int64_t i) const {
  if (is_table()) return table_[static_cast<std::size_t>(i)];
  auto v = static_cast<std::uint64_t>(i);
  do {
    auto l = static_cast<std::uint32_t>(v >> right_bits_), x = static_cast<std::uint32_t>(v) & right_mask_;
    for (std::size_t r = 0; r < kRounds; r += 2) {
      l ^= mix32(x ^ round_keys_[r]) & left_mask_;
      x ^= mix32(l ^ round_keys_[r + 1]) & right_mask_;
    }
    v = (static_cast<std::uint64_t>(l) << right_bits_) | x;
  } while (v >= static_cast<std::uint64_t>(n_));
  return static_cast<std::int64_t>(v);
}

std::int64_t Permutation::find(std::int64_t j) const {
  if (is_table()) {
    std::int64_t i = 0;
    while (table_[static_cast<std::size_t>(i)] != j) ++i;
    return i;
  }
  auto v = static_cast<std::uint64_t>(j);
  do {
    auto l = static_cast<std::uint32_t>(v >> right_bits_), x = static_cast<std::uint32_t>(v) & right_mask_;
    for (int r = kRounds - 2; r >= 0; r -= 2) {
      x ^= mix32(l ^ round_keys_[static_cast<std::size_t>(r) + 1]) & right_mask_;
      l ^= mix32(x ^ round_keys_[static_cast<std::size_t>(r)]) & left_mask_;
    }
    v = (static_cast<std::uint64_t>(l) << right_bits_) | x;
  } while (v >= static_cast<std::uint64_t>(n_));
  return static_cast<std::int64_t>(v);
}

template <bool Forward>
void Permutation::apply(const std::int64_t* in, std::int64_t* out, std::int64_t count) const {
  if (is_table()) {
    std::array<std::uint8_t, kTableMax> map;
    for (std::int64_t i = 0; i < n_; ++i) {
      const auto place = static_cast<std::size_t>(i);
      if constexpr (Forward) map[place] = table_[place];
      else map[table_[place]] = static_cast<std::uint8_t>(i);
    }
    for (std::int64_t i = 0; i < count; ++i) out[i] = map[static_cast<std::size_t>(in[i])];
    return;
  }
  Block block;
  std::int64_t walking[kBlock];
  std::int16_t where[kBlock];
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t size = std::min(kBlock, count - done);
    std::int64_t* dest = out + done;
    take_halves(in + done, block, size, right_bits_, right_mask_);
    Forward ? rounds_forward(block, size, round_keys_.data(), left_mask_, right_mask_)
            : rounds_backward(block, size, round_keys_.data(), left_mask_, right_mask_);
    put_together(block, dest, size, right_bits_);
    // Cycle walking: only the numbers that fell outside go round again, packed together. On average fewer than
    // n of 2^bits do, so a few small blocks finish.
    std::int64_t left_over = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      walking[left_over] = dest[i];
      where[left_over] = static_cast<std::int16_t>(i);
      left_over += dest[i] >= n_;
    }
    while (left_over > 0) {
      take_halves(walking, block, left_over, right_bits_, right_mask_);
      Forward ? rounds_forward(block, left_over, round_keys_.data(), left_mask_, right_mask_)
              : rounds_backward(block, left_over, round_keys_.data(), left_mask_, right_mask_);
      put_together(block, walking, left_over, right_bits_);
      std::int64_t still = 0;
      for (std::int64_t i = 0; i < left_over; ++i) {
        const std::int64_t value = walking[i];
        const std::int16_t to = where[i];
        dest[to] = value;
        walking[still] = value;
        where[still] = to;
        still += value >= n_;
      }
      left_over = still;
    }
  }
}

void Permutation::at(const std::int64_t* in, std::int64_t* out, std::int64_t count) const {
  apply<true>(in, out, count);
}

void Permutation::find(const std::int64_t* in, std::int64_t* out, std::int64_t count) const {
  apply<false>(in, out, count);
}

void Permutation::run(std::int64_t first, std::int64_t count, std::int64_t* out) const {
  if (!is_table() && count < 4) {  // below that the block's set-up costs more than it saves
    for (std::int64_t i = 0; i < count; ++i) out[i] = at(first + i);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) out[i] = first + i;
  at(out, out, count);
}

}  // namespace tombola
