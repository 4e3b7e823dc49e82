// The `lanes` order: shards laid end to end in a keyed order, the line cut into C pieces, one for each lane: a ring whose
// parts come in a keyed order and whose records are permuted within their part (or within windows of parts).
//
// A *unit* is a shard with at least one record; or, where sizes change between epochs, any shard, so that those that
// are empty for once keep their place. State is O(units + lanes); nothing here is O(records).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "large.hpp"
#include "permutation.hpp"

namespace tombola {

// Which lane owns which records. The same for every epoch when homes are fixed.
class Line {
 public:
  // starts[0 … units]: first record of each unit, not falling, starts[0] = 0. Must outlive the Line.
  Line(const std::int64_t* starts, std::int64_t units, std::int64_t lanes, std::uint64_t home_key, int threads);

  std::int64_t records() const { return line_start_.back(); }
  std::int64_t units() const { return static_cast<std::int64_t>(unit_at_.size()); }
  std::int64_t lanes() const { return lanes_; }

  std::int64_t lane_begin(std::int64_t lane) const { return piece_begin_[piece_of(lane)]; }
  std::int64_t lane_length(std::int64_t lane) const { return base_ + (lane < longer_); }
  std::int64_t lane_of(std::int64_t line_offset) const;

  // Parts: what a lane holds of a unit, numbered in line order, 0 … parts(lane) − 1.
  std::int64_t part_base(std::int64_t lane) const { return part_base_[piece_of(lane)]; }
  std::int64_t parts(std::int64_t lane) const { return part_base_[piece_of(lane) + 1] - part_base_[piece_of(lane)]; }
  std::int64_t parts() const { return part_base_.back(); }
  struct Part {
    std::int64_t begin, end;  // on the line
    std::int64_t record;      // of the first record in the dataset
    std::int64_t unit;
  };
  Part part(std::int64_t lane, std::int64_t number) const;
  // True when both ends of the lane are cut shards: they meet at the seam of the ring.
  bool has_seam(std::int64_t lane) const;

  std::int64_t offset_of(std::int64_t record, std::int64_t& place) const;  // place: that of its unit on the line
  std::int64_t first_place(std::int64_t lane) const { return first_place_[piece_of(lane)]; }

 private:
  std::size_t piece_of(std::int64_t lane) const { return piece_of_[static_cast<std::size_t>(lane)]; }

  const std::int64_t* starts_;
  std::int64_t lanes_, base_, longer_;
  Permutation home_;
  LargeVector<std::uint32_t> unit_at_;      // unit at each place of the line
  LargeVector<std::int64_t> line_start_;    // first line offset of each place; one more for the end
  // Piece after piece of the line; lane_of_ and piece_of_ say which lane reads which.
  LargeVector<std::uint32_t> lane_of_, piece_of_;
  LargeVector<std::int64_t> piece_begin_;  // on the line; one more for the end
  LargeVector<std::int64_t> first_place_;  // place of the unit that holds each piece's first record
  LargeVector<std::int64_t> part_base_;    // parts before each piece; one more for the total
};

struct LaneKeys {
  std::uint64_t parts, records, window, phase;
};

struct Window {
  std::int64_t shards = 0;   // parts per block, or
  std::int64_t records = 0;  // records per block; both 0: no window
  bool any() const { return shards > 0 || records > 0; }
};

// One stretch of positions in which a part of a shard is needed.
struct Visits {
  std::vector<std::int64_t> lane, unit, record_begin, record_end, first, last;
};

class LaneEpoch {
 public:
  LaneEpoch(std::shared_ptr<const Line> line, LaneKeys keys, Window window, bool spread_phases, int threads);

  const Line& line() const { return *line_; }
  std::int64_t at(std::int64_t position) const;
  std::int64_t find(std::int64_t record) const;
  // out[k] = at(start + k * step), for steps that divide the number of lanes.
  void slice(std::int64_t start, std::int64_t step, std::int64_t count, std::int64_t* out, int threads) const;
  // out[k] = at((place + k) * lanes + lane), place + count ≤ the length of the lane.
  void run(std::int64_t lane, std::int64_t place, std::int64_t count, std::int64_t* out) const;
  Visits visits() const;

 private:
  struct Lane {  // what the functions below need to know of a lane, gathered once per run
    std::int64_t number, length, phase, parts, part_base, blocks;
    const std::int64_t* ring;  // first ring offset of each slot
  };
  Lane lane(std::int64_t number) const;
  std::int64_t phase_of(std::int64_t lane, bool spread) const;
  std::int64_t slot_end(const Lane& l, std::int64_t slot) const { return slot + 1 < l.parts ? l.ring[slot + 1] : l.length; }
  std::int64_t slot_of(const Lane& l, std::int64_t q) const;
  std::int64_t record_at(const Lane& l, std::int64_t slot, std::int64_t offset) const;

  // Windows: block g of the ring, and the shifted block g, which reaches from the middle of g to that of g + 1.
  std::int64_t block_start(const Lane& l, std::int64_t g) const;  // g = blocks: the length of the lane
  std::int64_t block_of(const Lane& l, std::int64_t q) const;
  std::int64_t block_middle(const Lane& l, std::int64_t g) const;
  struct Shifted { std::int64_t number, start, size; };
  Shifted shifted_of(const Lane& l, std::int64_t q) const;
  Permutation block_permutation(const Lane& l, int pass, std::int64_t g, std::int64_t size) const;

  std::int64_t ring_at(const Lane& l, std::int64_t q) const;    // ring offset → record
  std::int64_t window_at(const Lane& l, std::int64_t q) const;  // ring offset read → ring offset stored
  std::int64_t window_find(const Lane& l, std::int64_t q) const;
  void run(const Lane& l, std::int64_t place, std::int64_t count, std::int64_t* out, std::int64_t stride) const;
  void run_part(const Lane& l, std::int64_t q, std::int64_t count, std::int64_t* out, std::int64_t stride) const;
  void run_window(const Lane& l, const Shifted& s, std::int64_t q, std::int64_t count, std::int64_t* out,
                  std::int64_t stride) const;

  std::shared_ptr<const Line> line_;
  LaneKeys keys_;
  Window window_;
  LargeVector<std::int64_t> phase_;           // ring offset at which each lane starts
  LargeVector<std::int64_t> ring_start_;      // first ring offset of each slot, lane after lane
  LargeVector<std::uint32_t> part_of_slot_;   // the lane's part that comes in each slot
  LargeVector<std::uint32_t> slot_of_part_;
};

}  // namespace tombola
