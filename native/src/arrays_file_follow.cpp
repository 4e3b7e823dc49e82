#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "arrays_exact.hpp"
#include "arrays_file.hpp"
#include "file_rows.hpp"
#include "large.hpp"

namespace tombola {
namespace {

constexpr std::uint64_t kRunsAim = 64;  // with memory enough, runs are so many times as long as need be
constexpr std::uint64_t kReaderBytes = 1 << 15;
constexpr std::uint64_t kOtherBytes = 512 << 10;   // stacks, tables of the permutation's scatter
constexpr std::uint64_t kRowsMax = std::uint64_t{1} << 56;

std::uint64_t number_bytes(std::uint64_t rows) {
  return rows <= std::numeric_limits<std::uint32_t>::max() ? sizeof(std::uint32_t) : sizeof(std::uint64_t);
}

// How many rows a bucket of the target has, a block of the source as well: 2^bits. And how many are held at once.
struct Plan {
  int bits;
  int workers;

  std::uint64_t rows() const { return std::uint64_t{1} << bits; }
  std::uint64_t memory(std::uint64_t n, std::uint64_t row_bytes) const {
    if (n > kRowsMax || row_bytes > kRowsMax) return std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t buckets = (n + rows() - 1) >> bits;
    const std::uint64_t each = std::min(rows(), n) * row_bytes + 3 * sizeof(std::uint64_t) * buckets + kReaderBytes;
    return kOtherBytes + 2 * n * number_bytes(n) + static_cast<std::uint64_t>(workers) * each + sizeof(std::uint64_t) * buckets;
  }
};

// Blocks and buckets of as few rows as give such runs.
Plan plan_of_runs(std::uint64_t n, std::uint64_t row_bytes, std::uint64_t run) {
  const double rows = std::sqrt(static_cast<double>(n) * static_cast<double>(run) / static_cast<double>(row_bytes));
  return {std::bit_width(std::min(static_cast<std::uint64_t>(rows), n) / 2), 1};
}

// As many workers as memory allows; then buckets as large as are of use.
Plan plan_for(std::uint64_t n, std::uint64_t row_bytes, std::uint64_t memory, int threads, std::uint64_t run) {
  Plan plan = plan_of_runs(n, row_bytes, run);
  const int bits = plan_of_runs(n, row_bytes, kRunsAim * run).bits;
  const auto allowed = [&](const Plan& p) { return p.memory(n, row_bytes) <= memory; };
  while (plan.workers < threads && allowed({plan.bits, plan.workers + 1})) ++plan.workers;
  while (plan.bits < bits && allowed({plan.bits + 1, plan.workers})) ++plan.bits;
  return plan;
}

template <class T>
class Follow {
 public:
  Follow(const FileLayout& file, const Plan& plan, int threads, const Stop& stop)
      : file_(file), plan_(plan), threads_(threads), stop_(stop), buckets_((file.rows + plan.rows() - 1) >> plan.bits),
        places_(file.rows), arrivals_(file.rows), heads_(buckets_, 0) {}

  bool run(std::uint64_t key, const Tuning& tuning) {
    return find_places(key, tuning) && deal() && sort();
  }

 private:
  struct Worker {
    BudgetVector<std::byte> rows;
    std::vector<std::uint64_t> begins, ends, arrive;  // of each bucket's rows in a block; where the next is in arrivals_
    RowsReader reader;
  };

  std::uint64_t offset(std::uint64_t row) const { return file_.skip + row * file_.row_bytes; }
  std::uint64_t first(std::uint64_t part) const { return part << plan_.bits; }  // of a block or a bucket
  std::uint64_t count(std::uint64_t part) const { return std::min(plan_.rows(), file_.rows - first(part)); }
  void ask(int file, std::uint64_t part) const {
    if (part < buckets_) ask_for(file, count(part) * file_.row_bytes, offset(first(part)));
  }

  // body(part, worker) for each block or bucket.
  template <class Body>
  bool each(int file, const Body& body) {
    std::vector<Worker> workers;
    for (int w = 0; w < plan_.workers; ++w) workers.push_back({{}, {}, {}, {}, RowsReader(file, file_.row_bytes)});
    return run_tasks(static_cast<std::int64_t>(buckets_), plan_.workers, stop_, [&](std::int64_t part, int w) {
      Worker& worker = workers[static_cast<std::size_t>(w)];
      if (worker.rows.empty()) worker.rows.resize(std::min(plan_.rows(), file_.rows) * file_.row_bytes);
      body(static_cast<std::uint64_t>(part), worker);
    });
  }

