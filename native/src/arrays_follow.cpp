#include "arrays_follow.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "arrays_rows.hpp"
#include "keys.hpp"
#include "large.hpp"
#include "mover.hpp"

namespace tombola {
namespace {

constexpr std::uint64_t kColumnsFrom = 64 << 10;      // rows this large are shared by columns
constexpr std::uint64_t kStripMin = 16 << 10, kStripAim = 96 << 10;  // wide runs are fast, but the row in hand is to fit a cache
constexpr std::uint64_t kSavedMax = 32 << 20;         // bytes of cut rows that are always allowed
constexpr int kCutBits = 6;                           // else every 64th row is cut
constexpr std::uint64_t kPiecesAim = 4096;
constexpr std::uint64_t kWalkersMin = 8, kWalkersMax = 48;
constexpr std::uint64_t kOnTheWay = 12 << 10;         // bytes of rows that the walkers of a thread have asked for: measured
constexpr std::uint64_t kStepsAtOnce = 1 << 20;       // of Fisher–Yates, between two looks for a stop
constexpr std::uint64_t kPiecesMin = 64, kPiecesMax = 1024;  // of a task

// All arrays of a unison as if they were one with long rows.
class Movers {
 public:
  explicit Movers(const std::vector<Strided>& arrays) {
    for (const Strided& array : arrays) {
      movers_.emplace_back(array);
      row_bytes_ += movers_.back().row_bytes();
    }
  }
  std::uint64_t row_bytes() const { return row_bytes_; }
  void move(std::uint64_t to, std::uint64_t from) const {
    for (const Mover& m : movers_) m.move(to, from);
  }
  void save(std::uint64_t i, std::byte* run) const {
    for (const Mover& m : movers_) {
      m.save(i, run);
      run += m.row_bytes();
    }
  }
  void restore(std::uint64_t i, const std::byte* run) const {
    for (const Mover& m : movers_) {
      m.restore(i, run);
      run += m.row_bytes();
    }
  }
  void prefetch(std::uint64_t i) const {
    for (const Mover& m : movers_) m.prefetch(i);
  }

 private:
  std::vector<Mover> movers_;
  std::uint64_t row_bytes_ = 0;
};

// Follows whole cycles one after the other. A place that has its row is marked by from[i] = i.
template <class T>
void follow_cycles(T* from, std::uint64_t n, const Movers& rows, std::byte* hand) {
  for (std::uint64_t start = 0; start < n; ++start) {
    if (from[start] == start) continue;
    rows.save(start, hand);
    std::uint64_t at = start;
    while (from[at] != start) {
      const std::uint64_t next = from[at];
      rows.move(at, next);
      from[at] = static_cast<T>(at);
      at = next;
    }
    rows.restore(at, hand);
    from[at] = static_cast<T>(at);
  }
}

// Follows the pieces of cycles between cut rows. A piece begins at a cut place and ends where a cut row is wanted, of
// which there is a copy; so no piece reads what another writes. Several walkers take turns, and what a walker will need
// at its next turn is asked for at this one.
template <class T>
class Pieces {
 public:
  Pieces(T* from, std::uint64_t n, int cut_bits, const Movers& rows)
      : from_(from), cut_bits_(cut_bits), rows_(rows), pieces_((n + mask()) >> cut_bits),
        per_task_(std::clamp(pieces_ / 64, kPiecesMin, kPiecesMax)),
        walkers_(std::clamp(kOnTheWay / std::max<std::uint64_t>(rows.row_bytes(), 1), kWalkersMin, kWalkersMax)),
        saved_(pieces_ * rows.row_bytes()) {}

  void run(int threads) {
    const auto tasks = static_cast<std::int64_t>((pieces_ + per_task_ - 1) / per_task_);
    run_tasks(tasks, threads, {}, [&](std::int64_t task, int) {
      const auto [begin, end] = span(task);
      for (std::uint64_t piece = begin; piece < end; ++piece) rows_.save(piece << cut_bits_, saved(piece));
    });
    run_tasks(tasks, threads, {}, [&](std::int64_t task, int) {
      const auto [begin, end] = span(task);
      walk(begin, end);
    });
  }

 private:
  struct Walker {
    std::uint64_t at, next;
    bool known;  // next has been read, and its row asked for
  };

