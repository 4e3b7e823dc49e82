#include "mosaic.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "parallel.hpp"

namespace tombola::mosaic {
namespace {

struct Span {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Beyond this an array does not stay in the nearest caches, and fetching ahead pays.
constexpr std::int64_t kFetchBytes = std::int64_t{1} << 19;
constexpr std::size_t kDrawn = 256;  // draws made ahead of the swaps

inline void fetch(const void* at) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(at, 1);
#else
  (void)at;
#endif
}

// How many bounds, from i down, may be drawn at once: they must share a mask.
inline std::size_t batch_below(std::int64_t i) {
  const auto mask_floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(i)));
  return static_cast<std::size_t>(std::min<std::int64_t>(kDrawn, i - mask_floor + 1));
}

template <class T>
void swap_drawn(T* x, std::int64_t i, std::size_t count, const std::uint32_t* drawn) {
  for (std::size_t k = 0; k < count; ++k) std::swap(x[i - static_cast<std::int64_t>(k)], x[drawn[k]]);
}

template <class T>
void shuffle_near(T* x, std::int64_t i, Pcg64& draws) {
  std::uint32_t drawn[kDrawn + 4];
  while (i >= 1) {
    const std::size_t count = batch_below(i);
    draws.descend(static_cast<std::uint64_t>(i), count, drawn);
    swap_drawn(x, i, count, drawn);
    i -= static_cast<std::int64_t>(count);
  }
}

// The same swaps in the same order; the draws run one batch ahead, so that the memory they name is on its way.
template <class T>
std::int64_t shuffle_far(T* x, std::int64_t i, std::int64_t stop, Pcg64& draws) {
  std::uint32_t drawn[2][kDrawn + 4];
  int now = 0;
  std::size_t count = batch_below(i);
  draws.descend(static_cast<std::uint64_t>(i), count, drawn[now]);
  for (std::size_t k = 0; k < count; ++k) fetch(x + drawn[now][k]);
  while (i > stop) {
    const std::int64_t after = i - static_cast<std::int64_t>(count);
    std::size_t count_after = 0;
    if (after > stop) {
      count_after = batch_below(after);
      std::uint32_t* next = drawn[1 - now];
      draws.descend(static_cast<std::uint64_t>(after), count_after, next);
      for (std::size_t k = 0; k < count_after; ++k) fetch(x + next[k]);
    }
    swap_drawn(x, i, count, drawn[now]);
    now = 1 - now;
    i = after;
    count = count_after;
  }
  return i;
}

template <class T>
void lay(T* out, std::int64_t begin, std::int64_t end) {
  std::iota(out, out + (end - begin), static_cast<T>(begin));
}

std::int64_t total(const std::int64_t* values, std::int64_t count) {
  return std::accumulate(values, values + count, std::int64_t{0});
}

// a·b/c without leaving 64 bits on the way.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) {
  __extension__ using i128 = __int128;
  return static_cast<std::int64_t>(static_cast<i128>(a) * b / c);
}

// The spans of each canonical node, those of node c at spans[first[c] … first[c + 1]).
struct Nodes {
  std::vector<Span> spans;
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> begin;  // first virtual position of each node; one more for the end
};

// Spans end to end, cut at the nodes' borders. An empty span goes to the node before it: it changes nothing but how many
// draws the shuffle of that node's spans takes, and so everything after.
Nodes cut(const std::vector<Span>& line, std::int64_t records, std::int64_t nodes) {
  Nodes out;
  out.spans.reserve(line.size() + static_cast<std::size_t>(nodes));
  out.first.push_back(0);
  out.begin.push_back(0);
  std::size_t next = 0;
  Span head = line.empty() ? Span{0, 0} : line[0];
  for (std::int64_t c = 0; c < nodes; ++c) {
    const std::int64_t border = scaled(records, c + 1, nodes);
    std::int64_t at = out.begin.back();
    while (next < line.size() && (at < border || head.size() == 0)) {
      const std::int64_t taken = std::min(head.size(), border - at);
      out.spans.push_back({head.begin, head.begin + taken});
      at += taken;
      head.begin += taken;
      if (head.begin == head.end && ++next < line.size()) head = line[next];
    }
    out.first.push_back(static_cast<std::int64_t>(out.spans.size()));
    out.begin.push_back(border);
  }
  return out;
}