  // Where each row of the source goes: the inverse of the permutation.
  bool find_places(std::uint64_t key, const Tuning& tuning) {
    BudgetVector<T>& from = arrivals_;
    std::iota(from.begin(), from.end(), T{0});
    const Strided numbers{reinterpret_cast<std::byte*>(from.data()), sizeof(T), sizeof(T), {}};
    if (!exact_shuffle(numbers, file_.rows, key, threads_, stop_, tuning)) return false;
    return run_tasks(static_cast<std::int64_t>(buckets_), threads_, stop_, [&](std::int64_t part, int) {
      const std::uint64_t begin = first(static_cast<std::uint64_t>(part));
      const std::uint64_t end = begin + count(static_cast<std::uint64_t>(part));
      for (std::uint64_t i = begin; i < end; ++i) places_[from[i]] = static_cast<T>(i);
    });
  }

  // The first pass: rows go to their buckets, where they stand in the order of the source.
  bool deal() {
    std::uint64_t next = 0;
    std::mutex guard;
    ask(file_.source, 0);
    return each(file_.source, [&](std::uint64_t, Worker& w) {
      w.begins.assign(buckets_ + 1, 0);
      w.arrive.resize(buckets_);
      std::uint64_t block;
      {
        // Blocks take their places in the buckets one after the other, whoever is faster then.
        const std::lock_guard<std::mutex> lock(guard);
        block = next++;
        const T* const places = places_.data() + first(block);
        for (std::uint64_t i = 0; i < count(block); ++i) ++w.begins[(places[i] >> plan_.bits) + 1];
        for (std::uint64_t b = 0; b < buckets_; ++b) {
          w.arrive[b] = first(b) + heads_[b];
          heads_[b] += w.begins[b + 1];
        }
      }
      std::partial_sum(w.begins.begin(), w.begins.end(), w.begins.begin());
      w.ends = w.begins;
      ask(file_.source, block + static_cast<std::uint64_t>(plan_.workers));
      read_by_bucket(block, w);
      for (std::uint64_t b = 0; b < buckets_; ++b) {
        const std::uint64_t rows = w.ends[b] - w.begins[b];
        write_all(file_.target, w.rows.data() + w.begins[b] * file_.row_bytes, rows * file_.row_bytes,
                  offset(w.arrive[b] - rows));
      }
    });
  }

  void read_by_bucket(std::uint64_t block, Worker& w) {
    w.reader.start(offset(first(block)));
    for (std::uint64_t i = first(block); i < first(block) + count(block); ++i) {
      const std::uint64_t place = places_[i], b = place >> plan_.bits;
      arrivals_[w.arrive[b]++] = static_cast<T>(place);
      w.reader.read_to(w.rows.data() + w.ends[b]++ * file_.row_bytes);
    }
    w.reader.finish();
  }

  // The second pass: each bucket is read in order and written back from where the rows belong.
  bool sort() {
    return each(file_.target, [&](std::uint64_t b, Worker& w) {
      ask(file_.target, b + static_cast<std::uint64_t>(plan_.workers));
      w.reader.start(offset(first(b)));
      for (std::uint64_t i = first(b); i < first(b) + count(b); ++i) {
        w.reader.read_to(w.rows.data() + (arrivals_[i] - first(b)) * file_.row_bytes);
      }
      w.reader.finish();
      write_all(file_.target, w.rows.data(), count(b) * file_.row_bytes, offset(first(b)));
      begin_writing(file_.target, count(b) * file_.row_bytes, offset(first(b)));
    });
  }

  const FileLayout& file_;
  Plan plan_;
  int threads_;
  const Stop& stop_;
  std::uint64_t buckets_;              // as many blocks
  BudgetVector<T> places_, arrivals_;   // of a row of the source; of the rows as they stand after the first pass
  std::vector<std::uint64_t> heads_;   // rows that have their places in a bucket already
};

}  // namespace

std::uint64_t exact_file_follow_memory(std::uint64_t rows, std::uint64_t row_bytes, const Tuning& tuning) {
  return plan_of_runs(rows, row_bytes, tuning.file_run_min).memory(rows, row_bytes);
}

bool exact_file_follow(const FileLayout& file, std::uint64_t key, int threads, const Stop& stop, const Tuning& tuning) {
  const Plan plan = plan_for(file.rows, file.row_bytes, file.memory_bytes_max, threads, tuning.file_run_min);
  if (number_bytes(file.rows) == sizeof(std::uint32_t)) {
    return Follow<std::uint32_t>(file, plan, threads, stop).run(key, tuning);
  }
  return Follow<std::uint64_t>(file, plan, threads, stop).run(key, tuning);
}

}  // namespace tombola
