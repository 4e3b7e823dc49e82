// Gathering out of MDS shards, sound and damaged. Shards lie in memory of exactly their size, so that the sanitizers
// see any byte that is read beyond them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "digest.hpp"
#include "gather.hpp"
#include "keys.hpp"
#include "mds.hpp"

using tombola::Fault;
using tombola::MdsView;
using Bytes = std::vector<std::uint8_t>;

namespace {

// Two variable columns round one of four bytes, and one of a single byte.
const std::vector<std::int64_t> kSizes{-1, 4, -1, 1};

void append32(Bytes& to, std::uint64_t value) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<std::uint8_t>(value >> shift));
}

std::string text(std::uint64_t record, std::uint64_t column) {
  return std::string(tombola::word(record, column) % 9, static_cast<char>('a' + record % 26));
}

Bytes shard_of(std::uint64_t records) {
  const std::string config = "{}";
  Bytes body;
  std::vector<std::uint64_t> ends;
  for (std::uint64_t r = 0; r < records; ++r) {
    const std::string first = text(r, 0), second = text(r, 1);
    append32(body, first.size());
    append32(body, second.size());
    body.insert(body.end(), first.begin(), first.end());
    append32(body, r);
    body.insert(body.end(), second.begin(), second.end());
    body.push_back(static_cast<std::uint8_t>(r));
    ends.push_back(body.size());
  }
  Bytes shard;
  const std::uint64_t begin = MdsView::header(records) + config.size();
  append32(shard, records);
  append32(shard, begin);
  for (const std::uint64_t end : ends) append32(shard, begin + end);
  shard.insert(shard.end(), config.begin(), config.end());
  shard.insert(shard.end(), body.begin(), body.end());
  return shard;
}

struct Exact {
  std::unique_ptr<std::uint8_t[]> data;
  MdsView view;
  bool opened;

  explicit Exact(const Bytes& bytes) : data(new std::uint8_t[bytes.size()]) {
    if (!bytes.empty()) std::memcpy(data.get(), bytes.data(), bytes.size());
    opened = MdsView::open(data.get(), bytes.size(), view);
  }
};

}  // namespace

TEST_CASE("a gather gives the records asked for, with any threads, in memory that is used again or not") {
  const auto kept = std::make_shared<tombola::Pool>(std::uint64_t{1} << 20);
  const std::uint64_t records = 5000;
  const Exact one(shard_of(records)), other(shard_of(7));
  REQUIRE(one.opened);
  REQUIRE(other.opened);
  for (const std::size_t count : {std::size_t{1}, std::size_t{64}, std::size_t{20000}}) {
    std::vector<tombola::Row> rows(count);
    for (std::size_t row = 0; row < count; ++row) {
      const bool first = tombola::word(1, row) % 4 != 0;
      rows[row] = {first ? &one.view : &other.view,
                   static_cast<std::int64_t>(tombola::word(2, row) % (first ? records : 7))};
    }
    for (const int threads : {1, 4, 3}) {
      const auto pool = threads == 1 ? nullptr : kept;
      std::vector<tombola::GatheredColumn> columns;
      const std::vector<std::int64_t> wanted{2, 1, 0, 2};
      const auto fault = tombola::gather(rows, kSizes, wanted, threads, pool.get(), columns);
      REQUIRE(fault.fault == Fault::none);
      REQUIRE(columns.size() == 4);
      REQUIRE(columns[1].offsets.data() == nullptr);
      for (std::size_t row = 0; row < count; ++row) {
        const auto record = static_cast<std::uint64_t>(rows[row].record);
        REQUIRE(tombola::load32(columns[1].data.data() + 4 * row) == record);
        for (const std::size_t column : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
          const auto& c = columns[column];
          const auto* offsets = c.offsets.as<std::int64_t>();
          const std::string found(c.data.as<const char>() + offsets[row],
                                  static_cast<std::size_t>(offsets[row + 1] - offsets[row]));
          REQUIRE(found == text(record, column == 2 ? 0 : 1));
        }
      }
    }
  }
}

