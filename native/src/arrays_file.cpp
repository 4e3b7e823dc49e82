#include "arrays_file.hpp"

#include <cmath>

#include "arrays_levels.hpp"
#include "arrays_rows.hpp"
#include "file_rows.hpp"

namespace tombola {
namespace {

constexpr std::uint64_t kCopyBytes = 1 << 20;
constexpr std::uint64_t kWindowMax = 4 << 20;

// The rows of the target file, as the second half of a scatter takes and puts them.
class FileRows {
 public:
  static constexpr bool kFar = true;
  struct Row {};

  explicit FileRows(const FileLayout& file) : file_(file) {}
  std::uint64_t bytes() const { return file_.row_bytes; }
  void copy_out(std::uint64_t i, std::uint64_t count, std::byte* to) const {
    read_all(file_.target, to, count * bytes(), file_.skip + i * bytes());
  }
  void copy_in(std::uint64_t i, std::uint64_t count, const std::byte* from) const {
    write_all(file_.target, from, count * bytes(), file_.skip + i * bytes());
  }
  void copy_from_source(std::uint64_t i, std::uint64_t count, std::byte* to) const {
    read_all(file_.source, to, count * bytes(), file_.skip + i * bytes());
  }
  void ask_source(std::uint64_t i, std::uint64_t count) const {
    ask_for(file_.source, count * bytes(), file_.skip + i * bytes());
  }
  // Rows of the source go to the same places of the target.
  void carry(std::uint64_t begin, std::uint64_t end) const {
    const std::uint64_t step = std::max<std::uint64_t>(kCopyBytes / bytes(), 1);
    std::vector<std::byte> rows(std::min(step, end - begin) * bytes());
    for (; begin < end; begin += std::min(step, end - begin)) {
      const std::uint64_t count = std::min(step, end - begin);
      copy_from_source(begin, count, rows.data());
      copy_in(begin, count, rows.data());
    }
  }

 private:
  const FileLayout& file_;
};

using Levels = exact::Exact<FileRows>;

// One task of the first scatter, through a window on each of its slices. Bytes: of a row, or 0 when any.
template <std::uint64_t Bytes>
class Rough {
 public:
  Rough(const FileLayout& file, const exact::Cut& cut, std::uint64_t task, std::uint64_t step,
        std::uint64_t window_rows, std::uint64_t margin, std::byte* memory)
      : rows_(file), cut_(cut), task_(task), step_(step), window_rows_(window_rows), margin_(margin),
        bytes_(Bytes > 0 ? Bytes : file.row_bytes), windows_(cut.fan), memory_(memory) {}

  void run(std::uint64_t key, std::uint64_t* placed) {
    const std::uint64_t spare = start(cut_.fan - 1) + cut_.slice - 1;
    Hand hand;
    rows_.copy_from_source(spare, 1, hand.bytes);
    for (std::uint64_t b = 0; b < cut_.fan; ++b) {
      windows_[b] = {memory(b), memory(b), start(b), 0};
      if (task_ < step_) rows_.ask_source(start(b), window_rows_);  // else the task before has
    }
    Letters letters(child(key, task_), cut_.fan_bits);
    while (const std::uint64_t count = room()) deal(letters, count, hand);
    for (std::uint64_t b = 0; b < cut_.fan; ++b) {
      const Window& w = windows_[b];
      placed[b * cut_.tasks + task_] = dealt(b) - start(b);
      rows_.copy_in(w.first, w.held, memory(b));
      rows_.carry(w.first + w.held, start(b) + cut_.slice);
    }
    rows_.copy_in(spare, 1, hand.bytes);
  }

 private:
  struct Window {
    std::byte *at, *end;        // the next row to deal, and where the window ends
    std::uint64_t first, held;  // the first row, how many there are
  };
  struct Hand {
    std::byte bytes[Bytes > 0 ? Bytes : kDirectMax];
  };

  std::uint64_t start(std::uint64_t b) const { return b * cut_.stride + task_ * cut_.slice; }
  std::byte* memory(std::uint64_t b) { return memory_ + b * window_rows_ * bytes_; }
  std::uint64_t dealt(std::uint64_t b) {
    return windows_[b].first + static_cast<std::uint64_t>(windows_[b].at - memory(b)) / bytes_;
  }

