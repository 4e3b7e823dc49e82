#include "weave.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "keys.hpp"
#include "parallel.hpp"
#include "search.hpp"

namespace tombola {
namespace {

__extension__ using i128 = __int128;
constexpr int kFraction = 32;  // bits after the point of a share

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace

// ------------------------------------------------------------------------------------------- sequences

void chairman(const std::int64_t* weights, std::int64_t streams, std::int64_t* out) {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < streams; ++i) total += weights[i];
  using Entry = std::pair<std::int64_t, std::int64_t>;
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;
  Heap waiting, ready;  // (release, stream), (deadline, stream)
  std::vector<std::int64_t> done(static_cast<std::size_t>(streams), 0);
  for (std::int64_t i = 0; i < streams; ++i) {
    if (weights[i] > 0) waiting.emplace(1, i);
  }
  for (std::int64_t t = 1; t <= total; ++t) {
    while (!waiting.empty() && waiting.top().first <= t) {
      const std::int64_t i = waiting.top().second, w = weights[i];
      waiting.pop();
      ready.emplace(((done[static_cast<std::size_t>(i)] + 1) * total + w - 1) / w, i);
    }
    const std::int64_t i = ready.top().second;
    ready.pop();
    out[t - 1] = i;
    const std::int64_t count = ++done[static_cast<std::size_t>(i)];
    if (count < weights[i]) waiting.emplace(count * total / weights[i] + 1, i);
  }
}

namespace {

// The widest range, over streams, of count · length − position · weight over the prefixes of one whole period, read
// at the positions first, first + every, … of all lanes together.
std::int64_t widest(const std::int64_t* sequence, std::int64_t length, const std::int64_t* weights, std::int64_t streams,
                    const std::vector<std::int64_t>& phases, std::int64_t first, std::int64_t every) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(streams), 0), low(count), high(count);
  std::int64_t position = 0;
  const auto lanes = static_cast<std::int64_t>(phases.size());
  for (std::int64_t row = 0, c = first; row < length;) {
    std::int64_t at = phases[static_cast<std::size_t>(c)] + row;
    if (at >= length) at -= length;
    const std::int64_t i = sequence[at];
    const auto slot = static_cast<std::size_t>(i);
    // Between two of its own places a stream only falls behind: its extremes lie just before and just after one.
    low[slot] = std::min(low[slot], count[slot] * length - position * weights[i]);
    ++position;
    ++count[slot];
    high[slot] = std::max(high[slot], count[slot] * length - position * weights[i]);
    c += every;
    if (c >= lanes) c -= lanes, ++row;
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i < count.size(); ++i) most = std::max(most, high[i] - low[i]);
  return most;
}

// The strides at which ranks may read: 1, 2, 4, … while each still has two lanes; and 3, 5 and 7 where the length
// divides by that and the lanes do not, since a rank then comes to a lane at every 3rd (5th, 7th) place only.
std::vector<std::int64_t> strides_of(std::int64_t length, std::int64_t lanes) {
  std::vector<std::int64_t> strides{1};
  for (std::int64_t every = 2; lanes % every == 0 && lanes / every >= 2; every *= 2) strides.push_back(every);
  for (const std::int64_t every : {3, 5, 7}) {
    if (length % every == 0 && lanes % every != 0 && lanes / every >= 2) strides.push_back(every);
  }
  return strides;
}

}  // namespace

Spread spread_phases(const std::int64_t* sequence, std::int64_t length, const std::int64_t* weights,
                     std::int64_t streams, std::int64_t lanes) {
  constexpr std::int64_t kSteps = std::int64_t{1} << 25, kMost = 48;
  Spread best{kGamma, -1};
  if (lanes > kSteps / length) return best;
  const std::vector<std::int64_t> strides = strides_of(length, lanes);
  const auto levels = static_cast<std::int64_t>(strides.size());
  const std::int64_t tries = std::clamp<std::int64_t>(kSteps / (lanes * length * levels), 1, kMost);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> phases(static_cast<std::size_t>(lanes));
  for (std::int64_t k = 0; k < tries; ++k) {
    const std::uint64_t multiplier = k == 0 ? kGamma : word(kGamma, static_cast<std::uint64_t>(k)) | 1u;
    for (std::int64_t c = 0; c < lanes; ++c) {
      phases[static_cast<std::size_t>(c)] = phase_of_lane(c, multiplier, length);
    }
    std::int64_t cost = 0, whole = 0;
    for (const std::int64_t every : strides) {
      std::int64_t most = 0;
      for (std::int64_t first = 0; first < every; ++first) {
        most = std::max(most, widest(sequence, length, weights, streams, phases, first, every));
      }
      if (every == 1) whole = most;
      cost += most;
    }
    if (cost < least) least = cost, best = {multiplier, whole};
  }
  return best;
}

