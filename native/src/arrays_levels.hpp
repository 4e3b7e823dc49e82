// The exact shuffle as a template over where the rows are. Only the .cpp files of the array shuffles include this.
#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "arrays_deal.hpp"
#include "arrays_exact.hpp"
#include "arrays_random.hpp"
#include "large.hpp"

namespace tombola::exact {

// Children of a level's key, one for each purpose.
enum Purpose : std::uint64_t { kLeaf = 0, kRough = 1, kRest = 2, kBucket = 3 };

template <class Rows>
class Exact {
 public:
  using Row = typename Rows::Row;

  Exact(Rows rows, int threads, const Stop& stop, const Tuning& tuning)
      : rows_(rows), threads_(threads), stop_(stop), tuning_(tuning) {}

  bool run(std::uint64_t n, std::uint64_t key) {
    if (n <= tuning_.leaf_max) {
      if (stop_ && stop_()) return false;
      leaf(0, n, key);
      return true;
    }
    const Cut cut(n, 0, tuning_);
    Work work;
    if (!scatter(0, n, key, cut, threads_, stop_, work)) return false;
    std::vector<Work> works(static_cast<std::size_t>(std::max(threads_, 1)));
    const std::vector<std::uint64_t> borders = work.borders;
    work = {};
    const std::uint64_t bucket_key = child(key, kBucket);
    return run_tasks(static_cast<std::int64_t>(cut.fan), threads_, stop_, [&](std::int64_t b, int worker) {
      const auto i = static_cast<std::size_t>(b);
      bucket(borders[i], borders[i + 1] - borders[i], child(bucket_key, i), 1, works[static_cast<std::size_t>(worker)]);
    });
  }

  struct Span {
    std::uint64_t begin, size;
  };
  // Buckets [first, last) are filled at once, after the displaced rows of regions [lift_first, lift_last) were copied.
  struct Wave {
    std::uint64_t first, last, lift_first, lift_last;
  };
  // Scratch of one scatter, kept by each thread from bucket to bucket.
  struct Work {
    std::vector<std::uint64_t> placed;      // [region][task] rows that the task put into its slice of the region
    std::vector<Span> holes;                // rows that belong to no bucket yet, by position
    std::vector<std::uint64_t> spans;       // [fan + 1] spans of holes before those of a region
    std::vector<std::uint64_t> rows;        // [fan + 1] rows in holes before those of a region
    std::vector<std::uint64_t> to;          // [region][bucket] where in the stash the region's next row goes
    std::vector<std::uint64_t> stashed;     // [fan + 1] stashed rows before those of a bucket
    std::vector<std::uint64_t> moved;       // [fan] displaced rows of a bucket
    std::vector<std::uint64_t> kept;        // [fan] where in `displaced` they are kept, from their lift to their fill
    std::vector<std::uint64_t> borders;     // [fan + 1] where the buckets begin
    std::vector<Wave> waves;
    LargeVector<std::uint8_t> letters;      // the bucket of each row in a hole
    LargeVector<std::byte> stash, displaced;
    std::vector<Work> deeper;               // at most one: the level below
  };

  // Fisher–Yates. Meanwhile the rows are asked for that come after these, which is where the next leaf is.
  void leaf(std::uint64_t begin, std::uint64_t n, std::uint64_t key, std::uint64_t after = 0) {
    if (n < 2) return;
    Falling falling(child(key, kLeaf), static_cast<std::uint32_t>(n));
    alignas(64) std::uint32_t draws[Falling::kBlock];
    auto rows = rows_.from(begin);
    rows.warm(0, n);
    std::uint64_t asked = n;
    for (std::uint64_t last = n - 1; last > 0;) {
      const int count = falling.next(draws);
      rows.fall(last, draws, count);
      const std::uint64_t more = std::min(static_cast<std::uint64_t>(count), n + after - asked);
      rows.warm(asked, more);
      asked += more;
      last -= static_cast<std::uint64_t>(count);
    }
  }

