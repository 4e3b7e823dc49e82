// How one task of a scatter deals rows to its slices. Only arrays_levels.hpp includes this.
#pragma once
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "arrays_exact.hpp"
#include "arrays_random.hpp"
#include "arrays_rows.hpp"
#include "large.hpp"

namespace tombola::exact {

// The cut of one level: 2^fan_bits regions of `stride` rows, each with `tasks` slices of `slice` rows. What the slices
// do not cover belongs to no task and is dealt at the end.
struct Cut {
  int fan_bits;
  std::uint64_t fan, stride, tasks, slice;

  Cut(std::uint64_t n, int depth, const Tuning& t) {
    const int wanted = std::bit_width((n - 1) / t.leaf_aim);  // bits that bring the mean leaf to leaf_aim or below
    fan_bits = std::clamp(wanted, 1, t.fan_bits_max);
    fan = std::uint64_t{1} << fan_bits;
    stride = n / fan;
    // A stride of 17 mod 64 rows puts the write heads into different cache sets, whatever the row's size.
    if (stride >= t.stagger_min) stride -= (stride - 17) & 63;
    tasks = depth > 0 ? 1 : std::bit_floor(std::clamp<std::uint64_t>(stride / t.slice_min, 1, t.tasks_max));
    slice = stride / tasks;
  }
};

// Each letter names a head, and the row in hand changes places with the next row there.
template <int Known, class Rows>  // Known bits, or 0: as many as the letters have
void deal_bits(const Rows rows, Letters& letters, std::uint64_t count, typename Rows::Head* heads,
               typename Rows::Row& in_hand) {
  const int bits = Known > 0 ? Known : letters.bits();
  const auto each = static_cast<std::uint64_t>(64 / bits);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  typename Rows::Row hand = in_hand;
  for (; count >= each; count -= each) {
    std::uint64_t w = letters.word();
    if constexpr (Known > 0) {
#pragma GCC unroll 16
      for (std::uint64_t i = 0; i < each; ++i, w >>= bits) rows.swap(heads[w & mask], hand);
    } else {
      for (std::uint64_t i = 0; i < each; ++i, w >>= bits) rows.swap(heads[w & mask], hand);
    }
  }
  if (count > 0) {
    std::uint64_t w = letters.word();
    for (; count > 0; --count, w >>= bits) rows.swap(heads[w & mask], hand);
  }
  in_hand = hand;
}

template <class Rows>
void deal(const Rows rows, Letters& letters, std::uint64_t count, typename Rows::Head* heads,
          typename Rows::Row& hand) {
  // With the bits a constant of the inner loop, shifts by a constant and no loop over the letters of a word are a tenth
  // of the time.
  if constexpr (Rows::kUnrolled) {
    switch (letters.bits()) {
      case 2: return deal_bits<2>(rows, letters, count, heads, hand);
      case 3: return deal_bits<3>(rows, letters, count, heads, hand);
      case 4: return deal_bits<4>(rows, letters, count, heads, hand);
      case 5: return deal_bits<5>(rows, letters, count, heads, hand);
      case 6: return deal_bits<6>(rows, letters, count, heads, hand);
      case 7: return deal_bits<7>(rows, letters, count, heads, hand);
      case 8: return deal_bits<8>(rows, letters, count, heads, hand);
      default: break;
    }
  }
  deal_bits<0>(rows, letters, count, heads, hand);
}

// Deals where the rows are, or a few thousand rows at a time in memory of its own, next to each other: the result is the
// same. Regions whose distance is near a power of two, as those of 2^28 rows, compete for a few places of the processor's
// table of pages; then every row dealt far away waits for that table, and copying runs there and back takes less time.
// Which is so here is measured.
template <class Rows>
class Dealer {
 public:
  using Head = typename Rows::Head;
  using Row = typename Rows::Row;

  Dealer(const Rows& rows, const Cut& cut, const Tuning& tuning) : rows_(rows), fan_(cut.fan), tuning_(tuning) {
    if constexpr (Rows::kNear) {
      near_ = tuning.near != Near::never && (cut.fan_bits == 8 || tuning.near == Near::always);
      // Taken before a row is in hand, which a failure would lose. What a slot has no room for goes into those after it.
      if (near_) memory_.resize(fan_ * slot(kLetters) + kLetters);
    }
  }

  void deal(Letters& letters, std::uint64_t count, Head* heads, Row& hand) {
    if constexpr (Rows::kNear) {
      if (near_ && tuning_.near == Near::always) return deal_near(letters, count, heads, hand);
      if (near_) return deal_measured(letters, count, heads, hand);
    }
    exact::deal(rows_, letters, count, heads, hand);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kLetters = 1 << 15;  // dealt at a time; with 256 slots, rows of four bytes fill 200 KiB
  static constexpr int kTrials = 4;                   // rounds of each kind in turn, the first of either for warmth

  // So many rows are copied from each head, of which `letters` letters will use 1 / fan: a bucket that gets more is rare.
  std::uint64_t slot(std::uint64_t letters) const {
    const std::uint64_t mean = letters / fan_;
    const auto spread = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(mean)));
    return (mean + tuning_.near_spreads * (spread + 1)) / kLineRows * kLineRows + kLineRows;
  }

