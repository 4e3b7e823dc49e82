#include "lanes.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "keys.hpp"
#include "parallel.hpp"
#include "search.hpp"

namespace tombola {
namespace {

__extension__ using u128 = unsigned __int128;

std::int64_t mul_div(std::int64_t a, std::int64_t b, std::int64_t d) {  // floor(a * b / d) without overflow
  return static_cast<std::int64_t>(static_cast<u128>(a) * static_cast<u128>(b) / static_cast<u128>(d));
}

}  // namespace

// ---------------------------------------------------------------------------------------------- the line

Line::Line(const std::int64_t* starts, std::int64_t units, std::int64_t lanes, std::uint64_t home_key, int threads)
    : starts_(starts),
      lanes_(lanes),
      base_(starts[units] / lanes),
      longer_(starts[units] % lanes),
      home_(units, home_key),
      unit_at_(static_cast<std::size_t>(units)),
      line_start_(static_cast<std::size_t>(units) + 1),
      lane_of_(static_cast<std::size_t>(lanes)),
      piece_of_(static_cast<std::size_t>(lanes)),
      piece_begin_(static_cast<std::size_t>(lanes) + 1),
      first_place_(static_cast<std::size_t>(lanes)),
      part_base_(static_cast<std::size_t>(lanes) + 1) {
  // line_start_ serves as scratch: first the unit at each place, then its size, at last the running sum.
  std::int64_t* scratch = line_start_.data() + 1;
  parallel_for(units, threads, std::int64_t{1} << 16, [&](std::int64_t begin, std::int64_t end) {
    home_.run(begin, end - begin, scratch + begin);
    for (std::int64_t i = begin; i < end; ++i) {
      // The units come in random order: ask for the memory of a later one while this one is handled.
      if (i + 16 < end) __builtin_prefetch(starts_ + scratch[i + 16]);
      const std::int64_t unit = scratch[i];
      unit_at_[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(unit);
      scratch[i] = starts_[unit + 1] - starts_[unit];
    }
  });
  line_start_[0] = 0;
  for (std::int64_t i = 0; i < units; ++i) scratch[i] += scratch[i - 1];

  // Neighbouring pieces share a cut shard. Their lanes are numbered in bit-reversed order, which keeps them from being
  // neighbours in a batch, and on one rank wherever the ranks are a power of two: lanes that agree in their low bits
  // hold one unbroken stretch of the line.
  const int bits = std::bit_width(static_cast<std::uint64_t>(lanes - 1));
  std::int64_t piece = 0;
  for (std::uint64_t i = 0; i < std::uint64_t{1} << bits; ++i) {
    std::uint64_t lane = 0;
    for (int bit = 0; bit < bits; ++bit) lane |= (i >> bit & 1) << (bits - 1 - bit);
    if (lane >= static_cast<std::uint64_t>(lanes)) continue;
    lane_of_[static_cast<std::size_t>(piece)] = static_cast<std::uint32_t>(lane);
    piece_of_[static_cast<std::size_t>(lane)] = static_cast<std::uint32_t>(piece);
    ++piece;
  }
  std::int64_t place = 0;
  part_base_[0] = piece_begin_[0] = 0;
  for (std::size_t p = 0; p < static_cast<std::size_t>(lanes); ++p) {
    const std::int64_t begin = piece_begin_[p], end = begin + lane_length(lane_of_[p]);
    piece_begin_[p + 1] = end;
    // Pieces lie in line order, so the search goes on from the last one: galloping keeps it cheap.
    std::int64_t reach = 1;
    while (place + reach <= units && line_start_[static_cast<std::size_t>(place + reach)] <= begin) reach *= 2;
    place += last_not_above(line_start_.data() + place, std::min(reach, units - place), begin);
    first_place_[p] = place;
    reach = 1;
    while (place + reach <= units && line_start_[static_cast<std::size_t>(place + reach)] < end) reach *= 2;
    const std::int64_t last = place + last_not_above(line_start_.data() + place, std::min(reach, units - place), end - 1);
    part_base_[p + 1] = part_base_[p] + (last - place + 1);
    place = last;
  }
}

std::int64_t Line::lane_of(std::int64_t line_offset) const {
  return lane_of_[static_cast<std::size_t>(last_not_above(piece_begin_.data(), lanes_, line_offset))];
}

Line::Part Line::part(std::int64_t lane, std::int64_t number) const {
  const auto place = static_cast<std::size_t>(first_place(lane) + number);
  const std::int64_t lane_start = lane_begin(lane);
  Part p;
  p.begin = std::max(line_start_[place], lane_start);
  p.end = std::min(line_start_[place + 1], lane_start + lane_length(lane));
  p.unit = unit_at_[place];
  p.record = starts_[p.unit] + (p.begin - line_start_[place]);
  return p;
}

bool Line::has_seam(std::int64_t lane) const {
  const std::int64_t count = parts(lane), begin = lane_begin(lane);
  const auto first = static_cast<std::size_t>(first_place(lane));
  return count >= 2 && line_start_[first] < begin &&
         begin + lane_length(lane) < line_start_[first + static_cast<std::size_t>(count)];
}

std::int64_t Line::offset_of(std::int64_t record, std::int64_t& place) const {
  const std::int64_t unit = last_not_above(starts_, units(), record);
  place = home_.find(unit);
  return line_start_[static_cast<std::size_t>(place)] + (record - starts_[unit]);
}

// --------------------------------------------------------------------------------------------- an epoch

LaneEpoch::LaneEpoch(std::shared_ptr<const Line> line, LaneKeys keys, Window window, bool spread_phases, int threads)
    : line_(std::move(line)),
      keys_(keys),
      window_(window),
      phase_(static_cast<std::size_t>(line_->lanes())),
      ring_start_(static_cast<std::size_t>(line_->parts())),
      part_of_slot_(static_cast<std::size_t>(line_->parts())),
      slot_of_part_(static_cast<std::size_t>(line_->parts())) {
  const std::int64_t grain = std::max<std::int64_t>(1, (line_->lanes() << 15) / std::max<std::int64_t>(line_->parts(), 1));
  parallel_for(line_->lanes(), threads, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> items;
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t base = line_->part_base(c), count = line_->parts(c);
      phase_[static_cast<std::size_t>(c)] = phase_of(c, spread_phases);
      // The two cut ends of a lane travel as one item, tail then head. Their lengths add up to the same remainder
      // of a shard in every lane, so equal shards stay evenly out of step after them as they were before.
      const bool seam = line_->has_seam(c);
      items.resize(static_cast<std::size_t>(count - seam));
      Permutation(count - seam, child(keys_.parts, static_cast<std::uint64_t>(c))).run(0, count - seam, items.data());
      std::int64_t slot = 0, ring = 0;
      const auto put = [&](std::int64_t part) {
        const Line::Part p = line_->part(c, part);
        ring_start_[static_cast<std::size_t>(base + slot)] = ring;
        part_of_slot_[static_cast<std::size_t>(base + slot)] = static_cast<std::uint32_t>(part);
        slot_of_part_[static_cast<std::size_t>(base + part)] = static_cast<std::uint32_t>(slot);
        ring += p.end - p.begin;
        ++slot;
      };
      for (const std::int64_t item : items) {
        if (seam && item == 0) put(count - 1);
        put(item);
      }
    }
  });
}

