#include "quality.hpp"

#include <algorithm>
#include <cmath>

namespace tombola {

BatchTally::BatchTally(const std::int64_t* starts, std::int64_t units, Shape shape)
    : starts_(starts), shape_(shape), units_(static_cast<std::size_t>(units)) {
  const std::int64_t records = starts[units];
  while ((records >> shift_) > units) ++shift_;
  std::int64_t u = 0;
  for (std::int64_t r = 0; r < records; r += std::int64_t{1} << shift_) {
    while (starts_[u + 1] <= r) ++u;
    near_.push_back(u);
  }
  near_.push_back(units - 1);
  seen_.resize(static_cast<std::size_t>(shape.batch_size));
}

std::int64_t BatchTally::unit_of(std::int64_t record) const {
  const auto bucket = static_cast<std::size_t>(record >> shift_);
  std::int64_t low = near_[bucket], high = near_[bucket + 1];
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (starts_[middle] <= record) low = middle;
    else high = middle - 1;
  }
  return low;
}

void BatchTally::group(std::int64_t phase) {
  if (phase == phase_) return;
  phase_ = phase;
  rows_.clear();
  row_start_.assign(1, 0);
  for (std::int64_t reader = 0; reader < shape_.readers; ++reader) {
    for (std::int64_t i = 0; i < shape_.batch_size; ++i) {
      if ((phase + i) / shape_.run % shape_.readers == reader) rows_.push_back(i);
    }
    row_start_.push_back(static_cast<std::int64_t>(rows_.size()));
  }
}

void BatchTally::add(std::int64_t first, const std::int64_t* records, std::int64_t count, const Out& out) {
  const std::int64_t size = shape_.batch_size;
  for (std::int64_t k = 0; (k + 1) * size <= count; ++k) {
    const std::int64_t begin = first + k * size, batch = begin / size, window = batch / shape_.window_batches;
    std::int64_t same = 0, distinct = 0, fresh = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t t = begin + i, number = unit_of(records[k * size + i]);
      seen_[static_cast<std::size_t>(i)] = number;
      Unit& u = units_[static_cast<std::size_t>(number)];
      if (u.batch != batch) {
        u.batch = batch;
        u.in_batch = 0;
        ++distinct;
        if (u.window != window) {
          u.window = window;
          ++fresh;
        }
      }
      same += u.in_batch++;
      worst_gap_ = std::max(worst_gap_, t - u.last);
      if (u.last < 0) {
        u.first = t;
      } else if (t - u.last > shape_.gap) {
        closed_.unit.push_back(number);
        closed_.first.push_back(u.first);
        closed_.last.push_back(u.last);
        u.first = t;
      }
      u.last = t;
    }
    out.same[k] = same;
    out.distinct[k] = distinct;
    out.window_new[k] = fresh;
    if (shape_.readers == 1) {
      out.rank_same[k] = out.rank_same_worst[k] = same;
      out.rank_distinct[k] = distinct;
      continue;
    }
    group(begin % (shape_.readers * shape_.run));
    std::int64_t total = 0, worst = 0, kinds = 0;
    for (std::size_t reader = 0; reader + 1 < row_start_.size(); ++reader, ++rank_stamp_) {
      std::int64_t mine = 0;
      for (std::int64_t i = row_start_[reader]; i < row_start_[reader + 1]; ++i) {
        Unit& u = units_[static_cast<std::size_t>(seen_[static_cast<std::size_t>(rows_[static_cast<std::size_t>(i)])])];
        if (u.rank != rank_stamp_) {
          u.rank = rank_stamp_;
          u.in_rank = 0;
          ++kinds;
        }
        mine += u.in_rank++;
      }
      total += mine;
      worst = std::max(worst, mine);
    }
    out.rank_same[k] = total;
    out.rank_same_worst[k] = worst;
    out.rank_distinct[k] = kinds;
  }
}

BatchTally::Stretches BatchTally::stretches() const {
  Stretches all = closed_;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].last < 0) continue;
    all.unit.push_back(static_cast<std::int64_t>(u));
    all.first.push_back(units_[u].first);
    all.last.push_back(units_[u].last);
  }
  return all;
}

std::int64_t BatchTally::worst_gap(std::int64_t positions) const {
  std::int64_t worst = worst_gap_;
  for (const Unit& u : units_) worst = std::max(worst, positions - u.last);
  return worst;
}

void label_batches(const std::int32_t* labels, std::int64_t count, std::int64_t batch_size, std::int64_t classes,
                   std::int32_t watched, double* entropy, std::int64_t* same, std::int64_t* watched_rows) {
  std::vector<std::int32_t> have(static_cast<std::size_t>(classes), 0);
  std::vector<double> k_log_k(static_cast<std::size_t>(batch_size) + 1, 0.0);
  for (std::size_t k = 2; k < k_log_k.size(); ++k) k_log_k[k] = static_cast<double>(k) * std::log(static_cast<double>(k));
  const auto size = static_cast<double>(batch_size);
  for (std::int64_t b = 0; (b + 1) * batch_size <= count; ++b) {
    const std::int32_t* row = labels + b * batch_size;
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < batch_size; ++i) pairs += have[static_cast<std::size_t>(row[i])]++;
    watched_rows[b] = have[static_cast<std::size_t>(watched)];
    double sum = 0;
    for (std::int64_t i = 0; i < batch_size; ++i) {  // each label once: its count is taken and cleared
      std::int32_t& k = have[static_cast<std::size_t>(row[i])];
      sum += k_log_k[static_cast<std::size_t>(k)];
      k = 0;
    }
    entropy[b] = std::log(size) - sum / size;
    same[b] = pairs;
  }
}

}  // namespace tombola