// -------------------------------------------------------------------------------------------- segments

Weave::Weave(std::int64_t lanes, std::int64_t run, std::int64_t block, std::int64_t epoch_records,
             std::vector<std::int64_t> lengths)
    : lanes_(lanes),
      run_(run),
      block_(block),
      epoch_records_(epoch_records),
      lengths_(std::move(lengths)),
      shards_(lengths_.size()),
      due_(static_cast<std::size_t>(lanes) * lengths_.size(), 0) {}

void Weave::set_shards(std::int64_t stream, const std::int64_t* first_of, const std::int64_t* record_of,
                       std::int64_t shards, std::int64_t records) {
  Shards& s = shards_[static_cast<std::size_t>(stream)];
  s.records = records;
  s.first.assign(first_of, first_of + shards);
  s.record.assign(record_of, record_of + shards);
  s.wraps = lengths_[static_cast<std::size_t>(stream)] > records;
  for (std::int64_t k = 0; k < shards; ++k) {
    s.adjacent = s.adjacent && record_of[k] - first_of[k] == record_of[0] - first_of[0];
  }
}

void Weave::add_segment(const std::int64_t* grid, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                        const std::int64_t* start, const std::int64_t* phase, const std::int64_t* column,
                        std::optional<std::uint64_t> key, bool carry) {
  Segment s;
  s.key = key;
  const std::int64_t count = streams(), cells = rows * columns;
  s.rows = rows;
  s.columns = columns;
  s.stream.resize(static_cast<std::size_t>(cells));
  s.rank.resize(static_cast<std::size_t>(cells));
  s.row_of.resize(static_cast<std::size_t>(cells));
  s.first.assign(static_cast<std::size_t>(columns * count) + 1, 0);
  for (std::int64_t k = 0; k < cells; ++k) {
    s.stream[static_cast<std::size_t>(k)] = static_cast<std::uint32_t>(grid[k]);
    const auto slot = static_cast<std::size_t>(k % columns * count + grid[k]);
    s.rank[static_cast<std::size_t>(k)] = static_cast<std::uint32_t>(s.first[slot + 1]++);
  }
  for (std::size_t k = 1; k < s.first.size(); ++k) s.first[k] += s.first[k - 1];
  for (std::int64_t k = 0; k < cells; ++k) {
    const auto slot = static_cast<std::size_t>(k % columns * count + grid[k]);
    s.row_of[static_cast<std::size_t>(s.first[slot] + s.rank[static_cast<std::size_t>(k)])] =
        static_cast<std::uint32_t>(k / columns);
  }
  s.along.assign(static_cast<std::size_t>((2 * columns + 1) * count), 0);
  s.column_at.resize(static_cast<std::size_t>(2 * columns));
  std::vector<std::int64_t> turn(static_cast<std::size_t>(columns));
  for (std::int64_t z = 0, at = 0; z < 2 * columns; ++z, at = (at + stride) % columns) {
    s.column_at[static_cast<std::size_t>(z)] = at;
    turn[static_cast<std::size_t>(at)] = z % columns;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto slot = static_cast<std::size_t>(at * count + i);
      s.along[static_cast<std::size_t>((z + 1) * count + i)] =
          s.along[static_cast<std::size_t>(z * count + i)] + s.first[slot + 1] - s.first[slot];
    }
  }
  s.start.assign(start, start + lanes_);
  s.phase.assign(phase, phase + lanes_);
  s.begin.resize(static_cast<std::size_t>(lanes_));
  s.base.assign(static_cast<std::size_t>(lanes_ * count), 0);
  s.net = s.base;
  s.exchanges.resize(static_cast<std::size_t>(lanes_));
  for (std::int64_t c = 0; c < lanes_; ++c) {
    const auto lane = static_cast<std::size_t>(c);
    s.begin[lane] = turn[static_cast<std::size_t>(column[c])];
    if (segments_.empty()) continue;
    const Segment& before = segments_.back();
    const std::int64_t length = start[c] - before.start[lane], whole = before.rows * before.columns;
    for (std::int64_t i = 0; i < count; ++i) {
      s.base[cell(c, i)] = count_blocks(before, c, i, start[c]);
      const std::int64_t weight = before.along[static_cast<std::size_t>(before.columns * count + i)];
      due_[cell(c, i)] += static_cast<std::int64_t>((static_cast<i128>(length) * weight << kFraction) / whole);
    }
    if (carry) exchange(s, c);
  }
  segments_.push_back(std::move(s));
}

