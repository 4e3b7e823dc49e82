// Counts what batches are made of, in one pass over the records of an epoch: which shards meet in a batch, in a
// window of batches and in the rows of one rank, when each shard is open, and how long it goes unread.
#pragma once
#include <cstdint>
#include <vector>

namespace tombola {

class BatchTally {
 public:
  struct Shape {
    std::int64_t batch_size;
    std::int64_t readers;         // ranks the rows are dealt to
    std::int64_t run;             // consecutive positions of one rank
    std::int64_t window_batches;  // batches a window
    std::int64_t gap;             // a shard unread for more positions than this counts as closed meanwhile
  };
  // One entry a batch. rank_*: summed over the ranks; rank_same_worst: of the rank with most.
  struct Out {
    std::int64_t *same, *distinct, *window_new, *rank_same, *rank_distinct, *rank_same_worst;
  };

  // starts[0 … units] as in Line; must outlive the tally.
  BatchTally(const std::int64_t* starts, std::int64_t units, Shape shape);

  // `count` records at positions first, first + 1, …: whole batches, in rising order of positions from call to call.
  void add(std::int64_t first, const std::int64_t* records, std::int64_t count, const Out& out);

  // Stretches of positions in which a shard was read without a gap; open ones are closed as of now.
  struct Stretches {
    std::vector<std::int64_t> unit, first, last;
  };
  Stretches stretches() const;
  std::int64_t worst_gap(std::int64_t positions) const;  // the ends of the epoch count as reads of every shard

 private:
  struct Unit {
    std::int64_t first = -1, last = -1;
    std::int64_t batch = -1, window = -1, rank = -1;  // when it was last seen
    std::int64_t in_batch = 0, in_rank = 0;           // and how often there
  };
  std::int64_t unit_of(std::int64_t record) const;
  void group(std::int64_t phase);

  const std::int64_t* starts_;
  Shape shape_;
  int shift_ = 0;
  std::vector<std::int64_t> near_;  // unit of the first record of each bucket of 2^shift records
  std::vector<Unit> units_;
  Stretches closed_;
  std::int64_t worst_gap_ = 0;
  std::int64_t phase_ = -1, rank_stamp_ = 0;
  std::vector<std::int64_t> rows_, row_start_;  // rows of a batch by rank
  std::vector<std::int64_t> seen_;
};

// Labels of whole batches: entropy in nats, pairs of equal labels, and rows with the watched label, a batch each.
void label_batches(const std::int32_t* labels, std::int64_t count, std::int64_t batch_size, std::int64_t classes,
                   std::int32_t watched, double* entropy, std::int64_t* same, std::int64_t* watched_rows);

}  // namespace tombola