LaneEpoch::Lane LaneEpoch::lane(std::int64_t number) const {
  Lane l;
  l.number = number;
  l.length = line_->lane_length(number);
  l.parts = line_->parts(number);
  l.part_base = line_->part_base(number);
  l.ring = ring_start_.data() + l.part_base;
  l.blocks = window_.shards > 0    ? (l.parts + window_.shards - 1) / window_.shards
             : window_.records > 0 ? (l.length + window_.records - 1) / window_.records
                                   : 0;
  l.phase = phase_[static_cast<std::size_t>(number)];
  return l;
}

// Where on its ring a lane starts. Three terms, modulo the length of the ring:
//   a keyed offset, the same in all lanes: it makes each record's place uniform. Starting every lane with a whole part
//     would fill both ends of the epoch with the records of small shards;
//   a keyed number of whole means (mean shard, or block), drawn for each lane: lanes do not turn together;
//   c/C of a mean: lanes of equal shards stay evenly out of step, so that few change shards at the same time.
std::int64_t LaneEpoch::phase_of(std::int64_t lane, bool spread) const {
  const auto c = static_cast<u128>(lane), lanes = static_cast<u128>(line_->lanes());
  const auto length = static_cast<u128>(line_->lane_length(lane));
  // The mean as a fraction.
  const u128 over = window_.records > 0 ? static_cast<u128>(window_.records)
                                        : static_cast<u128>(line_->records()) *
                                              static_cast<u128>(std::max<std::int64_t>(window_.shards, 1));
  const u128 under = window_.records > 0 ? 1 : static_cast<u128>(line_->units());
  const u128 means = std::max<u128>(1, (2 * length * under + over) / (2 * over));
  const auto turn = static_cast<u128>(below(word(keys_.phase, 0), static_cast<std::uint64_t>(length)));
  const auto whole = static_cast<u128>(
      below(word(keys_.phase, static_cast<std::uint64_t>(lane) + 1), static_cast<std::uint64_t>(means)));
  return static_cast<std::int64_t>((turn + (whole * lanes + (spread ? c : 0)) * over / (lanes * under)) % length);
}