// The lane comes with an error of its own in every stream's count. Whole blocks of it are paid back: streams that are
// ahead give their first blocks to those behind.
void Weave::exchange(Segment& s, std::int64_t lane) {
  const std::int64_t count = streams(), one = std::int64_t{1} << kFraction;
  struct Debt {
    std::int64_t stream, blocks, rest;
  };
  std::vector<Debt> debts;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (s.along[static_cast<std::size_t>(s.columns * count + i)] == 0) continue;  // it cannot give, and must not get
    const std::int64_t error = (s.base[cell(lane, i)] << kFraction) - due_[cell(lane, i)];
    const std::int64_t below_it = floor_div(error, one);
    debts.push_back({i, -below_it - 1, error - below_it * one});
    sum += -below_it - 1;
  }
  std::stable_sort(debts.begin(), debts.end(), [](const Debt& a, const Debt& b) { return a.rest < b.rest; });
  const auto many = static_cast<std::int64_t>(debts.size());
  const std::int64_t each = floor_div(-sum, many), over = -sum - each * many;
  for (std::int64_t k = 0; k < many; ++k) debts[static_cast<std::size_t>(k)].blocks += each + (k < over);
  std::sort(debts.begin(), debts.end(), [](const Debt& a, const Debt& b) { return a.stream < b.stream; });

  std::vector<std::pair<std::int64_t, std::int64_t>> given;  // (block, stream)
  for (const Debt& debt : debts) {
    for (std::int64_t k = 0; k < -debt.blocks; ++k) given.emplace_back(place_of(s, lane, debt.stream, k), debt.stream);
  }
  std::sort(given.begin(), given.end());
  auto& exchanges = s.exchanges[static_cast<std::size_t>(lane)];
  std::vector<std::int64_t> won(static_cast<std::size_t>(count), 0);
  for (const auto& [at, from] : given) {
    const auto to = std::max_element(debts.begin(), debts.end(),
                                     [](const Debt& a, const Debt& b) { return a.blocks < b.blocks; });
    if (to->blocks <= 0) break;
    --to->blocks;
    const std::int64_t i = to->stream;
    exchanges.push_back({at, from, i, count_of(s, lane, i, at) + won[static_cast<std::size_t>(i)]++});
    ++s.net[cell(lane, i)];
    --s.net[cell(lane, from)];
  }
}

// --------------------------------------------------------------------------------------- one place or count

const Weave::Segment& Weave::segment_at(std::int64_t lane, std::int64_t block) const {
  std::size_t k = segments_.size() - 1;
  while (k > 0 && segments_[k].start[static_cast<std::size_t>(lane)] > block) --k;
  return segments_[k];
}

std::int64_t Weave::in_periods(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t periods) const {
  const std::int64_t count = streams();
  if (s.columns == 1) return periods * s.along[static_cast<std::size_t>(count + stream)];
  const std::int64_t begin = s.begin[static_cast<std::size_t>(lane)];
  return periods / s.columns * s.along[static_cast<std::size_t>(s.columns * count + stream)] +
         s.along[static_cast<std::size_t>((begin + periods % s.columns) * count + stream)] -
         s.along[static_cast<std::size_t>(begin * count + stream)];
}

std::int64_t Weave::entry(const Segment& s, std::int64_t lane, std::int64_t period) const {
  std::int64_t row = s.phase[static_cast<std::size_t>(lane)];
  if (s.key) {
    row += static_cast<std::int64_t>(
        below(word(*s.key, static_cast<std::uint64_t>(period)), static_cast<std::uint64_t>(s.rows)));
  }
  return row < s.rows ? row : row - s.rows;
}

