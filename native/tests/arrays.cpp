// The array shuffles without Python: the golden vectors by every way, rows of any size and distance, threads, stops.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "arrays_exact.hpp"
#include "arrays_file.hpp"
#include "arrays_follow.hpp"
#include "arrays_pov.hpp"
#include "keys.hpp"

using nlohmann::json;
using tombola::PovSteps;
using tombola::Stop;
using tombola::Strided;
using tombola::Tuning;
using Ints = std::vector<std::int64_t>;

extern std::string vectors_folder;

namespace {

json array_cases() {
  std::ifstream file(vectors_folder + "/arrays.json");
  REQUIRE_MESSAGE(file.good(), "cannot read ", vectors_folder, "/arrays.json");
  return json::parse(file).at("cases");
}

PovSteps steps_of(const json& c) {
  const json& s = c["steps"];
  return {s["iterations"].get<int>(), s["virtual_block_size"].get<std::uint64_t>(),
          s["physical_block_size"].get<std::uint64_t>(), s["offsets"].get<std::vector<std::uint64_t>>()};
}

// Rows that begin with their number and go on with a pattern of it, `gap` bytes apart.
class Numbered {
 public:
  Numbered(std::uint64_t n, std::uint64_t bytes, std::uint64_t gap) : n_(n), bytes_(bytes), step_(bytes + gap) {
    data_.assign(n * step_, std::byte{0xEE});
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t k = 0; k < bytes; ++k) data_[i * step_ + k] = pattern(i, k);
    }
  }
  const std::vector<std::byte>& data() const { return data_; }
  std::vector<std::byte>& data() { return data_; }
  Strided view() { return {data_.data(), static_cast<std::int64_t>(step_), bytes_, {}}; }
  Strided backwards() { return {data_.data() + (n_ - 1) * step_, -static_cast<std::int64_t>(step_), bytes_, {}}; }
  std::int64_t number(std::uint64_t i) const {
    std::int64_t value = 0;
    std::memcpy(&value, data_.data() + i * step_, std::min<std::uint64_t>(bytes_, 8));
    return value;
  }
  // No row is torn, nothing between the rows is touched.
  bool whole() const {
    for (std::uint64_t i = 0; i < n_; ++i) {
      const auto row = static_cast<std::uint64_t>(number(i));
      for (std::uint64_t k = 0; k < step_; ++k) {
        if (data_[i * step_ + k] != (k < bytes_ ? pattern(row, k) : std::byte{0xEE})) return false;
      }
    }
    return true;
  }
  bool is_permutation() const {
    std::vector<bool> seen(n_, false);
    for (std::uint64_t i = 0; i < n_; ++i) {
      const auto row = static_cast<std::uint64_t>(number(i));
      if (row >= n_ || seen[row]) return false;
      seen[row] = true;
    }
    return whole();
  }

 private:
  static std::byte pattern(std::uint64_t row, std::uint64_t k) {
    return static_cast<std::byte>(k < 8 ? row >> (8 * k) : row * 31 + k);
  }
  std::uint64_t n_, bytes_, step_;
  std::vector<std::byte> data_;
};

// A file that is gone when it is closed, holding the data after some bytes.
class TemporaryFile {
 public:
  TemporaryFile(const std::vector<std::byte>& data, std::uint64_t skip) : file_(std::tmpfile()) {
    REQUIRE(file_ != nullptr);
    REQUIRE(::pwrite(number(), data.data(), data.size(), static_cast<off_t>(skip)) == static_cast<ssize_t>(data.size()));
  }
  ~TemporaryFile() { std::fclose(file_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  int number() const { return fileno(file_); }
  std::vector<std::byte> read(std::uint64_t skip, std::size_t bytes) const {
    std::vector<std::byte> data(bytes);
    REQUIRE(::pread(number(), data.data(), bytes, static_cast<off_t>(skip)) == static_cast<ssize_t>(bytes));
    return data;
  }

 private:
  std::FILE* file_;
};

Ints exact(std::uint64_t n, std::uint64_t key, int threads, const Tuning& tuning = {}) {
  Ints out(n);
  tombola::exact_permutation(out.data(), n, key, threads, {}, tuning);
  return out;
}

const Tuning kSmall{40, 20, 3, 4, 30, 8, 64, 16 << 20, 16};

}  // namespace

TEST_CASE("array shuffles are those of the vectors") {
  int seen = 0;
  for (const json& c : array_cases()) {
    CAPTURE(c["method"].dump());
    CAPTURE(c["n"].dump());
    const auto n = c["n"].get<std::uint64_t>();
    const std::uint64_t key = std::stoull(c["key"].get<std::string>(), nullptr, 16);
    Ints rows(n);
    std::iota(rows.begin(), rows.end(), 0);
    if (c["method"] == "exact") tombola::exact_permutation(rows.data(), n, key, 2, {});
    else if (c["method"] == "exact_gpu1") tombola::gpu1_permutation(rows.data(), n, key, {});
    else tombola::pov_arrays({{reinterpret_cast<std::byte*>(rows.data()), 8, 8, {}}}, n, key, steps_of(c), 2, {});
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < n; ++i) sum += (i + 1) * static_cast<std::uint64_t>(rows[i]);
    CHECK(sum == c["checksum"].get<std::uint64_t>());
    const Ints inputs = c["inputs"].get<Ints>(), outputs = c["outputs"].get<Ints>();
    for (std::size_t i = 0; i < inputs.size(); ++i) CHECK(rows[static_cast<std::size_t>(inputs[i])] == outputs[i]);
    ++seen;
  }
  CHECK(seen > 80);
}