std::vector<Span> units_to_spans(const std::int64_t* units, std::int64_t count) {
  std::vector<Span> spans(static_cast<std::size_t>(count));
  std::int64_t at = 0;
  for (std::int64_t u = 0; u < count; ++u) {
    spans[static_cast<std::size_t>(u)] = {at, at + units[u]};
    at += units[u];
  }
  return spans;
}

void shuffle_spans_of_node(Nodes& nodes, std::int64_t c, Pcg64& draws) {
  const auto first = nodes.first[static_cast<std::size_t>(c)], end = nodes.first[static_cast<std::size_t>(c) + 1];
  shuffle(nodes.spans.data() + first, end - first, draws);
}

// ---- py1e: sorting by nearly sorted keys.
//
// Record number a of a node (its spans in order, each shuffled) gets the key a + u, |u| ≤ reach, and the order is that of
// the keys. So once everything up to a has its key, nothing new can come below a − reach: the keys go into pages of
// kPage consecutive values, and a page is sorted and written out as soon as it is complete. The pages that are
// open hold a block or so, not the node. Written values never overtake those still to be read, so the sort is in place.
template <class T>
class PageSort {
 public:
  PageSort(std::int64_t reach, std::int64_t longest) {
    const std::int64_t open = 2 * reach / kPage + 4, all = longest / kPage + 2;
    pages_.resize(std::bit_ceil(static_cast<std::size_t>(std::min(open, all))));
    reach_ = reach;
  }

  void start(T* ids) {
    from_ = to_ = ids;
    done_ = 0;
    next_ = 0;
  }

  // The next `count` records get the keys place + low + range·u.
  void add(std::int64_t count, double low, double range, Pcg64& draws) {
    double keys[kStep];
    while (count > 0) {
      const std::int64_t step = std::min(count, kStep);
      release(next_ - reach_ - 1);
      draws.units(static_cast<std::size_t>(step), keys);
      for (std::int64_t k = 0; k < step; ++k) keys[k] = static_cast<double>(next_ + k) + (low + range * keys[k]);
      for (std::int64_t k = 0; k < step; ++k) {
        Page& page = page_of(static_cast<std::int64_t>(keys[k]) / kPage);
        if (page.end == page.full) page.grow();
        Entry* entry = page.end++;
        fetch(entry + kAhead);
        entry->key = keys[k];  // field by field: by way of the stack it waits for the store to come back
        entry->id = from_[k];
      }
      next_ += step;
      from_ += step;
      count -= step;
    }
  }

  void finish() { release(next_ + kPage); }

 private:
  static constexpr std::int64_t kPage = 2048, kStep = 1024;
  static constexpr std::int64_t kSlots = 2 * kPage;  // half a key each: most hold one record or none

  // Hundreds of pages are open, more than fit the nearest cache: ask for the place two lines on.
  static constexpr std::int64_t kAhead = 8;

  struct Entry {
    double key;
    T id;
  };
  struct Page {
    std::unique_ptr<Entry[]> entries;
    Entry *end = nullptr, *full = nullptr;
    std::size_t size() const { return static_cast<std::size_t>(end - entries.get()); }
    void grow() {
      const std::size_t had = size(), room = had == 0 ? kPage + kPage / 4 : 2 * had;
      auto moved = std::make_unique_for_overwrite<Entry[]>(room + kAhead);
      std::copy_n(entries.get(), had, moved.get());
      entries = std::move(moved);
      end = entries.get() + had;
      full = entries.get() + room;
    }
  };

  Page& page_of(std::int64_t number) { return pages_[static_cast<std::size_t>(number) & (pages_.size() - 1)]; }

  // Everything below `bound` has come.
  void release(std::int64_t bound) {
    for (; (done_ + 1) * kPage <= bound; ++done_) sort(page_of(done_), static_cast<double>(done_ * kPage));
  }

  // Counting sort into slots, then insertion within them; equal keys stay in the order they came.
  void sort(Page& page, double begin) {
    const std::size_t size = page.size();
    if (size == 0) return;
    const Entry* entries = page.entries.get();
    std::memset(slots_, 0, sizeof slots_);
    if (sorted_.size() < size) sorted_.resize(size);
    Entry* sorted = sorted_.data();
    auto slot = [begin](double key) { return static_cast<std::uint32_t>(static_cast<std::int32_t>((key - begin) * (kSlots / kPage))); };
    for (std::size_t k = 0; k < size; ++k) ++slots_[slot(entries[k].key) + 1];
    std::uint32_t before = 0;
    for (std::int64_t s = 0; s < kSlots; ++s) slots_[s] = before += slots_[s];
    for (std::size_t k = 0; k < size; ++k) {
      Entry* entry = sorted + slots_[slot(entries[k].key)]++;
      entry->key = entries[k].key;
      entry->id = entries[k].id;
    }
    for (std::size_t k = 1; k < size; ++k) {
      if (!(sorted[k].key < sorted[k - 1].key)) continue;
      const Entry moved = sorted[k];
      std::size_t hole = k;
      do {
        sorted[hole] = sorted[hole - 1];
        --hole;
      } while (hole > 0 && moved.key < sorted[hole - 1].key);
      sorted[hole] = moved;
    }
    for (std::size_t k = 0; k < size; ++k) to_[k] = sorted[k].id;
    to_ += size;
    page.end = page.entries.get();
  }

