#include "arrays_random.hpp"

#include <algorithm>
#include <cstring>

#include "clones.hpp"

namespace tombola {
namespace {

// A vector type of GCC and Clang: a loop over eight lanes that is certain to become vector instructions, and correct
// where there are none.
using Words = std::uint64_t __attribute__((vector_size(8 * Lanes8::kLanes)));

TOMBOLA_CLONES void advance(std::uint64_t (*state)[Lanes8::kLanes], std::uint64_t* out, int steps) {
  Words s0, s1, s2, s3;
  std::memcpy(&s0, state[0], sizeof s0);
  std::memcpy(&s1, state[1], sizeof s1);
  std::memcpy(&s2, state[2], sizeof s2);
  std::memcpy(&s3, state[3], sizeof s3);
  for (int step = 0; step < steps; ++step, out += Lanes8::kLanes) {
    const Words sum = s0 + s3, result = ((sum << 23) | (sum >> 41)) + s0, t = s1 << 17;
    std::memcpy(out, &result, sizeof result);
    s2 ^= s0;
    s3 ^= s1;
    s1 ^= s2;
    s0 ^= s3;
    s2 ^= t;
    s3 = (s3 << 45) | (s3 >> 19);
  }
  std::memcpy(state[0], &s0, sizeof s0);
  std::memcpy(state[1], &s1, sizeof s1);
  std::memcpy(state[2], &s2, sizeof s2);
  std::memcpy(state[3], &s3, sizeof s3);
}

// Products of a block of halves with falling bounds. True when some low product is below its bound, so that the exact
// test is needed; that is once in a few thousand blocks.
TOMBOLA_CLONES bool products(const std::uint32_t* halves, std::uint32_t bound, int count, std::uint32_t* out) {
  std::uint32_t doubtful = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t b = bound - static_cast<std::uint32_t>(i);
    const std::uint64_t product = static_cast<std::uint64_t>(halves[i]) * b;
    out[i] = static_cast<std::uint32_t>(product >> 32);
    doubtful |= static_cast<std::uint32_t>(static_cast<std::uint32_t>(product) < b);
  }
  return doubtful != 0;
}

}  // namespace

Lanes8::Lanes8(std::uint64_t key) {
  for (int i = 0; i < 4; ++i) {
    for (int l = 0; l < kLanes; ++l) state_[i][l] = word(key, static_cast<std::uint64_t>(i * kLanes + l));
  }
}

void Lanes8::fill(std::uint64_t* out, int steps) { advance(state_, out, steps); }

void Falling::refill() {
  // Few draws left: do not make a whole block of words for them.
  const int draws = static_cast<int>(std::min<std::uint32_t>(bound_ - 1, kBlock));
  const int steps = (draws + kGroup - 1) / kGroup;
  used_ = kWords - steps * Lanes8::kLanes;
  lanes_.fill(words_ + used_, steps);
}

void Falling::group(std::uint32_t* out) {
  const int count = static_cast<int>(std::min<std::uint32_t>(bound_ - 1, kGroup));
  for (;;) {
    if (used_ == kWords) refill();
    std::uint32_t halves[kGroup];
    std::memcpy(halves, words_ + used_, sizeof halves);
    used_ += Lanes8::kLanes;
    if (!products(halves, bound_, count, out)) break;
    bool refused = false;
    for (int i = 0; i < count; ++i) {
      const std::uint32_t b = bound_ - static_cast<std::uint32_t>(i);
      refused = refused || static_cast<std::uint32_t>(halves[i] * b) < (0u - b) % b;
    }
    if (!refused) break;
  }
  bound_ -= static_cast<std::uint32_t>(count);
}

int Falling::next(std::uint32_t* out) {
  if (bound_ < 2) return 0;
  if (used_ == kWords) refill();
  const int ready = 2 * (kWords - used_);
  const int count = static_cast<int>(std::min<std::uint32_t>(bound_ - 1, static_cast<std::uint32_t>(ready)));
  std::uint32_t halves[kBlock];
  std::memcpy(halves, words_ + used_, static_cast<std::size_t>(ready) * 4);
  if (!products(halves, bound_, count, out)) {
    used_ = kWords;
    bound_ -= static_cast<std::uint32_t>(count);
    return count;
  }
  int done = 0;
  while (done < count && bound_ >= 2) {
    const int before = done;
    done += static_cast<int>(std::min<std::uint32_t>(bound_ - 1, kGroup));
    if (done > kBlock) return before;
    group(out + before);
  }
  return done;
}

}  // namespace tombola