  void deal_measured(Letters& letters, std::uint64_t count, Head* heads, Row& hand) {
    const bool trial = rounds_ < kTrials;
    const bool near = trial ? rounds_ % 2 == 1 : took_[1] < took_[0];
    const auto began = trial ? Clock::now() : Clock::time_point{};
    if (near) deal_near(letters, count, heads, hand);
    else exact::deal(rows_, letters, count, heads, hand);
    if (trial) {
      took_[near] = std::chrono::duration<double>(Clock::now() - began).count() / static_cast<double>(count);
      ++rounds_;
    }
  }

  void deal_near(Letters& letters, std::uint64_t count, Head* heads, Row& hand) {
    const auto each = static_cast<std::uint64_t>(letters.each());
    while (count >= each) {
      const std::uint64_t now = std::min(count, kLetters) / each * each;
      const std::uint64_t rows = slot(now);
      if (rows > count) break;  // of every head there are `count` rows, but no more
      const Row hand_before = hand;
      const Letters letters_before = letters;
      if (!(letters.bits() == 8 ? deal_in_slots<8>(letters, now, rows, heads, hand)
                                : deal_in_slots<0>(letters, now, rows, heads, hand))) {
        hand = hand_before;
        letters = letters_before;
        exact::deal(rows_, letters, now, heads, hand);
      }
      count -= now;
    }
    if (count > 0) exact::deal(rows_, letters, count, heads, hand);
  }

  // False, and nothing is written, when a slot was too small. The loops are written out here, since with those of
  // deal_bits it takes a fifth longer.
  template <int Known>
  bool deal_in_slots(Letters& letters, std::uint64_t count, std::uint64_t rows, Head* heads, Row& hand) {
    const int bits = Known > 0 ? Known : letters.bits();
    const auto each = static_cast<std::uint64_t>(64 / bits);
    const std::uint64_t fan = std::uint64_t{1} << bits;
    Row* const first = memory_.data();
    Row* at[256];
    for (std::uint64_t b = 0; b < fan; ++b) at[b] = first + b * rows;
    copy_in(at, heads, rows, fan);
    const std::uint64_t part = count / fan / each, ahead = (count / fan * sizeof(Row) + kLine - 1) / kLine;
    Row h = hand;  // in a register
    const auto word = [&] {
      std::uint64_t w = letters.word();
#pragma GCC unroll 16
      for (std::uint64_t i = 0; i < each; ++i, w >>= bits) {
        Row*& head = at[w & (fan - 1)];
        Row* const row = head++;
        const Row old = *row;
        *row = h;
        h = old;
      }
    };
    for (std::uint64_t b = 0; b < fan; ++b) {  // meanwhile what will be copied next time is asked for
      const auto* next = reinterpret_cast<const char*>(heads[b] + rows);
      for (std::uint64_t i = 0; i < ahead; ++i) __builtin_prefetch(next + i * kLine, 1);
      for (std::uint64_t i = 0; i < part; ++i) word();
    }
    for (std::uint64_t i = part * fan; i < count / each; ++i) word();
    hand = h;
    bool over = false;
    for (std::uint64_t b = 0; b < fan; ++b) over |= at[b] > first + (b + 1) * rows;
    if (over) return false;
    copy_out(at, heads, rows, fan, first);
    return true;
  }

  static constexpr std::uint64_t kLineRows = std::max<std::uint64_t>(kLine / sizeof(Row), 1);
  __attribute__((noinline)) static void copy_in(Row* const* at, const Head* heads, std::uint64_t rows,
                                                std::uint64_t fan) {
    for (std::uint64_t b = 0; b < fan; ++b) copy_lines(at[b], heads[b], rows);
  }
  __attribute__((noinline)) static void copy_out(Row* const* at, Head* heads, std::uint64_t rows, std::uint64_t fan,
                                                 const Row* first) {
    for (std::uint64_t b = 0; b < fan; ++b) {
      const Row* const slot = first + b * rows;
      const auto used = static_cast<std::uint64_t>(at[b] - slot);
      copy_lines(heads[b], slot, used);  // up to a line more, which is as it was
      heads[b] += used;
    }
  }
  static void copy_lines(Row* to, const Row* from, std::uint64_t rows) {
    for (std::uint64_t i = 0; i < rows; i += kLineRows) std::memcpy(to + i, from + i, kLineRows * sizeof(Row));
  }

  const Rows& rows_;
  std::uint64_t fan_;
  const Tuning& tuning_;
  bool near_ = false;
  int rounds_ = 0;
  double took_[2] = {0, 0};  // for a letter, far and near
  LargeVector<Row> memory_;
};

}  // namespace tombola::exact