TEST_CASE("rows of any size and distance get the same permutation, with any threads") {
  for (const std::uint64_t n : {2u, 7u, 500u, 3000u}) {
    const Ints wanted = exact(n, n, 1, kSmall);
    for (const std::uint64_t bytes : {2u, 4u, 8u, 13u, 16u, 64u, 128u, 300u, 600u}) {
      for (const std::uint64_t gap : {0u, 5u}) {
        for (const int threads : {1, 3}) {
          for (const std::uint64_t follow_from : {std::uint64_t{1}, std::uint64_t{256}}) {
            CAPTURE(bytes);
            CAPTURE(gap);
            CAPTURE(follow_from);
            Numbered rows(n, bytes, gap), reversed(n, bytes, gap);
            CHECK(tombola::exact_arrays({rows.view()}, n, n, threads, {}, follow_from, kSmall));
            CHECK(rows.whole());
            CHECK(tombola::exact_arrays({reversed.backwards()}, n, n, threads, {}, follow_from, kSmall));
            CHECK(reversed.whole());
            bool same = true;
            for (std::uint64_t i = 0; i < n; ++i) {
              same = same && rows.number(i) == wanted[i];
              same = same && static_cast<std::int64_t>(n) - 1 - reversed.number(n - 1 - i) == wanted[i];
            }
            CHECK(same);
          }
        }
      }
    }
  }
}