  // How many rows can be dealt before some slice may be full; 0 when that is too few to go on.
  std::uint64_t room() {
    std::uint64_t least = cut_.slice;
    for (std::uint64_t b = 0; b < cut_.fan; ++b) {
      const std::uint64_t end = start(b) + cut_.slice - (b + 1 == cut_.fan);
      least = std::min(least, end - dealt(b));
    }
    return least < margin_ ? 0 : least;
  }

  void deal(Letters& letters, std::uint64_t count, Hand& in_hand) {
    const std::uint64_t mask = cut_.fan - 1;
    Hand hand = in_hand;  // rows of a known size stay in registers
    while (count > 0) {
      std::uint64_t word = letters.word();
      const std::uint64_t now = std::min<std::uint64_t>(count, static_cast<std::uint64_t>(letters.each()));
      for (std::uint64_t i = 0; i < now; ++i, word >>= letters.bits()) swap(word & mask, hand);
      count -= now;
    }
    in_hand = hand;
  }

  void swap(std::uint64_t b, Hand& hand) {
    Window& w = windows_[b];
    if (w.at == w.end) next(b);
    std::byte* const row = w.at;
    w.at += bytes();
    __builtin_prefetch(row + std::max(kAheadLines * kLine, bytes()), 1);
    if constexpr (Bytes > 0) {
      Hand old;
      std::memcpy(old.bytes, row, Bytes);
      std::memcpy(row, hand.bytes, Bytes);
      hand = old;
    } else {
      std::swap_ranges(row, row + bytes_, hand.bytes);
    }
  }
  std::uint64_t bytes() const {
    if constexpr (Bytes > 0) return Bytes;
    else return bytes_;
  }

  void next(std::uint64_t b) {
    Window& w = windows_[b];
    rows_.copy_in(w.first, w.held, memory(b));
    w.first += w.held;
    w.held = std::min(window_rows_, start(b) + cut_.slice - w.first);
    w.at = memory(b);
    w.end = w.at + w.held * bytes_;
    rows_.copy_from_source(w.first, w.held, memory(b));
    const std::uint64_t after = w.first + w.held, end = start(b) + cut_.slice;
    if (after < end) rows_.ask_source(after, std::min(window_rows_, end - after));
    else if (task_ + step_ < cut_.tasks) rows_.ask_source(start(b) + step_ * cut_.slice, window_rows_);
  }

  FileRows rows_;
  const exact::Cut& cut_;
  std::uint64_t task_, step_;  // this task is followed by that many later, if all are equally fast
  std::uint64_t window_rows_, margin_, bytes_;
  std::vector<Window> windows_;
  std::byte* memory_;
};

// What each worker holds rows in, kept from task to task: new memory is touched page by page, which is as slow as reading.
class Memories {
 public:
  explicit Memories(int workers) : memories_(static_cast<std::size_t>(workers)) {}
  std::byte* take(int worker, std::uint64_t bytes) {
    BudgetVector<std::byte>& memory = memories_[static_cast<std::size_t>(worker)];
    if (memory.size() < bytes) {
      BudgetVector<std::byte>().swap(memory);  // not both at once; assigning {} would keep it
      memory.resize(bytes);
    }
    return memory.data();
  }
  void give_back() {
    for (auto& memory : memories_) BudgetVector<std::byte>().swap(memory);
  }

