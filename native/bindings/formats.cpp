#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "digest.hpp"
#include "gather.hpp"
#include "mds.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using tombola::MdsView;

namespace {

using Data = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using In = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Sizes = std::vector<std::int64_t>;
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

// The shards of a batch, asked of a mapping (or sequence) once each and held until the batch is read.
class Held {
 public:
  Held(nb::handle shards, const std::int64_t* numbers, std::size_t rows) : shards_(shards) {
    const auto [least, most] = std::minmax_element(numbers, numbers + rows);
    if (*least < 0) throw nb::index_error("a negative shard number");
    first_ = *least;
    // In lanes each row comes from another shard than the one before it: looking up must cost next to nothing.
    const auto spread = static_cast<std::uint64_t>(*most - *least) + 1;
    if (spread <= 4 * rows + 1024) near_.assign(spread, nullptr);
  }

  // None for a shard that is no MDS shard.
  const MdsShard* get(std::int64_t number) {
    if (!near_.empty()) {
      const MdsShard*& found = near_[static_cast<std::size_t>(number - first_)];
      return found != nullptr ? found : found = ask(number);
    }
    const auto found = far_.find(number);
    return found != far_.end() ? found->second : far_.emplace(number, ask(number)).first->second;
  }

 private:
  const MdsShard* ask(std::int64_t number) {
    nb::object shard = nb::getattr(shards_[nb::int_(number)], "native");
    if (!nb::isinstance<MdsShard>(shard)) return nullptr;
    alive_.push_back(std::move(shard));
    return &nb::cast<const MdsShard&>(alive_.back());
  }

  nb::handle shards_;
  std::int64_t first_ = 0;
  std::vector<const MdsShard*> near_;
  std::unordered_map<std::int64_t, const MdsShard*> far_;
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
  Held held(shards, numbers.data(), rows);
  tombola::Pool* memory = pool == nullptr ? nullptr : pool->pool.get();
  const tombola::Block rows_block = tombola::Block::of(rows * sizeof(tombola::Row), memory);
  const std::span<tombola::Row> asked(rows_block.as<tombola::Row>(), rows);
  const MdsShard* first = held.get(numbers.data()[0]);
  if (first == nullptr) return {kNotNative, 0, {}};
  for (std::size_t row = 0; row < rows; ++row) {
    const MdsShard* shard = held.get(numbers.data()[row]);
    if (shard != first && (shard == nullptr || shard->schema != first->schema || shard->sizes != first->sizes)) {
      return {kNotNative, static_cast<std::int64_t>(row), {}};
    }
    asked[row] = {&shard->view, records.data()[row]};
  }
  for (const std::int64_t w : wanted) {
    if (w < 0 || w >= static_cast<std::int64_t>(first->sizes.size())) throw std::invalid_argument("no such column");
  }
  std::vector<tombola::GatheredColumn> columns;
  tombola::GatherFault fault;
  {
    nb::gil_scoped_release unlocked;
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

  m.def("gather", &gather, "shards"_a, "numbers"_a, "records"_a, "wanted"_a, "threads"_a, "pool"_a.none() = nb::none(),
        "(fault, row, [(bytes, offsets or None), …]): the wanted columns of records of the shards by number.");
}