TEST_CASE("with one variable column, or none, the sizes follow from the offsets, and lies are found") {
  const std::vector<std::int64_t> one{-1, 4}, none{4, 4};
  const auto shard_with = [](std::uint64_t records, std::uint64_t said) {
    Bytes shard, body;
    const std::uint64_t begin = MdsView::header(records);
    append32(shard, records);
    append32(shard, begin);
    for (std::uint64_t r = 0; r < records; ++r) {
      append32(body, r == 7 ? said : 0);  // the length of column 0, or the column itself where it has four bytes
      append32(body, r);
      append32(shard, begin + body.size());
    }
    shard.insert(shard.end(), body.begin(), body.end());
    return shard;
  };
  for (const std::uint64_t said : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{0xFFFFFFFF}}) {
    const Exact shard(shard_with(9000, said));
    REQUIRE(shard.opened);
    std::vector<tombola::Row> rows;
    for (std::int64_t row = 0; row < 9000; ++row) rows.push_back({&shard.view, 8999 - row});
    for (const int threads : {1, 3}) {
      std::vector<tombola::GatheredColumn> columns;
      const std::vector<std::int64_t> wanted{1, 0};
      CHECK(tombola::gather(rows, none, wanted, threads, nullptr, columns).fault == Fault::none);
      REQUIRE(columns.size() == 2);
      CHECK(tombola::load32(columns[0].data.data() + 4 * 5) == 8994);
      const auto fault = tombola::gather(rows, one, wanted, threads, nullptr, columns);
      CHECK(fault.fault == (said == 0 ? Fault::none : Fault::lengths));
      CHECK(fault.row == (said == 0 ? -1 : 8992));
      CHECK(columns.size() == (said == 0 ? 2 : 0));
    }
  }
}

TEST_CASE("a pool keeps no more than its bound and gives back what was let go last") {
  const auto pool = std::make_shared<tombola::Pool>(10000);
  const std::uint8_t* first = nullptr;
  {
    auto block = tombola::Block::of(3000, pool.get());
    first = block.data();
    block.data()[2999] = 1;
  }
  const auto kept = pool->bytes();
  CHECK(kept >= 3000);
  CHECK(kept <= 3000 * 9 / 8);
  {
    const auto again = tombola::Block::of(2990, pool.get());
    CHECK(again.data() == first);
    CHECK(pool->bytes() == 0);
    const auto other = tombola::Block::of(3000, pool.get());
    CHECK(other.data() != first);
    std::vector<tombola::Block> many;
    for (int piece = 0; piece < 20; ++piece) many.push_back(tombola::Block::of(100 * static_cast<std::uint64_t>(piece), pool.get()));
    many.push_back(tombola::Block::of(20000, pool.get()));
  }
  CHECK(pool->bytes() <= 10000);
  CHECK(pool->bytes() > 5000);
  tombola::Block outlives;
  {
    const auto brief = std::make_shared<tombola::Pool>(1000);
    outlives = tombola::Block::of(100, brief.get());
  }
  outlives.data()[99] = 1;
}

TEST_CASE("a fault is that of the first row that has one, with any threads") {
  const Exact shard(shard_of(100));
  std::vector<tombola::Row> rows(20000, {&shard.view, 3});
  rows[19000].record = rows[9000].record = rows[15000].record = 100;
  for (const int threads : {1, 2, 5}) {
    std::vector<tombola::GatheredColumn> columns;
    const auto fault = tombola::gather(rows, kSizes, std::vector<std::int64_t>{0}, threads, nullptr, columns);
    CHECK(fault.fault == Fault::no_record);
    CHECK(fault.row == 9000);
  }
}

TEST_CASE("damaged shards give faults or values, and nothing is read beyond them") {
  const Bytes sound = shard_of(30);
  std::uint64_t turn = 0;
  int faults = 0;
  const auto read_all = [&faults](const Bytes& bytes) {
    const Exact shard(bytes);
    if (!shard.opened) return;
    for (std::int64_t record = -1; record < 40; ++record) {
      std::vector<tombola::GatheredColumn> columns;
      const std::vector<tombola::Row> rows{{&shard.view, record}};
      const auto fault = tombola::gather(rows, kSizes, std::vector<std::int64_t>{0, 1, 2, 3}, 1, nullptr, columns);
      faults += fault.fault != Fault::none;
    }
  };
  for (std::size_t size = 0; size <= sound.size(); ++size) {
    read_all(Bytes(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size)));
  }
  for (int round = 0; round < 3000; ++round) {
    Bytes damaged = sound;
    const std::uint64_t changes = 1 + tombola::word(3, turn++) % 3;
    for (std::uint64_t change = 0; change < changes; ++change) {
      const std::uint64_t place = tombola::word(3, turn++), value = tombola::word(3, turn++);
      damaged[place % damaged.size()] = value % 3 == 0 ? 0xFF : static_cast<std::uint8_t>(value >> 8);
    }
    read_all(damaged);
  }
  CHECK(faults > 1000);
}

TEST_CASE("the digest changes with every byte and with the length") {
  std::vector<std::uint64_t> seen;
  for (std::size_t size = 0; size < 200; ++size) {
    const Bytes bytes(size, 0);
    seen.push_back(tombola::digest(bytes.data(), bytes.size())[0]);
  }
  Bytes bytes(200, 0);
  for (auto& byte : bytes) {
    byte = 1;
    seen.push_back(tombola::digest(bytes.data(), bytes.size())[0]);
    byte = 0;
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
}