  void bucket(std::uint64_t begin, std::uint64_t n, std::uint64_t key, int depth, Work& work, std::uint64_t after = 0) {
    if (n <= tuning_.leaf_max) return leaf(begin, n, key, after);
    const Cut cut(n, depth, tuning_);
    scatter(begin, n, key, cut, 1, {}, work);
    const std::uint64_t bucket_key = child(key, kBucket);
    if (work.deeper.empty()) work.deeper.resize(1);
    const auto size = [&](std::uint64_t b) { return b < cut.fan ? work.borders[b + 1] - work.borders[b] : 0; };
    for (std::uint64_t b = 0; b < cut.fan; ++b) {
      bucket(begin + work.borders[b], size(b), child(bucket_key, b), depth + 1, work.deeper[0], size(b + 1));
    }
  }

  // One task: the row in hand is dealt to a random bucket, where it changes places with the next row of the task's
  // slice, until some slice is nearly full. The last row of the last slice is the first in hand, and its place takes
  // the last.
  void rough(std::uint64_t begin, const Cut& cut, std::uint64_t task, std::uint64_t key, std::uint64_t* placed) {
    if (cut.slice == 0) return;  // fewer rows than buckets: all are left over
    const auto start = [&](std::uint64_t b) { return begin + b * cut.stride + task * cut.slice; };
    typename Rows::Head heads[256];
    for (std::uint64_t b = 0; b < cut.fan; ++b) heads[b] = rows_.head(start(b));
    const std::uint64_t spare = start(cut.fan - 1) + cut.slice - 1;
    Letters letters(child(key, task), cut.fan_bits);
    Dealer<Rows> dealer(rows_, cut, tuning_);
    Row hand = rows_.take(spare);
    for (;;) {
      std::uint64_t room = cut.slice;
      for (std::uint64_t b = 0; b < cut.fan; ++b) {
        const std::uint64_t end = start(b) + cut.slice - (b + 1 == cut.fan);
        room = std::min(room, end - rows_.row_of(heads[b]));
      }
      if (room < tuning_.margin) break;
      dealer.deal(letters, room, heads, hand);
    }
    rows_.put(spare, hand);
    for (std::uint64_t b = 0; b < cut.fan; ++b) {
      placed[b * cut.tasks + task] = rows_.row_of(heads[b]) - start(b);
    }
  }

  bool scatter(std::uint64_t begin, std::uint64_t n, std::uint64_t key, const Cut& cut, int threads, const Stop& stop,
               Work& work) {
    work.placed.assign(cut.fan * cut.tasks, 0);
    const std::uint64_t rough_key = child(key, kRough);
    if (!run_tasks(static_cast<std::int64_t>(cut.tasks), threads, stop, [&](std::int64_t task, int) {
          rough(begin, cut, static_cast<std::uint64_t>(task), rough_key, work.placed.data());
        })) {
      return false;
    }
    settle(begin, n, key, cut, threads, work);
    return true;
  }

  // The second half of a scatter: deals what the tasks left over, and moves the borders to where they belong.
  void settle(std::uint64_t begin, std::uint64_t n, std::uint64_t key, const Cut& cut, int threads, Work& work) {
    list_holes(n, cut, work);
    draw_rest(child(key, kRest), cut, threads, work);
    measure(cut, work);
    plan_waves(n, cut, work);
    // All memory is taken by now: a failure from here on would lose rows.
    const auto each = [&](std::uint64_t first, std::uint64_t last, const auto& body) {
      run_tasks(static_cast<std::int64_t>(last - first), threads, {},
                [&](std::int64_t b, int) { body(first + static_cast<std::uint64_t>(b)); });
    };
    each(0, cut.fan, [&](std::uint64_t b) { lift_rest(begin, b, work); });
    for (const Wave& wave : work.waves) {
      each(wave.lift_first, wave.lift_last, [&](std::uint64_t b) { lift_displaced(begin, cut, b, work); });
      each(wave.first, wave.last, [&](std::uint64_t b) { fill(begin, cut, b, work); });
    }
  }

  static void list_holes(std::uint64_t n, const Cut& cut, Work& work) {
    work.holes.clear();
    work.spans.clear();
    work.rows.assign(1, 0);
    std::uint64_t rows = 0;
    const auto add = [&](std::uint64_t from, std::uint64_t to) {
      if (from < to) work.holes.push_back({from, to - from});
      rows += to - from;
    };
    for (std::uint64_t b = 0; b < cut.fan; ++b) {
      work.spans.push_back(work.holes.size());
      const std::uint64_t region = b * cut.stride;
      for (std::uint64_t t = 0; t < cut.tasks; ++t) {
        add(region + t * cut.slice + work.placed[b * cut.tasks + t], region + (t + 1) * cut.slice);
      }
      add(region + cut.tasks * cut.slice, b + 1 < cut.fan ? region + cut.stride : n);
      work.rows.push_back(rows);
    }
    work.spans.push_back(work.holes.size());
  }

