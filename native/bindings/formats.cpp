#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "digest.hpp"
#include "gather.hpp"
#include "mds.hpp"
#include "search.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using tombola::MdsView;

namespace {

using Data = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Sizes = std::vector<std::int64_t>;
constexpr std::int64_t kRatherKeep = std::int64_t{1} << 19;  // halvings, about half a millisecond
constexpr int kNotNative = -1;  // other shards, or other columns: the caller reads them one by one

// A shard's bytes, which it keeps alive, and the sizes of its columns.
struct MdsShard {
  Data data;
  Sizes sizes;
  std::uint64_t schema;  // a hash of the columns' names and encodings, which sizes alone do not tell apart
  MdsView view;

  MdsShard(Data given, Sizes column_sizes, std::uint64_t columns)
      : data(std::move(given)), sizes(std::move(column_sizes)), schema(columns) {
    if (!MdsView::open(data.data(), data.shape(0), view)) throw std::invalid_argument("the header is cut short");
    for (const std::int64_t size : sizes) {
      if (size < -1 || size > 0xFFFFFFFFll) throw std::invalid_argument("a column's size is out of range");
    }
  }
};

// Memory of batches that were let go, for those to come.
struct SharedPool {
  std::shared_ptr<tombola::Pool> pool;
  explicit SharedPool(std::uint64_t bytes_max) : pool(std::make_shared<tombola::Pool>(bytes_max)) {}
};

// (fault, row, (bytes, offsets or None) of each column)
using Gathered = std::tuple<int, std::int64_t, std::vector<std::pair<nb::object, nb::object>>>;

// The shards of a batch, asked of a mapping (or sequence) once each and held until the batch is read. Only finding the
// distinct numbers and asking need the GIL; with a row for each record of megabytes, that is a small part of the work.
class Held {
 public:
  Held(const std::int64_t* numbers, std::size_t rows) {
    const auto [least, most] = std::minmax_element(numbers, numbers + rows);
    if (*least < 0) throw nb::index_error("a negative shard number");
    first_ = *least;
    // In lanes each row comes from another shard than the one before it: looking up must cost next to nothing.
    const auto spread = static_cast<std::uint64_t>(*most - *least) + 1;
    if (spread <= 4 * rows + 1024) {
      near_.assign(spread, kUnseen);
      for (std::size_t row = 0; row < rows; ++row) {
        std::int32_t& slot = near_[static_cast<std::size_t>(numbers[row] - first_)];
        if (slot == kUnseen) slot = add(numbers[row], row);
      }
    } else {
      for (std::size_t row = 0; row < rows; ++row) {
        const auto [at, fresh] = far_.try_emplace(numbers[row], kUnseen);
        if (fresh) at->second = add(numbers[row], row);
      }
    }
  }

  // Asks for all of them, in the order of their first rows. The first row of a shard that is no MDS shard, or has other
  // columns than the first one; -1 without.
  std::int64_t ask(nb::handle shards) {
    for (One& one : found_) {
      nb::object shard = nb::getattr(shards[nb::int_(one.number)], "native");
      if (!nb::isinstance<MdsShard>(shard)) return one.row;
      one.shard = &nb::cast<const MdsShard&>(shard);
      alive_.push_back(std::move(shard));
      if (one.shard->schema != first().schema || one.shard->sizes != first().sizes) return one.row;
    }
    return -1;
  }

  const MdsShard& first() const { return *found_.front().shard; }

  const MdsShard& of(std::int64_t number) const {
    const std::int32_t slot = near_.empty() ? far_.find(number)->second : near_[static_cast<std::size_t>(number - first_)];
    return *found_[static_cast<std::size_t>(slot)].shard;
  }

 private:
  static constexpr std::int32_t kUnseen = -1;
  struct One {
    std::int64_t number, row;
    const MdsShard* shard;
  };

  std::int32_t add(std::int64_t number, std::size_t row) {
    found_.push_back({number, static_cast<std::int64_t>(row), nullptr});
    return static_cast<std::int32_t>(found_.size() - 1);
  }

  std::int64_t first_ = 0;
  std::vector<One> found_;
  std::vector<std::int32_t> near_;  // number - first_ → place in found_
  std::unordered_map<std::int64_t, std::int32_t> far_;
  std::vector<nb::object> alive_;
};

// An array that owns its memory.
template <class T>
nb::object give(tombola::Block block) {
  const std::size_t count = block.bytes() / sizeof(T);
  auto owned = std::make_unique<tombola::Block>(std::move(block));
  T* data = owned->as<T>();
  nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<tombola::Block*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {count}, owner));
}