  std::vector<Page> pages_;
  std::vector<Entry> sorted_;
  std::uint32_t slots_[kSlots + 1];
  std::int64_t reach_, done_ = 0, next_ = 0;
  const T* from_ = nullptr;
  T* to_ = nullptr;
};

template <class T>
void expand_node(const Nodes& nodes, std::int64_t c, Block block, PageSort<T>& sorter, Pcg64& draws, T* ids) {
  const auto first = static_cast<std::size_t>(nodes.first[static_cast<std::size_t>(c)]);
  const auto end = static_cast<std::size_t>(nodes.first[static_cast<std::size_t>(c) + 1]);
  T* const node = ids + nodes.begin[static_cast<std::size_t>(c)];
  const std::int64_t length = nodes.begin[static_cast<std::size_t>(c) + 1] - nodes.begin[static_cast<std::size_t>(c)];
  T* at = node;
  for (std::size_t s = first; s < end; ++s) {
    const Span& span = nodes.spans[s];
    lay(at, span.begin, span.end);
    shuffle(at, span.size(), draws);
    at += span.size();
  }
  sorter.start(node);
  std::int64_t offset = 0;
  for (std::size_t s = first; s < end; ++s) {
    const std::int64_t size = nodes.spans[s].size();
    const auto drawn = block.low + static_cast<std::int64_t>(draws.bounded(static_cast<std::uint64_t>(block.high - block.low - 1)));
    const double reach = std::max(static_cast<double>(drawn - size) / 2.0, 0.0);
    const double low = std::max(-reach, static_cast<double>(-offset));
    const double high = std::min(reach, static_cast<double>(length - offset - size));
    sorter.add(size, low, high - low, draws);
    offset += size;
  }
  sorter.finish();
}

template <class T>
void blocks_with_stagger(std::int64_t begin, std::int64_t end, std::int64_t stagger, Block block, Pcg64& draws, T* ids) {
  std::vector<Span> blocks;
  for (std::int64_t at = begin; at < end;) {
    const auto size = block.low + static_cast<std::int64_t>(draws.bounded(static_cast<std::uint64_t>(block.high - block.low - 1)));
    const std::int64_t from = std::max(at - stagger, begin), to = std::min(at + size - stagger, end);
    blocks.push_back({from, to});
    at += to - from;
  }
  for (const Span& b : blocks) shuffle(ids + b.begin, b.size(), draws);
}

template <class T>
void py1_family(Name name, const std::int64_t* units, std::int64_t count, std::int64_t canonical_nodes, Pcg64& run,
                Pcg64& draws, Block block, T* ids) {
  std::vector<Span> line = units_to_spans(units, count);
  shuffle(line.data(), static_cast<std::int64_t>(line.size()), run);
  Nodes nodes = cut(line, total(units, count), canonical_nodes);
  line = {};
  for (std::int64_t c = 0; c < canonical_nodes; ++c) shuffle_spans_of_node(nodes, c, draws);

  if (name == Name::py1e) {
    const std::int64_t reach = block.high / 2 + 1, longest = nodes.begin[1] - nodes.begin[0] + 1;
    PageSort<T> sorter(reach, longest);
    for (std::int64_t c = 0; c < canonical_nodes; ++c) expand_node(nodes, c, block, sorter, draws, ids);
    return;
  }
  T* at = ids;
  for (const Span& span : nodes.spans) {
    lay(at, span.begin, span.end);
    if (name == Name::py1s) shuffle(at, span.size(), draws);
    at += span.size();
  }
  std::vector<std::int64_t> stagger(static_cast<std::size_t>(canonical_nodes));
  if (name == Name::py1br)
    for (auto& s : stagger) s = static_cast<std::int64_t>(draws.bounded(static_cast<std::uint64_t>(block.low - 1)));
  for (std::size_t c = 0; c < stagger.size() && name != Name::py1s; ++c) {
    const std::int64_t begin = nodes.begin[c], end = nodes.begin[c + 1];
    if (name == Name::py1br) blocks_with_stagger(begin, end, stagger[c], block, draws, ids);
    if (name == Name::py1b)
      for (std::int64_t b = begin; b < end; b += std::min(block.records, end - b))
        shuffle(ids + b, std::min(block.records, end - b), draws);
  }
}

