#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <memory>
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

// (fault, row, (bytes, offsets or None) of each column)
using Gathered = std::tuple<int, std::int64_t, std::vector<std::pair<nb::object, nb::object>>>;

// The shards of a batch, asked of a mapping (or sequence) once each and held until the batch is read.
class Held {
 public:
  explicit Held(nb::handle shards) : shards_(shards) {}

  // None for a shard that is no MDS shard.
  const MdsShard* get(std::int64_t number) {
    const auto found = known_.find(number);
    if (found != known_.end()) return found->second;
    if (number < 0) throw nb::index_error("a negative shard number");
    nb::object shard = nb::getattr(shards_[nb::int_(number)], "native");
    const MdsShard* native = nullptr;
    if (nb::isinstance<MdsShard>(shard)) native = &nb::cast<const MdsShard&>(shard);
    alive_.push_back(std::move(shard));
    known_.emplace(number, native);
    return native;
  }

 private:
  nb::handle shards_;
  std::unordered_map<std::int64_t, const MdsShard*> known_;
  std::vector<nb::object> alive_;
};

template <class T>
nb::object give(std::unique_ptr<T[]> values, std::size_t count) {
  T* data = values.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {count}, owner));
}

Gathered gather(nb::handle shards, In numbers, In records, Sizes wanted, int threads) {
  const std::size_t rows = numbers.shape(0);
  if (records.shape(0) != rows) throw std::invalid_argument("shard numbers and records differ in length");
  if (rows == 0) throw std::invalid_argument("no row was asked for");
  Held held(shards);
  std::vector<tombola::Row> asked(rows);
  const MdsShard* shard = nullptr;
  const MdsShard* first = held.get(numbers.data()[0]);
  for (std::size_t row = 0; row < rows; ++row) {
    if (row == 0 || numbers.data()[row] != numbers.data()[row - 1]) {
      shard = held.get(numbers.data()[row]);
      if (shard == nullptr || shard->schema != first->schema || shard->sizes != first->sizes) {
        return {kNotNative, static_cast<std::int64_t>(row), {}};
      }
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
    fault = tombola::gather(asked, first->sizes, wanted, threads, columns);
  }
  std::vector<std::pair<nb::object, nb::object>> out;
  for (auto& column : columns) {
    const std::size_t bytes = column.data.bytes;
    nb::object data = give(std::move(column.data.data), bytes);
    nb::object offsets = column.offsets ? give(std::move(column.offsets), rows + 1) : nb::object(nb::none());
    out.emplace_back(std::move(data), std::move(offsets));
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

  m.def("gather", &gather, "shards"_a, "numbers"_a, "records"_a, "wanted"_a, "threads"_a,
        "(fault, row, [(bytes, offsets or None), …]): the wanted columns of records of the shards by number.");
}