std::int64_t LaneEpoch::slot_of(const Lane& l, std::int64_t q) const { return last_not_above(l.ring, l.parts, q); }

std::int64_t LaneEpoch::record_at(const Lane& l, std::int64_t slot, std::int64_t offset) const {
  return line_->part(l.number, part_of_slot_[static_cast<std::size_t>(l.part_base + slot)]).record + offset;
}

// Blocks by shards: slot s is in block floor(s * blocks / parts), so blocks differ by at most one part and none has
// more than window.shards. Blocks by records: the ring in equal pieces.
std::int64_t LaneEpoch::block_start(const Lane& l, std::int64_t g) const {
  if (g >= l.blocks) return l.length;
  if (window_.records > 0) return mul_div(g, l.length, l.blocks);
  return l.ring[(g * l.parts + l.blocks - 1) / l.blocks];
}

std::int64_t LaneEpoch::block_of(const Lane& l, std::int64_t q) const {
  if (window_.records > 0) {
    return static_cast<std::int64_t>(
        (static_cast<u128>(q + 1) * static_cast<u128>(l.blocks) - 1) / static_cast<u128>(l.length));
  }
  return slot_of(l, q) * l.blocks / l.parts;
}

std::int64_t LaneEpoch::block_middle(const Lane& l, std::int64_t g) const {
  const std::int64_t begin = block_start(l, g);
  return begin + (block_start(l, g + 1) - begin) / 2;
}

LaneEpoch::Shifted LaneEpoch::shifted_of(const Lane& l, std::int64_t q) const {
  std::int64_t g = block_of(l, q);
  const std::int64_t middle = block_middle(l, g);
  Shifted s;
  if (q >= middle) {
    s.start = middle;
  } else {
    g = g > 0 ? g - 1 : l.blocks - 1;
    s.start = block_middle(l, g);
  }
  s.number = g;
  const std::int64_t next = g + 1 < l.blocks ? block_middle(l, g + 1) : l.length + block_middle(l, 0);
  s.size = next - s.start;
  return s;
}

Permutation LaneEpoch::block_permutation(const Lane& l, int pass, std::int64_t g, std::int64_t size) const {
  const std::uint64_t key = child(keys_.window, static_cast<std::uint64_t>(l.number));
  return Permutation(size, child(key, static_cast<std::uint64_t>(2 * g + pass)));
}

std::int64_t LaneEpoch::window_at(const Lane& l, std::int64_t q) const {
  const Shifted s = shifted_of(l, q);
  const std::int64_t into = q >= s.start ? q - s.start : q + l.length - s.start;
  q = s.start + block_permutation(l, 1, s.number, s.size).at(into);
  if (q >= l.length) q -= l.length;
  const std::int64_t g = block_of(l, q), begin = block_start(l, g);
  return begin + block_permutation(l, 0, g, block_start(l, g + 1) - begin).at(q - begin);
}

std::int64_t LaneEpoch::window_find(const Lane& l, std::int64_t q) const {
  const std::int64_t g = block_of(l, q), begin = block_start(l, g);
  q = begin + block_permutation(l, 0, g, block_start(l, g + 1) - begin).find(q - begin);
  const Shifted s = shifted_of(l, q);
  const std::int64_t into = q >= s.start ? q - s.start : q + l.length - s.start;
  q = s.start + block_permutation(l, 1, s.number, s.size).find(into);
  return q >= l.length ? q - l.length : q;
}

std::int64_t LaneEpoch::ring_at(const Lane& l, std::int64_t q) const {
  if (window_.any()) {
    q = window_at(l, q);
    const std::int64_t slot = slot_of(l, q);
    return record_at(l, slot, q - l.ring[slot]);
  }
  const std::int64_t slot = slot_of(l, q);
  const std::int64_t number = l.part_base + part_of_slot_[static_cast<std::size_t>(l.part_base + slot)];
  const Permutation within(slot_end(l, slot) - l.ring[slot], child(keys_.records, static_cast<std::uint64_t>(number)));
  return record_at(l, slot, within.at(q - l.ring[slot]));
}