Gathered gather(nb::handle shards, In numbers, In records, Sizes wanted, int threads, const SharedPool* pool) {
  const std::size_t rows = numbers.shape(0);
  if (records.shape(0) != rows) throw std::invalid_argument("shard numbers and records differ in length");
  if (rows == 0) throw std::invalid_argument("no row was asked for");
  if (rows > INT32_MAX) throw std::invalid_argument("more rows than one call takes");
  Held held(numbers.data(), rows);
  const std::int64_t other = held.ask(shards);
  if (other >= 0) return {kNotNative, other, {}};
  const MdsShard* first = &held.first();
  for (const std::int64_t w : wanted) {
    if (w < 0 || w >= static_cast<std::int64_t>(first->sizes.size())) throw std::invalid_argument("no such column");
  }
  std::vector<tombola::GatheredColumn> columns;
  tombola::GatherFault fault;
  {
    nb::gil_scoped_release unlocked;
    tombola::Pool* memory = pool == nullptr ? nullptr : pool->pool.get();
    const tombola::Block rows_block = tombola::Block::of(rows * sizeof(tombola::Row), memory);
    const std::span<tombola::Row> asked(rows_block.as<tombola::Row>(), rows);
    const std::int64_t *shard = numbers.data(), *record = records.data();
    for (std::size_t row = 0; row < rows; ++row) asked[row] = {&held.of(shard[row]).view, record[row]};
    fault = tombola::gather(asked, first->sizes, wanted, threads, memory, columns);
  }
  std::vector<std::pair<nb::object, nb::object>> out;
  for (auto& column : columns) {
    const bool ragged = column.offsets.data() != nullptr;
    nb::object offsets = ragged ? give<std::int64_t>(std::move(column.offsets)) : nb::object(nb::none());
    out.emplace_back(give<std::uint8_t>(std::move(column.data)), std::move(offsets));
  }
  return {static_cast<int>(fault.fault), fault.row, std::move(out)};
}

// (shard of each record, place in the shard, the distinct shards in ascending order)
using Located = std::tuple<nb::object, nb::object, nb::object>;

Located locate(In starts, In records) {
  const auto count = static_cast<std::int64_t>(records.shape(0));
  const auto shards = static_cast<std::int64_t>(starts.shape(0)) - 1;
  if (shards < 1 || starts.data()[0] != 0) throw std::invalid_argument("the starts of shards begin with 0");
  tombola::check_below(records.data(), count, starts.data()[shards], "record");
  const auto bytes = static_cast<std::uint64_t>(count) * 8;
  tombola::Block shard_block = tombola::Block::of(bytes, nullptr), place_block = tombola::Block::of(bytes, nullptr);
  std::vector<std::int64_t> distinct;
  const auto work = [&] {
    const std::int64_t *from = records.data(), *begins = starts.data();
    auto *shard = shard_block.as<std::int64_t>(), *place = place_block.as<std::int64_t>();
    for (std::int64_t row = 0; row < count; ++row) {
      shard[row] = tombola::last_not_above(begins, shards, from[row]);
      place[row] = from[row] - begins[shard[row]];
    }
    // Marks are faster than a sort where the shards are not many times the rows.
    if (shards <= 16 * count) {
      std::vector<std::uint8_t> marks(static_cast<std::size_t>(shards), 0);
      for (std::int64_t row = 0; row < count; ++row) marks[static_cast<std::size_t>(shard[row])] = 1;
      for (std::int64_t one = 0; one < shards; ++one) {
        if (marks[static_cast<std::size_t>(one)] != 0) distinct.push_back(one);
      }
    } else {
      distinct.assign(shard, shard + count);
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    }
  };
  // A short look-up keeps the GIL: to take it back from a loop that is busy with batches may last as long as cutting
  // those of a whole slab, and the gather that follows lets the loop run anyway.
  if (count * std::bit_width(static_cast<std::uint64_t>(shards)) < kRatherKeep) {
    work();
  } else {
    nb::gil_scoped_release unlocked;
    work();
  }
  tombola::Block found = tombola::Block::of(distinct.size() * 8, nullptr);
  std::copy(distinct.begin(), distinct.end(), found.as<std::int64_t>());
  return {give<std::int64_t>(std::move(shard_block)), give<std::int64_t>(std::move(place_block)),
          give<std::int64_t>(std::move(found))};
}

}  // namespace

void bind_formats(nb::module_& m) {
  m.def(
      "digest",
      [](Data data) {
        std::array<std::uint64_t, 2> words;
        {
          nb::gil_scoped_release unlocked;
          words = tombola::digest(data.data(), data.shape(0));
        }
        return std::make_pair(words[0], words[1]);
      },
      "data"_a, "A digest of bytes as two 64-bit words, against accidents.");

  nb::class_<MdsShard>(m, "MdsShard", "The bytes of an MDS shard and the sizes of its columns, -1 for variable ones.")
      .def(nb::init<Data, Sizes, std::uint64_t>(), "data"_a, "sizes"_a, "schema"_a)
      .def_prop_ro("records", [](const MdsShard& shard) { return shard.view.records; });

  nb::class_<SharedPool>(m, "Pool", "Keeps so many bytes of memory of batches that were let go, for those to come.")
      .def(nb::init<std::uint64_t>(), "bytes_max"_a)
      .def_prop_ro("nbytes", [](const SharedPool& shared) { return shared.pool->bytes(); });

  m.def("locate", &locate, "starts"_a, "records"_a,
        "(shard of each record, its place in the shard, the distinct shards, ascending).");

  m.def("gather", &gather, "shards"_a, "numbers"_a, "records"_a, "wanted"_a, "threads"_a, "pool"_a.none() = nb::none(),
        "(fault, row, [(bytes, offsets or None), …]): the wanted columns of records of the shards by number.");
}