std::int64_t Weave::above(const Segment& s, std::size_t slot, std::int64_t row) const {
  const std::uint32_t* first = s.row_of.data() + s.first[slot];
  const std::uint32_t* last = s.row_of.data() + s.first[slot + 1];
  return std::lower_bound(first, last, static_cast<std::uint32_t>(row)) - first;
}

std::int64_t Weave::column(const Segment& s, std::int64_t lane, std::int64_t period) const {
  return s.column_at[static_cast<std::size_t>(s.begin[static_cast<std::size_t>(lane)] + period % s.columns)];
}

std::int64_t Weave::count_of(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t at) const {
  const std::int64_t period = at / s.rows, from = entry(s, lane, period), row = from + at % s.rows;
  const auto slot = static_cast<std::size_t>(column(s, lane, period) * streams() + stream);
  const std::int64_t before = in_periods(s, lane, stream, period) - above(s, slot, from);
  return row < s.rows ? before + above(s, slot, row)
                      : before + s.first[slot + 1] - s.first[slot] + above(s, slot, row - s.rows);
}

std::int64_t Weave::place_of(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t number) const {
  const std::int64_t count = streams(), round = s.along[static_cast<std::size_t>(s.columns * count + stream)];
  const std::int64_t begin = s.begin[static_cast<std::size_t>(lane)];
  const auto passed = [&](std::int64_t z) {
    return s.along[static_cast<std::size_t>((begin + z) * count + stream)] -
           s.along[static_cast<std::size_t>(begin * count + stream)];
  };
  std::int64_t rest = number % round, z = 0;
  while (passed(z + 1) <= rest) ++z;
  rest -= passed(z);
  const std::int64_t period = number / round * s.columns + z, from = entry(s, lane, period);
  const auto slot = static_cast<std::size_t>(column(s, lane, period) * count + stream);
  const std::int64_t weight = s.first[slot + 1] - s.first[slot];
  std::int64_t k = above(s, slot, from) + rest;
  if (k >= weight) k -= weight;
  const std::int64_t row = s.row_of[static_cast<std::size_t>(s.first[slot] + k)];
  return period * s.rows + (row < from ? row - from + s.rows : row - from);
}

Weave::Spot Weave::locate_block(std::int64_t lane, std::int64_t block) const {
  const Segment& s = segment_at(lane, block);
  const auto c = static_cast<std::size_t>(lane);
  const std::int64_t at = block - s.start[c], period = at / s.rows, from = entry(s, lane, period);
  const std::int64_t wound = from + at % s.rows, row = wound < s.rows ? wound : wound - s.rows;
  const std::int64_t own = column(s, lane, period);
  const auto here = static_cast<std::size_t>(row * s.columns + own);
  const std::int64_t i = s.stream[here];
  const auto slot = static_cast<std::size_t>(own * streams() + i);
  std::int64_t number = s.base[cell(lane, i)] + in_periods(s, lane, i, period) + static_cast<std::int64_t>(s.rank[here]) -
                        above(s, slot, from) + (wound < s.rows ? 0 : s.first[slot + 1] - s.first[slot]);
  const auto& exchanges = s.exchanges[c];
  if (exchanges.empty() || at > exchanges.back().at) return {i, number + s.net[cell(lane, i)]};
  for (const Exchange& e : exchanges) {
    if (e.at > at) break;
    if (e.at == at) return {e.to, s.base[cell(lane, e.to)] + e.ordinal};
    number += (e.to == i) - (e.from == i);
  }
  return {i, number};
}

std::int64_t Weave::count_blocks(const Segment& s, std::int64_t lane, std::int64_t stream, std::int64_t block) const {
  const auto c = static_cast<std::size_t>(lane);
  const std::int64_t at = block - s.start[c];
  std::int64_t number = s.base[cell(lane, stream)] + count_of(s, lane, stream, at);
  for (const Exchange& e : s.exchanges[c]) {
    if (e.at >= at) break;
    number += (e.to == stream) - (e.from == stream);
  }
  return number;
}