template <class T>
void py2s(const std::int64_t* units, std::int64_t count, std::int64_t canonical_nodes, Pcg64& run, Pcg64& draws, T* ids) {
  std::vector<Span> line = units_to_spans(units, count);
  shuffle(line.data(), static_cast<std::int64_t>(line.size()), run);
  std::int64_t at = 0;
  for (Span& span : line) {
    lay(ids + at, span.begin, span.end);
    shuffle(ids + at, span.size(), run);
    span = {at, at + span.size()};  // from here on a span of the array, not of the records
    at = span.end;
  }
  Nodes nodes = cut(line, at, canonical_nodes);
  std::vector<T> node;
  for (std::int64_t c = 0; c < canonical_nodes; ++c) {
    const std::int64_t begin = nodes.begin[static_cast<std::size_t>(c)];
    node.assign(ids + begin, ids + nodes.begin[static_cast<std::size_t>(c) + 1]);
    shuffle_spans_of_node(nodes, c, draws);
    T* to = ids + begin;
    for (std::int64_t s = nodes.first[static_cast<std::size_t>(c)]; s < nodes.first[static_cast<std::size_t>(c) + 1]; ++s) {
      const Span& part = nodes.spans[static_cast<std::size_t>(s)];
      std::copy_n(node.data() + (part.begin - begin), part.size(), to);
      shuffle(to, part.size(), draws);
      to += part.size();
    }
  }
}

}  // namespace

template <class T>
void shuffle(T* x, std::int64_t n, Pcg64& draws) {
  std::int64_t i = n - 1;
  for (; i > 0xffffffff; --i) std::swap(x[i], x[draws.interval(static_cast<std::uint64_t>(i))]);
  const auto near = static_cast<std::int64_t>(kFetchBytes / static_cast<std::int64_t>(sizeof(T)));
  if (i > near) i = shuffle_far(x, i, near, draws);
  shuffle_near(x, i, draws);
}

std::vector<std::int64_t> choose(std::int64_t n, std::int64_t k, Pcg64& draws) {
  auto shuffle_tail = [&draws](std::vector<std::int64_t>& x, std::int64_t stop) {
    for (auto i = static_cast<std::int64_t>(x.size()) - 1; i >= stop; --i)
      std::swap(x[static_cast<std::size_t>(i)], x[draws.bounded(static_cast<std::uint64_t>(i))]);
  };
  std::vector<std::int64_t> out;
  if (n > 10000 && k > n / 50) {
    out.resize(static_cast<std::size_t>(n));
    std::iota(out.begin(), out.end(), std::int64_t{0});
    shuffle_tail(out, std::max<std::int64_t>(n - k, 1));
    out.erase(out.begin(), out.end() - k);
    return out;
  }
  // Floyd's: the set is an open table of the values taken.
  out.reserve(static_cast<std::size_t>(k));
  const std::size_t slots = std::bit_ceil(static_cast<std::size_t>(2 * k + 1));
  std::vector<std::int64_t> table(slots, -1);
  auto add = [&table, slots](std::int64_t value) {
    std::size_t slot = static_cast<std::size_t>(value) & (slots - 1);
    while (table[slot] != -1 && table[slot] != value) slot = (slot + 1) & (slots - 1);
    const bool fresh = table[slot] == -1;
    table[slot] = value;
    return fresh;
  };
  for (std::int64_t j = n - k; j < n; ++j) {
    auto value = static_cast<std::int64_t>(draws.bounded(static_cast<std::uint64_t>(j)));
    if (!add(value)) add(value = j);
    out.push_back(value);
  }
  shuffle_tail(out, 1);
  return out;
}

template <class T>
void order(Name name, const std::int64_t* units, std::int64_t count, std::int64_t canonical_nodes, std::uint64_t seed,
           std::uint64_t epoch, Block block, T* ids) {
  Pcg64 run(seed), draws(seed + epoch);
  if (name == Name::naive) {
    const std::int64_t records = total(units, count);
    lay(ids, 0, records);
    shuffle(ids, records, draws);
  } else if (name == Name::py2s) {
    py2s(units, count, canonical_nodes, run, draws, ids);
  } else {
    py1_family(name, units, count, canonical_nodes, run, draws, block, ids);
  }
}