std::int64_t LaneEpoch::at(std::int64_t position) const {
  const Lane l = lane(position % line_->lanes());
  const std::int64_t q = position / line_->lanes() + l.phase;
  return ring_at(l, q >= l.length ? q - l.length : q);
}

std::int64_t LaneEpoch::find(std::int64_t record) const {
  std::int64_t place = 0;
  const std::int64_t offset = line_->offset_of(record, place);
  const Lane l = lane(line_->lane_of(offset));
  const std::int64_t number = place - line_->first_place(l.number);
  const std::int64_t slot = slot_of_part_[static_cast<std::size_t>(l.part_base + number)];
  const std::int64_t begin = l.ring[slot];
  const std::int64_t stored = offset - line_->part(l.number, number).begin;
  std::int64_t q = 0;
  if (window_.any()) {
    q = window_find(l, begin + stored);
  } else {
    const Permutation within(slot_end(l, slot) - begin,
                             child(keys_.records, static_cast<std::uint64_t>(l.part_base + number)));
    q = begin + within.find(stored);
  }
  q -= l.phase;
  if (q < 0) q += l.length;
  return q * line_->lanes() + l.number;
}

// ------------------------------------------------------------------------------------------------- runs

void LaneEpoch::run_part(const Lane& l, std::int64_t q, std::int64_t count, std::int64_t* out,
                         std::int64_t stride) const {
  constexpr std::int64_t kAtOnce = 512;
  std::int64_t buffer[kAtOnce];
  const std::int64_t slot = slot_of(l, q), begin = l.ring[slot];
  const std::int64_t number = part_of_slot_[static_cast<std::size_t>(l.part_base + slot)];
  const Permutation within(slot_end(l, slot) - begin,
                           child(keys_.records, static_cast<std::uint64_t>(l.part_base + number)));
  const std::int64_t first = line_->part(l.number, number).record;
  for (std::int64_t done = 0; done < count; done += kAtOnce) {
    const std::int64_t size = std::min(kAtOnce, count - done);
    within.run(q - begin + done, size, buffer);
    for (std::int64_t i = 0; i < size; ++i) out[(done + i) * stride] = first + buffer[i];
  }
}

void LaneEpoch::run_window(const Lane& l, const Shifted& s, std::int64_t q, std::int64_t count, std::int64_t* out,
                           std::int64_t stride) const {
  constexpr std::int64_t kAtOnce = 256;
  std::int64_t buffer[kAtOnce], inside[kAtOnce];
  std::int16_t where[kAtOnce];
  const Permutation second = block_permutation(l, 1, s.number, s.size);
  // A shifted block draws from two blocks: the upper half of its own and the lower half of the next.
  const std::int64_t own = s.number, next = own + 1 < l.blocks ? own + 1 : 0;
  const std::int64_t starts[2] = {block_start(l, own), block_start(l, next)};
  const std::int64_t sizes[2] = {block_start(l, own + 1) - starts[0], block_start(l, next + 1) - starts[1]};
  const Permutation first[2] = {block_permutation(l, 0, own, sizes[0]), block_permutation(l, 0, next, sizes[1])};
  const std::int64_t border = sizes[0] - sizes[0] / 2;  // how much of the shifted block is the own block's
  const std::int64_t into = q >= s.start ? q - s.start : q + l.length - s.start;
  for (std::int64_t done = 0; done < count; done += kAtOnce) {
    const std::int64_t size = std::min(kAtOnce, count - done);
    second.run(into + done, size, buffer);
    for (int half = 0; half < 2; ++half) {
      std::int64_t taken = 0;
      for (std::int64_t i = 0; i < size; ++i) {
        inside[taken] = half == 0 ? buffer[i] + sizes[0] / 2 : buffer[i] - border;
        where[taken] = static_cast<std::int16_t>(i);
        taken += half == 0 ? buffer[i] < border : buffer[i] >= border;
      }
      first[half].at(inside, inside, taken);
      for (std::int64_t i = 0; i < taken; ++i) {
        const std::int64_t stored = starts[half] + inside[i], slot = slot_of(l, stored);
        out[(done + where[i]) * stride] = record_at(l, slot, stored - l.ring[slot]);
      }
    }
  }
}