std::int64_t Weave::find_block(std::int64_t lane, std::int64_t stream, std::int64_t number) const {
  std::size_t k = segments_.size() - 1;
  while (k > 0 && segments_[k].base[cell(lane, stream)] > number) --k;
  const Segment& s = segments_[k];
  const auto c = static_cast<std::size_t>(lane);
  const std::int64_t own = number - s.base[cell(lane, stream)];
  std::int64_t lost = 0, won = 0;
  for (const Exchange& e : s.exchanges[c]) {
    if (e.to == stream && e.ordinal == own) return s.start[c] + e.at;
    won += e.to == stream && e.ordinal < own;
    lost += e.from == stream;  // a stream gives its first blocks: all of them lie before the ones it keeps
  }
  if (s.along[static_cast<std::size_t>(s.columns * streams() + stream)] == 0) return -1;
  return s.start[c] + place_of(s, lane, stream, own + lost - won);
}

Weave::Spot Weave::locate(std::int64_t lane, std::int64_t place) const {
  const Spot spot = locate_block(lane, place / block_);
  return {spot.stream, spot.place * block_ + place % block_};
}

std::int64_t Weave::find(std::int64_t lane, std::int64_t stream, std::int64_t place) const {
  const std::int64_t block = find_block(lane, stream, place / block_);
  return block < 0 ? -1 : block * block_ + place % block_;
}

std::int64_t Weave::count(std::int64_t lane, std::int64_t stream, std::int64_t place) const {
  const std::int64_t block = place / block_, inside = place % block_;
  const std::int64_t whole = count_blocks(segment_at(lane, block), lane, stream, block) * block_;
  return inside > 0 && locate_block(lane, block).stream == stream ? whole + inside : whole;
}

// ---------------------------------------------------------------------------------------------- epochs

void Weave::map(const std::int64_t* positions, std::int64_t size, std::int64_t epoch, std::int64_t* stream,
                std::int64_t* pass, std::int64_t* at) const {
  for (std::int64_t k = 0; k < size; ++k) {
    const std::int64_t runs = positions[k] / run_, lane = runs % lanes_;
    const std::int64_t place = epoch * places_of_epoch(lane) + runs / lanes_ * run_ + positions[k] % run_;
    const Spot spot = locate(lane, place);
    const std::int64_t length = pass_length(spot.stream, lane);
    stream[k] = spot.stream;
    pass[k] = spot.place / length;
    at[k] = spot.place % length * lanes_ + lane;
  }
}

void Weave::unmap(std::int64_t stream, const std::int64_t* lane, const std::int64_t* place, std::int64_t size,
                  std::int64_t epoch, std::int64_t* positions) const {
  for (std::int64_t k = 0; k < size; ++k) {
    const std::int64_t found = find(lane[k], stream, place[k]), length = places_of_epoch(lane[k]);
    const std::int64_t own = found - epoch * length;
    positions[k] = found < 0 || own < 0 || own >= length ? -1 : (own / run_ * lanes_ + lane[k]) * run_ + own % run_;
  }
}

void Weave::counts(std::int64_t epoch, std::int64_t position, std::int64_t* out) const {
  const std::int64_t runs = position / run_;
  for (std::int64_t c = 0; c < lanes_; ++c) {
    const std::int64_t own = (runs / lanes_ + (c < runs % lanes_)) * run_ + (c == runs % lanes_ ? position % run_ : 0);
    for (std::int64_t i = 0; i < streams(); ++i) out[cell(c, i)] = count(c, i, epoch * places_of_epoch(c) + own);
  }
}

void Weave::to_records(std::int64_t stream, std::int64_t* values, std::int64_t size) const {
  const Shards& s = shards_[static_cast<std::size_t>(stream)];
  if (s.wraps) {
    for (std::int64_t k = 0; k < size; ++k) values[k] %= s.records;
  }
  if (s.adjacent) {
    const std::int64_t shift = s.record[0] - s.first[0];
    for (std::int64_t k = 0; k < size; ++k) values[k] += shift;
    return;
  }
  for (std::int64_t k = 0; k < size; ++k) {
    const std::int64_t shard = last_not_above(s.first.data(), static_cast<std::int64_t>(s.first.size()), values[k]);
    values[k] += s.record[static_cast<std::size_t>(shard)] - s.first[static_cast<std::size_t>(shard)];
  }
}

// ---------------------------------------------------------------------------------------------- slices