  // Draws the bucket of every row in a hole, a stream for each region, and counts them.
  static void draw_rest(std::uint64_t key, const Cut& cut, int threads, Work& work) {
    work.letters.resize(work.rows[cut.fan]);
    work.to.assign(cut.fan * cut.fan, 0);
    run_tasks(static_cast<std::int64_t>(cut.fan), threads, {}, [&](std::int64_t region, int) {
      const auto b = static_cast<std::uint64_t>(region);
      Letters letters(child(key, b), cut.fan_bits);
      std::uint64_t* counts = work.to.data() + b * cut.fan;
      for (std::uint64_t i = work.rows[b]; i < work.rows[b + 1];) {
        std::uint64_t w = letters.word();
        for (int k = 0; k < letters.each() && i < work.rows[b + 1]; ++k, w >>= letters.bits(), ++i) {
          const std::uint64_t to = w & (cut.fan - 1);
          work.letters[i] = static_cast<std::uint8_t>(to);
          ++counts[to];
        }
      }
    });
  }

  // The true sizes of the buckets are known now: their borders, and how many rows are kept elsewhere meanwhile.
  static void measure(const Cut& cut, Work& work) {
    work.borders.assign(1, 0);
    work.stashed.assign(1, 0);
    work.moved.clear();
    for (std::uint64_t b = 0; b < cut.fan; ++b) {
      std::uint64_t stashed = work.stashed[b];
      for (std::uint64_t region = 0; region < cut.fan; ++region) {
        const std::uint64_t rows = std::exchange(work.to[region * cut.fan + b], stashed);
        stashed += rows;
      }
      std::uint64_t size = stashed - work.stashed[b];
      for (std::uint64_t t = 0; t < cut.tasks; ++t) size += work.placed[b * cut.tasks + t];
      work.stashed.push_back(stashed);
      work.borders.push_back(work.borders[b] + size);
      std::uint64_t moved = 0;
      each_placed(cut, b, work, [&](std::uint64_t from, std::uint64_t to) {
        moved += (to - from) - within(from, to, work.borders[b], work.borders[b + 1]).size;
      });
      work.moved.push_back(moved);
    }
  }

  // Regions are a little smaller than mean buckets, so the borders move further from bucket to bucket, to the right. All
  // displaced rows together can be half of the data. So buckets are filled from the last to the first, few at a time: what
  // bucket b grows into has been lifted already, and its own displaced rows are needed no more once it is filled. They
  // are kept in a ring.
  void plan_waves(std::uint64_t n, const Cut& cut, Work& work) const {
    const std::uint64_t aim = std::max<std::uint64_t>(tuning_.displaced_aim / rows_.bytes(), 1);
    work.waves.clear();
    std::uint64_t lifted = cut.fan, live = 0, live_max = 0, one_max = 0;
    for (std::uint64_t last = cut.fan; last > 0; last = work.waves.back().first) {
      Wave wave{last, last, lifted, lifted};
      do {
        --wave.first;
        // Lifted: its own region, and all those that its bucket reaches into.
        for (; lifted > 0 && (lifted > wave.first || region_end(n, cut, lifted - 1) > work.borders[wave.first]); --lifted) {
          live += work.moved[lifted - 1];
          one_max = std::max(one_max, work.moved[lifted - 1]);
        }
      } while (wave.first > 0 && live < aim);
      wave.lift_first = lifted;
      live_max = std::max(live_max, live);
      for (std::uint64_t b = wave.first; b < wave.last; ++b) live -= work.moved[b];
      work.waves.push_back(wave);
    }
    const std::uint64_t ring = live_max + one_max;  // a bucket's rows stay together, so the ring's end may stay empty
    work.kept.assign(cut.fan, 0);
    std::uint64_t at = 0;
    for (std::uint64_t b = cut.fan; b-- > 0; at += work.moved[b]) {
      if (at + work.moved[b] > ring) at = 0;
      work.kept[b] = at;
    }
    work.stash.resize(work.stashed[cut.fan] * rows_.bytes());
    work.displaced.resize(ring * rows_.bytes());
  }