void widen(std::int64_t* out, std::int64_t n) {
  // Entry i is written over numbers 2i − n and 2i − n + 1, which have been read by then.
  const char* from = reinterpret_cast<const char*>(out) + n * 4;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int32_t value;
    std::memcpy(&value, from + i * 4, sizeof value);
    out[i] = value;
  }
}

void sample_shards(const std::int64_t* sizes, std::int64_t shards, std::int64_t chosen, std::int64_t granularity,
                   std::uint64_t seed, std::int64_t* counts) {
  const std::int64_t records = total(sizes, shards), passes = chosen / records;
  std::int64_t rest = chosen % records;
  std::vector<std::int64_t> first_pick(static_cast<std::size_t>(shards) + 1, 0);
  for (std::int64_t s = 0; s < shards; ++s) {
    counts[s] = sizes[s] * passes;
    first_pick[static_cast<std::size_t>(s) + 1] =
        first_pick[static_cast<std::size_t>(s)] + sizes[s] / granularity + (sizes[s] % granularity != 0);
  }
  if (rest == 0) return;
  auto walk = [&](auto* picks) {
    Pcg64 draws(seed);
    lay(picks, 0, first_pick.back());
    shuffle(picks, first_pick.back(), draws);
    for (; rest > 0; ++picks) {
      const auto after = std::upper_bound(first_pick.begin(), first_pick.end(), static_cast<std::int64_t>(*picks));
      const auto shard = after - first_pick.begin() - 1;
      // The last pick of a shard is what is left of it, except before an empty shard: there the peer overwrites it.
      const bool rump = *picks + 1 == *after && (shard + 1 == shards || sizes[shard + 1] > 0);
      const std::int64_t before = (*after - 1 - first_pick[static_cast<std::size_t>(shard)]) * granularity;
      const std::int64_t size = rump ? sizes[shard] - before : granularity;
      const std::int64_t taken = std::min(rest, size);
      counts[shard] += taken;
      rest -= taken;
    }
  };
  const auto picks = static_cast<std::size_t>(first_pick.back());
  if (first_pick.back() <= INT32_MAX)
    walk(std::make_unique_for_overwrite<std::int32_t[]>(picks).get());
  else
    walk(std::make_unique_for_overwrite<std::int64_t[]>(picks).get());
}

template <class T>
std::vector<std::int64_t> sample_records(const std::int64_t* starts, const std::int64_t* sizes,
                                         const std::int64_t* counts, std::int64_t shards, std::uint64_t seed,
                                         T* records) {
  Pcg64 draws(seed);
  std::vector<std::int64_t> units;
  for (std::int64_t s = 0; s < shards; ++s) {
    if (sizes[s] == 0) continue;
    const std::int64_t rest = counts[s] % sizes[s];
    for (std::int64_t pass = 0; pass < counts[s] / sizes[s]; ++pass) {
      lay(records, starts[s], starts[s] + sizes[s]);
      records += sizes[s];
      units.push_back(sizes[s]);
    }
    if (rest == 0) continue;
    std::vector<std::int64_t> picked = choose(sizes[s], rest, draws);
    std::sort(picked.begin(), picked.end());
    for (const std::int64_t place : picked) *records++ = static_cast<T>(starts[s] + place);
    units.push_back(rest);
  }
  return units;
}