TEST_CASE("large rows are shared by columns") {
  for (const int threads : {1, 2, 5}) {
    Numbered rows(70, 65'600, 0);
    CHECK(tombola::exact_arrays({rows.view()}, 70, 3, threads, {}, 256));
    CHECK(rows.is_permutation());
    CHECK(rows.number(7) == exact(70, 3, 1)[7]);
  }
}

TEST_CASE("a larger array with several tasks, by many threads") {
  const std::uint64_t n = 1'200'000;
  const Ints wanted = exact(n, 5, 1);
  CHECK(exact(n, 5, 4) == wanted);
  Numbered rows(n, 4, 0);
  tombola::exact_arrays({rows.view()}, n, 5, 3, {}, 1);
  CHECK(rows.is_permutation());
  CHECK(rows.number(999) == wanted[999]);
}

TEST_CASE("arrays in unison") {
  const std::uint64_t n = 2000;
  Numbered a(n, 4, 0), b(n, 300, 3), c(n, 24, 8);
  for (const bool pov : {false, true}) {
    if (pov) tombola::pov_arrays({a.view(), b.view(), c.view()}, n, 9, {2, 4, 16, {1, 3}}, 3, {});
    else tombola::exact_arrays({a.view(), b.view(), c.view()}, n, 9, 3, {}, 256, kSmall);
    bool same = true;
    for (std::uint64_t i = 0; i < n; ++i) same = same && a.number(i) == b.number(i) && a.number(i) == c.number(i);
    CHECK(same);
    CHECK(b.is_permutation());
  }
}

TEST_CASE("a stop leaves every row in the array, wherever it comes") {
  for (const std::uint64_t bytes : {4u, 40u, 300u}) {
    bool finished = false;
    for (int after = 0; !finished; after = after * 5 / 4 + 1) {
      for (const int threads : {1, 3}) {
        Numbered rows(6000, bytes, 0);
        int asked = 0;
        const Stop stop = [&] { return asked++ >= after; };
        finished = tombola::exact_arrays({rows.view()}, 6000, 3, threads, stop, 256, kSmall);
        CHECK(rows.is_permutation());
        int asked_pov = 0;
        const Stop stop_pov = [&] { return asked_pov++ >= after; };
        tombola::pov_arrays({rows.view()}, 6000, 3, {3, 4, 16, {1, 3}}, threads, stop_pov);
        CHECK(rows.is_permutation());
      }
    }
  }
}

TEST_CASE("exact_gpu1 stops before a row has moved, or not at all") {
  Numbered rows(3000, 40, 3);
  CHECK_FALSE(tombola::gpu1_arrays({rows.view()}, 3000, 3, 3, [] { return true; }));
  CHECK(rows.number(7) == 7);
  CHECK(tombola::gpu1_arrays({rows.view()}, 3000, 3, 3, [] { return false; }));
  CHECK(rows.is_permutation());
  CHECK(rows.number(7) != 7);
}

TEST_CASE("small rows come the same when they are dealt near by, in slots that are too small or not, or in either way") {
  const std::uint64_t n = 60000;
  for (const int bits : {1, 3, 8}) {
    Tuning tuning{40, 20, bits, 4, 30, 8, 64};
    const auto shuffled = [&](std::uint64_t bytes, tombola::Near near, std::uint64_t spreads, int threads) {
      tuning.near = near;
      tuning.near_spreads = spreads;
      Numbered rows(n, bytes, 0);
      CHECK(tombola::exact_shuffle(rows.view(), n, 7, threads, {}, tuning));
      return rows.data();
    };
    for (const std::uint64_t bytes : {1u, 2u, 4u}) {
      CAPTURE(bits);
      CAPTURE(bytes);
      const auto wanted = shuffled(bytes, tombola::Near::never, 0, 1);
      CHECK(shuffled(bytes, tombola::Near::always, 6, 1) == wanted);
      CHECK(shuffled(bytes, tombola::Near::always, 0, 3) == wanted);
      CHECK(shuffled(bytes, tombola::Near::if_faster, 6, 2) == wanted);
    }
  }
}

TEST_CASE("rows in a file come as in memory, with any threads and memory; a stop leaves the source as it was") {
  const std::uint64_t n = 3000, skip = 9;
  const Ints wanted = exact(n, 8, 1, kSmall);
  for (const std::uint64_t bytes : {4u, 8u, 13u, 300u, 1000u}) {
    const Numbered before(n, bytes, 0);
    TemporaryFile source(before.data(), skip);
    for (const auto shuffle : {&tombola::exact_file, &tombola::exact_file_follow}) {
      if (shuffle == &tombola::exact_file && bytes > tombola::kDirectMax) continue;
      for (const int threads : {1, 3}) {
        for (const std::uint64_t memory : {std::uint64_t{1}, std::uint64_t{1} << 20}) {
          CAPTURE(bytes);
          CAPTURE(threads);
          TemporaryFile target(std::vector<std::byte>(before.data().size()), skip);
          const tombola::FileLayout layout{source.number(), target.number(), skip, n, bytes, memory};
          CHECK(shuffle(layout, 8, threads, {}, kSmall));
          Numbered after(n, bytes, 0);
          after.data() = target.read(skip, before.data().size());
          CHECK(after.is_permutation());
          bool same = true;
          for (std::uint64_t i = 0; i < n; ++i) same = same && after.number(i) == wanted[i];
          CHECK(same);
          // With other threads at work the one that asks may be asked no more than once.
          int asked = 0;
          const Stop stop = [&] { return ++asked > (threads == 1 ? 3 : 0); };
          CHECK_FALSE(shuffle(layout, 8, threads, stop, kSmall));
          CHECK(source.read(skip, before.data().size()) == before.data());
        }
      }
    }
  }
}

TEST_CASE("an exception of a task comes out, after the other tasks have ended") {
  std::atomic<int> running{0};
  const auto body = [&](std::int64_t task, int) {
    ++running;
    if (task == 5) {
      --running;
      throw std::runtime_error("task 5");
    }
    --running;
  };
  for (const int threads : {1, 4}) {
    CHECK_THROWS_WITH(tombola::run_tasks(100, threads, {}, body), "task 5");
    CHECK(running == 0);
  }
}