  static std::uint64_t region_end(std::uint64_t n, const Cut& cut, std::uint64_t b) {
    return b + 1 < cut.fan ? (b + 1) * cut.stride : n;
  }

  template <class Body>  // Body(from, to), for the runs of rows that the rough scatter put into region b
  static void each_placed(const Cut& cut, std::uint64_t b, const Work& work, const Body& body) {
    for (std::uint64_t t = 0; t < cut.tasks; ++t) {
      const std::uint64_t from = b * cut.stride + t * cut.slice;
      if (work.placed[b * cut.tasks + t] > 0) body(from, from + work.placed[b * cut.tasks + t]);
    }
  }

  // The part of [from, to) that lies in [low, high).
  static Span within(std::uint64_t from, std::uint64_t to, std::uint64_t low, std::uint64_t high) {
    const std::uint64_t begin = std::clamp(from, low, high), end = std::clamp(to, low, high);
    return {begin, end - begin};
  }

  // Copies the rows in the holes of region b, grouped by bucket.
  void lift_rest(std::uint64_t begin, std::uint64_t b, Work& work) const {
    const std::uint64_t bytes = rows_.bytes();
    std::uint64_t* to = work.to.data() + b * (work.borders.size() - 1);
    const std::uint8_t* letter = work.letters.data() + work.rows[b];
    std::vector<std::byte> read;
    for (std::uint64_t s = work.spans[b]; s < work.spans[b + 1]; ++s) {
      const Span hole = work.holes[s];
      if constexpr (Rows::kFar) {  // one read for the span, not one for each row
        read.resize(hole.size * bytes);
        rows_.copy_out(begin + hole.begin, hole.size, read.data());
      }
      for (std::uint64_t i = 0; i < hole.size; ++i) {
        std::byte* const place = work.stash.data() + to[*letter++]++ * bytes;
        if constexpr (Rows::kFar) std::memcpy(place, read.data() + i * bytes, bytes);
        else rows_.copy_out(begin + hole.begin + i, 1, place);
      }
    }
  }

  // Copies those rows of bucket b that lie outside its borders.
  void lift_displaced(std::uint64_t begin, const Cut& cut, std::uint64_t b, Work& work) const {
    const std::uint64_t bytes = rows_.bytes();
    std::byte* displaced = work.displaced.data() + work.kept[b] * bytes;
    const auto keep = [&](std::uint64_t from, std::uint64_t end) {
      if (from >= end) return;
      rows_.copy_out(begin + from, end - from, displaced);
      displaced += (end - from) * bytes;
    };
    each_placed(cut, b, work, [&](std::uint64_t from, std::uint64_t end) {
      const Span in = within(from, end, work.borders[b], work.borders[b + 1]);
      if (in.size == 0) return keep(from, end);
      keep(from, in.begin);
      keep(in.begin + in.size, end);
    });
  }

  // Fills what is free within the borders of bucket b: first with its displaced rows, then with its stashed ones.
  void fill(std::uint64_t begin, const Cut& cut, std::uint64_t b, const Work& work) const {
    const std::uint64_t bytes = rows_.bytes();
    std::uint64_t displaced = work.kept[b], stashed = work.stashed[b];
    const std::uint64_t displaced_end = displaced + work.moved[b];
    const auto put = [&](std::uint64_t from, std::uint64_t end) {
      if (from >= end) return;
      const std::uint64_t first = std::min(end - from, displaced_end - displaced);
      rows_.copy_in(begin + from, first, work.displaced.data() + displaced * bytes);
      displaced += first;
      rows_.copy_in(begin + from + first, end - from - first, work.stash.data() + stashed * bytes);
      stashed += end - from - first;
    };
    std::uint64_t at = work.borders[b];
    each_placed(cut, b, work, [&](std::uint64_t from, std::uint64_t end) {
      const Span in = within(from, end, work.borders[b], work.borders[b + 1]);
      if (in.size == 0) return;
      put(at, in.begin);
      at = in.begin + in.size;
    });
    put(at, work.borders[b + 1]);
  }

  Rows rows_;
  int threads_;
  const Stop& stop_;
  const Tuning& tuning_;
};

}  // namespace tombola::exact