template <class T, class Out>
void deal(const Deal& how, const T* ids, const T* records_of, Out* out, int threads) {
  const std::int64_t nodes = how.canonical_nodes, k = how.per_node(), per_rank = how.per_rank();
  const std::int64_t under = per_rank * how.ranks - k;
  const bool repeats_tail = how.ranks + under - 1 <= k;
  const std::int64_t short_of = (how.records + nodes - 1) / nodes;  // records of the longest rows
  std::vector<std::int64_t> begin(static_cast<std::size_t>(nodes) + 1);
  for (std::int64_t c = 0; c <= nodes; ++c) begin[static_cast<std::size_t>(c)] = scaled(how.records, c, nodes);

  auto row_entry = [&](std::int64_t c, std::int64_t place) {  // the careful one
    if (how.tiled) return (c * how.row + place) % how.records;
    if (place >= how.filled) place = how.pads[place - how.filled];
    const std::int64_t start = begin[static_cast<std::size_t>(c)];
    const bool lacks_one = begin[static_cast<std::size_t>(c) + 1] - start < short_of;
    return start + place - (lacks_one && place == short_of - 1);
  };
  auto record = [&](std::int64_t position) -> std::int64_t {
    if (ids != nullptr) position = ids[position];
    return records_of != nullptr ? records_of[position] : position;
  };

  const std::int64_t stride = how.nodes * how.ranks;
  const std::int64_t stride_node = stride % nodes, stride_place = stride / nodes;
  const std::int64_t plain = how.tiled ? 0 : short_of - 1;  // places that need no care
  const std::int64_t batches_per_worker = how.batches_per_worker(), batches = batches_per_worker * how.workers;
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 16) / how.batch);
  parallel_for(how.nodes * how.ranks * batches, threads, grain, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t b = from; b < to; ++b) {
      const std::int64_t device = b / batches, number = b % batches;
      const std::int64_t node = device / how.ranks, rank = device % how.ranks;
      Out* at = out + ((device * how.workers + number % how.workers) * batches_per_worker + number / how.workers) * how.batch;
      const std::int64_t first = number * how.batch;  // of the rank's list
      // Entries of this batch whose turn in the node's list comes before its end.
      const std::int64_t sure = std::clamp<std::int64_t>((k - rank + how.ranks - 1) / how.ranks - first, 0, how.batch);
      const std::int64_t position = how.drop_first + node + how.nodes * (rank + how.ranks * first);
      std::int64_t c = position % nodes, place = position / nodes;
      for (std::int64_t q = 0; q < sure; ++q) {
        at[q] = static_cast<Out>(record(place < plain ? begin[static_cast<std::size_t>(c)] + place : row_entry(c, place)));
        c += stride_node;
        place += stride_place;
        if (c >= nodes) {
          c -= nodes;
          ++place;
        }
      }
      for (std::int64_t q = sure; q < how.batch; ++q) {
        if (first + q >= per_rank) {
          at[q] = -1;
          continue;
        }
        std::int64_t turn = rank + how.ranks * (first + q);  // beyond the node's list
        turn = repeats_tail ? turn - how.ranks - under + 1 : turn % k;
        const std::int64_t p = how.drop_first + node + how.nodes * turn;
        at[q] = static_cast<Out>(record(row_entry(p % nodes, p / nodes)));
      }
    }
  });
}

template <class T>
void find_table(const T* order, std::int64_t positions, std::int64_t records, T* starts, T* found) {
  std::fill(starts, starts + records + 1, T{0});
  for (std::int64_t t = 0; t < positions; ++t) ++starts[order[t] + 1];
  for (std::int64_t r = 0; r < records; ++r) starts[r + 1] += starts[r];
  // The starts walk to the next record's while its positions are written, from the last to the first, and back.
  for (std::int64_t t = positions; t-- > 0;) found[--starts[order[t] + 1]] = static_cast<T>(t);
  std::copy(starts + 1, starts + records + 1, starts);
  starts[records] = static_cast<T>(positions);
}

template void shuffle(std::int32_t*, std::int64_t, Pcg64&);
template void shuffle(std::int64_t*, std::int64_t, Pcg64&);
template void order(Name, const std::int64_t*, std::int64_t, std::int64_t, std::uint64_t, std::uint64_t, Block, std::int32_t*);
template void order(Name, const std::int64_t*, std::int64_t, std::int64_t, std::uint64_t, std::uint64_t, Block, std::int64_t*);
template std::vector<std::int64_t> sample_records(const std::int64_t*, const std::int64_t*, const std::int64_t*,
                                                  std::int64_t, std::uint64_t, std::int32_t*);
template std::vector<std::int64_t> sample_records(const std::int64_t*, const std::int64_t*, const std::int64_t*,
                                                  std::int64_t, std::uint64_t, std::int64_t*);
template void deal(const Deal&, const std::int32_t*, const std::int32_t*, std::int32_t*, int);
template void deal(const Deal&, const std::int32_t*, const std::int32_t*, std::int64_t*, int);
template void deal(const Deal&, const std::int64_t*, const std::int64_t*, std::int64_t*, int);
template void find_table(const std::int32_t*, std::int64_t, std::int64_t, std::int32_t*, std::int32_t*);
template void find_table(const std::int64_t*, std::int64_t, std::int64_t, std::int64_t*, std::int64_t*);

}  // namespace tombola::mosaic