void Weave::fill(std::int64_t lane, std::int64_t place, std::int64_t size, std::uint32_t* out) const {
  const auto c = static_cast<std::size_t>(lane);
  std::int64_t done = 0;
  while (done < size) {
    const std::int64_t block = (place + done) / block_;
    const Segment& s = segment_at(lane, block);
    const auto next = static_cast<std::size_t>(&s - segments_.data()) + 1;
    std::int64_t end = place + size;
    if (next < segments_.size()) end = std::min(end, segments_[next].start[c] * block_);
    const std::int64_t at = block - s.start[c];
    std::int64_t period = at / s.rows, left = s.rows - at % s.rows, own = column(s, lane, period);
    std::int64_t row = entry(s, lane, period) + at % s.rows;
    if (row >= s.rows) row -= s.rows;
    std::int64_t inside = (place + done) % block_;
    const std::int64_t begun = done;
    for (; place + done < end;) {
      const std::uint32_t i = s.stream[static_cast<std::size_t>(row * s.columns + own)];
      for (; inside < block_ && place + done < end; ++inside) out[done++] = i;
      inside = 0;
      if (++row == s.rows) row = 0;
      if (--left == 0) {
        left = s.rows;
        own = column(s, lane, ++period);
        row = entry(s, lane, period);
      }
    }
    const std::int64_t first = (s.start[c] * block_) - place;
    for (const Exchange& e : s.exchanges[c]) {
      const std::int64_t from = std::max(begun, first + e.at * block_), to = std::min(done, first + (e.at + 1) * block_);
      for (std::int64_t k = from; k < to; ++k) out[k] = static_cast<std::uint32_t>(e.to);
    }
  }
}

void Weave::slice(std::int64_t start, std::int64_t step, std::int64_t size, std::int64_t epoch,
                  const std::vector<Source>& sources, std::int64_t* out, int threads) const {
  constexpr std::int64_t kPlaces = 1024;
  const std::int64_t period = lanes_ / step, heads = std::min(period, size);
  const std::int64_t places = std::clamp<std::int64_t>((std::int64_t{1} << 16) / period, 64, kPlaces);
  const std::int64_t rows = (size + period - 1) / period, tiles = (rows + places - 1) / places;
  parallel_for(tiles, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> ids(static_cast<std::size_t>(places));
    std::vector<std::int64_t> buffer(static_cast<std::size_t>(places)), next(static_cast<std::size_t>(streams()));
    std::vector<std::int64_t> seen(static_cast<std::size_t>(streams()), 0), head(next);
    std::vector<std::uint32_t> present;
    for (std::int64_t tile = begin; tile < end; ++tile) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t number = tile * places * period + h;
        if (number >= size) break;
        const std::int64_t position = start + number * step, lane = position % lanes_;
        const std::int64_t place = epoch * places_of_epoch(lane) + position / lanes_;
        const std::int64_t mine = std::min(places, (size - number + period - 1) / period);
        fill(lane, place, mine, ids.data());
        present.clear();
        for (std::int64_t k = 0; k < mine; ++k) {
          const std::uint32_t i = ids[static_cast<std::size_t>(k)];
          if (seen[i]++ == 0) {
            present.push_back(i);
            head[i] = k;
          }
        }
        std::int64_t filled = 0;
        for (const std::uint32_t i : present) {  // the places of a stream's lane follow each other: one run of them
          const std::int64_t length = pass_length(i, lane), wanted = seen[i];
          std::int64_t own = locate(lane, place + head[i]).place;
          std::int64_t* to = buffer.data() + filled;
          for (std::int64_t done = 0; done < wanted;) {
            const Source& source = sources[i];
            const auto found = std::lower_bound(source.numbers.begin(), source.numbers.end(), own / length);
            const LaneEpoch* pass = source.passes[static_cast<std::size_t>(found - source.numbers.begin())];
            const std::int64_t some = std::min(wanted - done, length - own % length);
            pass->run(lane, own % length, some, to + done);
            done += some;
            own += some;
          }
          to_records(i, to, wanted);
          next[i] = filled;
          filled += wanted;
          seen[i] = 0;
        }
        for (std::int64_t k = 0; k < mine; ++k) {
          out[number + k * period] = buffer[static_cast<std::size_t>(next[ids[static_cast<std::size_t>(k)]]++)];
        }
      }
    }
  });
}

}  // namespace tombola