  std::uint64_t mask() const { return (std::uint64_t{1} << cut_bits_) - 1; }
  std::byte* saved(std::uint64_t piece) { return saved_.data() + piece * rows_.row_bytes(); }
  std::pair<std::uint64_t, std::uint64_t> span(std::int64_t task) const {
    const std::uint64_t begin = static_cast<std::uint64_t>(task) * per_task_;
    return {begin, std::min(begin + per_task_, pieces_)};
  }

  void walk(std::uint64_t piece, std::uint64_t end) {
    std::array<Walker, kWalkersMax> walkers;
    std::size_t active = 0;
    for (; active < walkers_ && piece < end; ++active, ++piece) walkers[active] = {piece << cut_bits_, 0, false};
    while (active > 0) {
      for (std::size_t w = 0; w < active;) {
        Walker& walker = walkers[w];
        if (turn(walker)) {
          ++w;
        } else if (piece < end) {
          walker = {piece++ << cut_bits_, 0, false};
          ++w;
        } else {
          walker = walkers[--active];
        }
      }
    }
  }

  // False when the piece has ended.
  bool turn(Walker& walker) {
    if (!walker.known) {
      walker.next = from_[walker.at];
      walker.known = true;
      if ((walker.next & mask()) == 0) __builtin_prefetch(saved(walker.next >> cut_bits_));
      else rows_.prefetch(walker.next);
      return true;
    }
    from_[walker.at] = static_cast<T>(walker.at);
    if ((walker.next & mask()) == 0) {
      rows_.restore(walker.at, saved(walker.next >> cut_bits_));
      return false;
    }
    rows_.move(walker.at, walker.next);
    __builtin_prefetch(from_ + walker.next, 1);
    walker = {walker.next, 0, false};
    return true;
  }

