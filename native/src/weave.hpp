// Streams woven together lane by lane: which stream each place of a lane reads, and which place of that stream's lane
// of the same number, counted from the start of the run; both ways, at any place.
//
// What repeats is a *pattern*: a grid of streams, a row for each block of places, one column or as many as there are
// lanes. State is O(pattern + lanes · streams) for each segment of the run that has weights of its own.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "keys.hpp"
#include "lanes.hpp"

namespace tombola {

// A sequence of sum(weights) streams in which every prefix holds each stream's share to within less than one: every
// unit of a stream has the window in which that is so, and the one whose window ends first comes next (ties: the lower
// stream). That such a sequence exists is R. Tijdeman's theorem on the chairman assignment problem (1980).
void chairman(const std::int64_t* weights, std::int64_t streams, std::int64_t* out);

// How lanes start along a sequence that repeats: lane c at floor(frac(c · multiplier / 2^64) · length).
inline std::int64_t phase_of_lane(std::int64_t lane, std::uint64_t multiplier, std::int64_t length) {
  return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(lane) * multiplier, static_cast<std::uint64_t>(length)));
}

struct Spread {
  std::uint64_t multiplier = 0;
  // Bound for the error of any stream's count in any prefix over all lanes, times the length of the sequence; −1 when
  // the sequence and the lanes are too many to try.
  std::int64_t deviation = -1;
};
// The multiplier, of a fixed list, that keeps the counts over all lanes, and over every 2nd, 3rd, 4th, … position that a
// rank may read, closest to the shares.
Spread spread_phases(const std::int64_t* sequence, std::int64_t length, const std::int64_t* weights,
                     std::int64_t streams, std::int64_t lanes);

class Weave {
 public:
  // lengths[i]: positions in a pass of stream i's own order. Position t is in lane (t / run) mod lanes.
  Weave(std::int64_t lanes, std::int64_t run, std::int64_t block, std::int64_t epoch_records,
        std::vector<std::int64_t> lengths);

  // A pattern that holds from block start[lane] of each lane on. grid: rows × columns. Period n of a lane goes once
  // round column (column[lane] + n · stride) mod columns, from row phase[lane] on; with a key from row
  // (phase[lane] + below(word(key, n), rows)) mod rows on, or what a lane reads at every 2nd place could be one stream
  // for ever. With `carry` the errors the lanes come with are paid back by exchanging a few of the first blocks, so
  // that they do not add up over segments.
  void add_segment(const std::int64_t* grid, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                   const std::int64_t* start, const std::int64_t* phase, const std::int64_t* column,
                   std::optional<std::uint64_t> key, bool carry);
  // The shards of a stream: record v of its own layout is record v − first_of[s] + record_of[s] of the dataset. A layout
  // that lists the shards several times over counts on: v is taken modulo `records`.
  void set_shards(std::int64_t stream, const std::int64_t* first_of, const std::int64_t* record_of, std::int64_t shards,
                  std::int64_t records);

  std::int64_t lanes() const { return lanes_; }
  std::int64_t streams() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t epoch_records() const { return epoch_records_; }
  std::int64_t length(std::int64_t stream) const { return lengths_[static_cast<std::size_t>(stream)]; }
  // Records that `to_records` knows: those of the stream's own layout.
  std::int64_t own_records(std::int64_t stream) const { return shards_[static_cast<std::size_t>(stream)].records; }

  struct Spot {
    std::int64_t stream, place;  // place: of the stream's lane, counted from the start of the run
  };
  Spot locate(std::int64_t lane, std::int64_t place) const;
  std::int64_t find(std::int64_t lane, std::int64_t stream, std::int64_t place) const;  // −1: never read
  std::int64_t count(std::int64_t lane, std::int64_t stream, std::int64_t place) const;  // of a stream, before a place