void LaneEpoch::run(std::int64_t lane_number, std::int64_t place, std::int64_t count, std::int64_t* out) const {
  run(lane(lane_number), place, count, out, 1);
}

void LaneEpoch::run(const Lane& l, std::int64_t place, std::int64_t count, std::int64_t* out,
                    std::int64_t stride) const {
  std::int64_t q = place + l.phase;
  if (q >= l.length) q -= l.length;
  while (count > 0) {
    std::int64_t size = 0;
    if (window_.any()) {
      const Shifted s = shifted_of(l, q);
      const std::int64_t into = q >= s.start ? q - s.start : q + l.length - s.start;
      size = std::min({count, s.size - into});
      run_window(l, s, q, size, out, stride);
    } else {
      const std::int64_t slot = slot_of(l, q);
      size = std::min(count, slot_end(l, slot) - q);
      run_part(l, q, size, out, stride);
    }
    q += size;
    if (q >= l.length) q -= l.length;
    out += size * stride;
    count -= size;
  }
}

void LaneEpoch::slice(std::int64_t start, std::int64_t step, std::int64_t count, std::int64_t* out,
                      int threads) const {
  const std::int64_t lanes = line_->lanes();
  const std::int64_t period = lanes / step;  // so many positions until the same lane comes again
  const std::int64_t heads = std::min(period, count);
  // Tiles small enough for the output to stay in cache while lane after lane writes its column of it.
  const std::int64_t places_per_tile = std::max<std::int64_t>(128, (std::int64_t{1} << 15) / period);
  const std::int64_t rows = (count + period - 1) / period;
  const std::int64_t tiles = (rows + places_per_tile - 1) / places_per_tile;
  parallel_for(tiles, threads, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t row = tile * places_per_tile;
      for (std::int64_t i = 0; i < heads; ++i) {
        const std::int64_t entry = row * period + i;
        if (entry >= count) break;
        const std::int64_t position = start + entry * step;
        const std::int64_t mine = std::min(places_per_tile, (count - entry + period - 1) / period);
        run(lane(position % lanes), position / lanes, mine, out + entry, period);
      }
    }
  });
}

// ----------------------------------------------------------------------------------------------- visits

Visits LaneEpoch::visits() const {
  Visits v;
  const std::int64_t lanes = line_->lanes();
  struct Stretch {
    std::int64_t first, last, part;
  };
  std::vector<Stretch> stretches;
  for (std::int64_t c = 0; c < lanes; ++c) {
    const Lane l = lane(c);
    stretches.clear();
    for (std::int64_t slot = 0; slot < l.parts; ++slot) {
      std::int64_t begin = l.ring[slot], size = slot_end(l, slot) - begin;
      if (size == 0) continue;  // an empty unit has a place, but nothing in it is read
      if (window_.any()) {
        // Needed in every shifted block that draws from the blocks this part lies in.
        const std::int64_t g0 = block_of(l, begin), g1 = block_of(l, begin + size - 1);
        if (g1 - g0 + 3 > l.blocks) {
          begin = l.phase, size = l.length;
        } else {
          begin = block_middle(l, g0 > 0 ? g0 - 1 : l.blocks - 1) % l.length;  // the middle of an empty last block
          const std::int64_t end = block_middle(l, g1 + 1 < l.blocks ? g1 + 1 : 0);
          size = end > begin ? end - begin : end + l.length - begin;
        }
      }
      const std::int64_t part = part_of_slot_[static_cast<std::size_t>(l.part_base + slot)];
      std::int64_t place = begin - l.phase;
      if (place < 0) place += l.length;
      if (place + size <= l.length) {
        stretches.push_back({place, place + size - 1, part});
      } else {
        stretches.push_back({0, place + size - l.length - 1, part});
        stretches.push_back({place, l.length - 1, part});
      }
    }
    std::stable_sort(stretches.begin(), stretches.end(),
                     [](const Stretch& a, const Stretch& b) { return a.first < b.first; });
    for (const Stretch& s : stretches) {
      const Line::Part p = line_->part(c, s.part);
      v.lane.push_back(c);
      v.unit.push_back(p.unit);
      v.record_begin.push_back(p.record);
      v.record_end.push_back(p.record + (p.end - p.begin));
      v.first.push_back(s.first * lanes + c);
      v.last.push_back(s.last * lanes + c);
    }
  }
  return v;
}

}  // namespace tombola
