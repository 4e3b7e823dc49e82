// A bitmap of records with counts before every block of 512, and the block of every 4096th set bit: how many are set
// before a place, and which place the j-th set bit has, in a few steps. Overhead: an eighth of the bitmap.
#pragma once
#include <cstdint>
#include <vector>

namespace tombola {

class Bitmap {
 public:
  Bitmap(const std::uint64_t* words, std::int64_t count);  // the words must outlive it

  std::int64_t count() const { return before_.back(); }
  std::int64_t places() const { return size_ * 64; }
  std::int64_t rank(std::int64_t place) const;  // set bits before it; place may be the end
  std::int64_t select(std::int64_t number) const;  // 0 ≤ number < count()

 private:
  static constexpr std::int64_t kWords = 8, kEvery = 4096;
  const std::uint64_t* words_;
  std::int64_t size_;
  std::vector<std::int64_t> before_;  // set bits before each block, and in all
  std::vector<std::int64_t> block_;   // the block that holds set bit 0, kEvery, 2 · kEvery, …; and the last block
};

}  // namespace tombola