  T* from_;
  int cut_bits_;
  const Movers& rows_;
  std::uint64_t pieces_, per_task_, walkers_;
  LargeVector<std::byte> saved_;
};

// Strips of the columns, narrow enough for the row in hand to stay in cache. Each follows all cycles.
template <class T>
void follow_columns(const T* from, std::uint64_t n, const Strided& array, int threads) {
  // All memory is taken before the first row moves: a failure half way would tear rows.
  std::vector<T> places;               // cycle after cycle
  std::vector<std::uint64_t> ends;     // in places
  std::vector<bool> done(n, false);
  for (std::uint64_t start = 0; start < n; ++start) {
    if (done[start] || from[start] == start) continue;
    for (std::uint64_t at = start; !done[at]; at = from[at]) {
      done[at] = true;
      places.push_back(static_cast<T>(at));
    }
    ends.push_back(places.size());
  }
  const std::uint64_t workers = static_cast<std::uint64_t>(std::max(threads, 1));
  const std::uint64_t strips = std::max(std::min(workers, array.bytes / kStripMin), array.bytes / kStripAim);
  const std::uint64_t width = (array.bytes + strips * kLine - 1) / (strips * kLine) * kLine;
  LargeVector<std::byte> hands(workers * width);
  run_tasks(static_cast<std::int64_t>(strips), threads, {}, [&](std::int64_t strip, int worker) {
    const std::uint64_t begin = std::min(static_cast<std::uint64_t>(strip) * width, array.bytes);
    const std::uint64_t bytes = std::min(begin + width, array.bytes) - begin;
    std::byte* const hand = hands.data() + static_cast<std::uint64_t>(worker) * width;
    const auto at = [&](std::uint64_t i) {
      return array.base + static_cast<std::int64_t>(places[i]) * array.step + begin;
    };
    std::uint64_t i = 0;
    for (const std::uint64_t end : ends) {
      std::memcpy(hand, at(i), bytes);
      for (; i + 1 < end; ++i) std::memcpy(at(i), at(i + 1), bytes);
      std::memcpy(at(i++), hand, bytes);
    }
  });
}

template <class T>
Strided numbers(T* first) {
  return {reinterpret_cast<std::byte*>(first), sizeof(T), sizeof(T), {}};
}

template <class T>
bool compute_and_follow(const std::vector<Strided>& arrays, std::uint64_t n, std::uint64_t key, int threads,
                        const Stop& stop, const Tuning& tuning) {
  LargeVector<T> from(n);
  for (std::uint64_t i = 0; i < n; ++i) from[i] = static_cast<T>(i);
  if (!exact_shuffle(numbers(from.data()), n, key, threads, stop, tuning)) return false;
  follow(from.data(), n, arrays, threads);
  return true;
}

}  // namespace

template <class T>
void follow(T* from, std::uint64_t n, const std::vector<Strided>& arrays, int threads) {
  if (n < 2) return;
  const Movers rows(arrays);
  if (arrays.size() == 1 && arrays[0].axes.empty() && arrays[0].bytes >= kColumnsFrom) {
    return follow_columns(from, n, arrays[0], threads);
  }
  int cut_bits = kCutBits;
  while (cut_bits > 1 && (n >> cut_bits) < kPiecesAim && (n >> (cut_bits - 1)) * rows.row_bytes() <= kSavedMax) --cut_bits;
  std::vector<std::byte> hand(rows.row_bytes());
  Pieces<T>(from, n, cut_bits, rows).run(threads);
  follow_cycles(from, n, rows, hand.data());  // the few cycles that no cut has met
}

template void follow(std::uint32_t*, std::uint64_t, const std::vector<Strided>&, int);
template void follow(std::uint64_t*, std::uint64_t, const std::vector<Strided>&, int);

bool exact_arrays(const std::vector<Strided>& arrays, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop,
                  std::uint64_t follow_from, const Tuning& tuning) {
  // The permutation and the cut rows take less than a twentieth of rows from 128 bytes on; with numbers of 64 bits, from
  // twice that.
  if (n > std::numeric_limits<std::uint32_t>::max()) follow_from *= 2;
  const auto direct = [&](const Strided& a) {
    return a.row_bytes() <= kDirectMax && a.row_bytes() < follow_from;
  };
  const Stop allowed = arrays.size() == 1 ? stop : Stop{};
  std::vector<Strided> followed;
  for (const Strided& a : arrays) {
    if (!direct(a)) followed.push_back(a);
  }
  if (!followed.empty()) {
    const bool done = n <= std::numeric_limits<std::uint32_t>::max()
                          ? compute_and_follow<std::uint32_t>(followed, n, key, threads, allowed, tuning)
                          : compute_and_follow<std::uint64_t>(followed, n, key, threads, allowed, tuning);
    if (!done) return false;
  }
  for (const Strided& a : arrays) {
    if (direct(a) && !exact_shuffle(a, n, key, threads, allowed, tuning)) return false;
  }
  return true;
}

bool exact_permutation(std::int64_t* out, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop,
                       const Tuning& tuning) {
  for (std::uint64_t i = 0; i < n; ++i) out[i] = static_cast<std::int64_t>(i);
  return exact_shuffle(numbers(out), n, key, threads, stop, tuning);
}

template <class T>
bool gpu1_permutation(T* out, std::uint64_t n, std::uint64_t key, const Stop& stop) {
  __extension__ using u128 = unsigned __int128;
  for (std::uint64_t i = 0; i < n; ++i) out[i] = static_cast<T>(i);
  for (std::uint64_t k = 0; k + 1 < n; ++k) {
    if (k % kStepsAtOnce == 0 && stop && stop()) return false;
    const std::uint64_t bound = n - k;
    for (std::uint64_t attempt = 0;; ++attempt) {
      const u128 product = static_cast<u128>(word(child(key, attempt), k)) * bound;
      if (static_cast<std::uint64_t>(product) < bound && static_cast<std::uint64_t>(product) < (0 - bound) % bound) continue;
      std::swap(out[k], out[k + static_cast<std::uint64_t>(product >> 64)]);
      break;
    }
  }
  return true;
}

template bool gpu1_permutation(std::uint32_t*, std::uint64_t, std::uint64_t, const Stop&);
template bool gpu1_permutation(std::uint64_t*, std::uint64_t, std::uint64_t, const Stop&);
template bool gpu1_permutation(std::int64_t*, std::uint64_t, std::uint64_t, const Stop&);

bool gpu1_arrays(const std::vector<Strided>& arrays, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop) {
  const auto go = [&]<class T>(T) {
    LargeVector<T> from(n);
    if (!gpu1_permutation(from.data(), n, key, stop)) return false;
    follow(from.data(), n, arrays, threads);
    return true;
  };
  return n <= std::numeric_limits<std::uint32_t>::max() ? go(std::uint32_t{}) : go(std::uint64_t{});
}

}  // namespace tombola