 private:
  std::vector<BudgetVector<std::byte>> memories_;
};

void rough(const FileLayout& file, const exact::Cut& cut, std::uint64_t task, std::uint64_t step,
           std::uint64_t window_rows, std::uint64_t margin, std::byte* memory, std::uint64_t key, std::uint64_t* placed) {
  switch (file.row_bytes) {
    case 1: return Rough<1>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
    case 2: return Rough<2>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
    case 4: return Rough<4>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
    case 8: return Rough<8>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
    case 16: return Rough<16>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
    case 32: return Rough<32>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
    case 64: return Rough<64>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
    default: return Rough<0>(file, cut, task, step, window_rows, margin, memory).run(key, placed);
  }
}

// The rows a first scatter may leave over or displace, generously: many times their mean and spread.
std::uint64_t stash_bytes(const exact::Cut& cut, std::uint64_t rows, std::uint64_t row_bytes, const Tuning& tuning) {
  const auto slice = static_cast<double>(cut.slice), all = static_cast<double>(rows);
  const double left = all * (5 * std::sqrt(slice) + static_cast<double>(tuning.margin + 64)) / slice;
  const double displaced = static_cast<double>(cut.fan) * std::sqrt(all);
  return static_cast<std::uint64_t>((left + displaced) * static_cast<double>(row_bytes + 1));
}

std::uint64_t bucket_bytes(const exact::Cut& cut, std::uint64_t rows, std::uint64_t row_bytes) {
  const double mean = static_cast<double>(rows) / static_cast<double>(cut.fan);
  return static_cast<std::uint64_t>((mean + 10 * std::sqrt(mean)) * 1.1 * static_cast<double>(row_bytes)) + (1 << 16);
}

}  // namespace

std::uint64_t exact_file_memory(std::uint64_t rows, std::uint64_t row_bytes, const Tuning& tuning) {
  if (rows <= tuning.leaf_max) return 0;
  const exact::Cut cut(rows, 0, tuning);
  return std::max(stash_bytes(cut, rows, row_bytes, tuning), bucket_bytes(cut, rows, row_bytes)) + 2 * kCopyBytes;
}

bool exact_file(const FileLayout& file, std::uint64_t key, int threads, const Stop& stop, const Tuning& tuning) {
  const exact::Cut cut(file.rows, 0, tuning);
  const FileRows rows(file);
  Levels levels(rows, threads, stop, tuning);
  Levels::Work work;
  work.placed.assign(cut.fan * cut.tasks, 0);
  const auto tasks = static_cast<std::int64_t>(cut.tasks), fan = static_cast<std::int64_t>(cut.fan);
  const int dealing = static_cast<int>(std::min<std::int64_t>(threads, tasks));
  const std::uint64_t window_bytes =
      std::min(file.memory_bytes_max / (static_cast<std::uint64_t>(dealing) * cut.fan), kWindowMax);
  const std::uint64_t window_rows = std::clamp<std::uint64_t>(window_bytes / file.row_bytes, 1, std::max<std::uint64_t>(cut.slice, 1));
  const std::uint64_t rough_key = child(key, exact::kRough), bucket_key = child(key, exact::kBucket);
  Memories memories(threads);
  if (!run_tasks(tasks, dealing, stop, [&](std::int64_t task, int worker) {
        if (cut.slice == 0) return;  // fewer rows than buckets: all are left over
        std::byte* const memory = memories.take(worker, cut.fan * window_rows * file.row_bytes);
        rough(file, cut, static_cast<std::uint64_t>(task), static_cast<std::uint64_t>(dealing), window_rows, tuning.margin,
              memory, rough_key, work.placed.data());
      })) {
    return false;
  }
  for (std::uint64_t b = 0; b < cut.fan; ++b) {  // what no slice covers
    rows.carry(b * cut.stride + cut.tasks * cut.slice, b + 1 < cut.fan ? (b + 1) * cut.stride : file.rows);
  }
  memories.give_back();
  levels.settle(0, file.rows, key, cut, threads, work);
  const std::vector<std::uint64_t> borders = work.borders;
  work = {};
  const std::uint64_t one = bucket_bytes(cut, file.rows, file.row_bytes);
  const auto at_once = static_cast<int>(std::clamp<std::uint64_t>(file.memory_bytes_max / one, 1, 1024));
  return run_tasks(fan, std::min(threads, at_once), stop, [&](std::int64_t bucket, int worker) {
    const auto b = static_cast<std::uint64_t>(bucket);
    const std::uint64_t size = borders[b + 1] - borders[b];
    std::byte* const memory = memories.take(worker, size * file.row_bytes);
    rows.copy_out(borders[b], size, memory);
    exact_bucket(memory, size, file.row_bytes, child(bucket_key, b), tuning);
    rows.copy_in(borders[b], size, memory);
    begin_writing(file.target, size * file.row_bytes, file.skip + borders[b] * file.row_bytes);
  });
}

}  // namespace tombola