  // Positions of an epoch → (stream, pass of the stream, position in that pass).
  void map(const std::int64_t* positions, std::int64_t size, std::int64_t epoch, std::int64_t* stream,
           std::int64_t* pass, std::int64_t* at) const;
  // Places of a stream's lanes → positions of an epoch; −1 for those outside it.
  void unmap(std::int64_t stream, const std::int64_t* lane, const std::int64_t* place, std::int64_t size,
             std::int64_t epoch, std::int64_t* positions) const;
  // out[lane * streams + stream] = places of the stream's lane that are read before a position of an epoch.
  void counts(std::int64_t epoch, std::int64_t position, std::int64_t* out) const;
  void to_records(std::int64_t stream, std::int64_t* values, std::int64_t size) const;

  struct Source {  // the passes of a stream that a slice may touch
    std::vector<std::int64_t> numbers;  // rising
    std::vector<const LaneEpoch*> passes;
  };
  // out[k] = the record of position start + k · step, for run = 1 and steps that divide the number of lanes.
  void slice(std::int64_t start, std::int64_t step, std::int64_t size, std::int64_t epoch,
             const std::vector<Source>& sources, std::int64_t* out, int threads) const;

 private:
  struct Exchange {  // one block that the pattern gives to one stream and that another gets
    std::int64_t at, from, to;
    std::int64_t ordinal;  // which block of `to` it is, counted from the start of the segment
  };
  struct Segment {
    std::int64_t rows, columns;
    std::optional<std::uint64_t> key;
    std::vector<std::uint32_t> stream, rank;  // per cell; rank: cells of the same stream above it in its column
    std::vector<std::int64_t> first;          // per column and stream: where its rows begin in row_of
    std::vector<std::uint32_t> row_of;
    std::vector<std::int64_t> along;          // cells per stream in the first z columns of the cycle, twice round
    std::vector<std::int64_t> column_at;      // the column at place z of the cycle, twice round
    std::vector<std::int64_t> start, phase, begin;  // per lane; begin: place on the cycle
    std::vector<std::int64_t> base, net;  // per lane and stream: blocks before the segment; won by exchanges less lost
    std::vector<std::vector<Exchange>> exchanges;   // per lane
  };
  std::size_t cell(std::int64_t lane, std::int64_t stream) const {
    return static_cast<std::size_t>(lane * streams() + stream);
  }
  const Segment& segment_at(std::int64_t lane, std::int64_t block) const;
  std::int64_t in_periods(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t periods) const;
  // The row at which a lane enters the pattern in one of its periods, and the column it goes round.
  std::int64_t entry(const Segment& s, std::int64_t lane, std::int64_t period) const;
  std::int64_t column(const Segment& s, std::int64_t lane, std::int64_t period) const;
  // Cells of a column's stream (slot: both in one number) above a row.
  std::int64_t above(const Segment& s, std::size_t slot, std::int64_t row) const;
  // Exchanges aside: blocks of a stream among the first `at` of a segment, and where block `number` of it is.
  std::int64_t count_of(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t at) const;
  std::int64_t place_of(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t number) const;
  Spot locate_block(std::int64_t lane, std::int64_t block) const;
  std::int64_t count_blocks(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t block) const;
  std::int64_t find_block(std::int64_t lane, std::int64_t stream, std::int64_t number) const;
  void exchange(Segment& s, std::int64_t lane);
  void fill(std::int64_t lane, std::int64_t place, std::int64_t size, std::uint32_t* streams) const;

  std::int64_t places_of_epoch(std::int64_t lane) const {
    const std::int64_t runs = epoch_records_ / run_;
    return (runs / lanes_ + (lane < runs % lanes_)) * run_;
  }
  std::int64_t pass_length(std::int64_t stream, std::int64_t lane) const {
    const std::int64_t n = lengths_[static_cast<std::size_t>(stream)];
    return n / lanes_ + (lane < n % lanes_);
  }

  std::int64_t lanes_, run_, block_, epoch_records_;
  std::vector<std::int64_t> lengths_;
  std::vector<Segment> segments_;
  struct Shards {
    std::int64_t records = 0;
    std::vector<std::int64_t> first, record;
    bool wraps = false, adjacent = true;
  };
  std::vector<Shards> shards_;
  std::vector<std::int64_t> due_;  // per lane and stream: the share of all segments but the last, in 2^-32 blocks
};

}  // namespace tombola
