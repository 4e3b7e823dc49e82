#include "bitmap.hpp"

#include <algorithm>
#include <bit>

#include "search.hpp"

namespace tombola {

Bitmap::Bitmap(const std::uint64_t* words, std::int64_t count) : words_(words), size_(count) {
  const std::int64_t blocks = (count + kWords - 1) / kWords;
  before_.reserve(static_cast<std::size_t>(blocks) + 1);
  std::int64_t total = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    before_.push_back(total);
    for (std::int64_t w = b * kWords; w < std::min(count, (b + 1) * kWords); ++w) total += std::popcount(words[w]);
    while (static_cast<std::int64_t>(block_.size()) * kEvery < total) block_.push_back(b);
  }
  before_.push_back(total);
  block_.push_back(std::max<std::int64_t>(blocks - 1, 0));
}

std::int64_t Bitmap::rank(std::int64_t place) const {
  const std::int64_t word = place / 64, block = word / kWords;
  std::int64_t total = before_[static_cast<std::size_t>(block)];
  for (std::int64_t w = block * kWords; w < word; ++w) total += std::popcount(words_[w]);
  if (place % 64 > 0) total += std::popcount(words_[word] << (64 - place % 64));
  return total;
}

std::int64_t Bitmap::select(std::int64_t number) const {
  const std::int64_t low = block_[static_cast<std::size_t>(number / kEvery)];
  const std::int64_t high = block_[static_cast<std::size_t>(number / kEvery) + 1];
  const std::int64_t block = low + last_not_above(before_.data() + low, high - low + 1, number);
  std::int64_t left = number - before_[static_cast<std::size_t>(block)], w = block * kWords;
  for (; w + 1 < size_ && left >= std::popcount(words_[w]); ++w) left -= std::popcount(words_[w]);
  std::uint64_t word = words_[w];
  std::int64_t place = w * 64;
  for (int width = 32; width > 0; width /= 2) {  // halve the word: which half holds the bit?
    const int inside = std::popcount(word & ((std::uint64_t{1} << width) - 1));
    if (left >= inside) {
      left -= inside;
      word >>= width;
      place += width;
    }
  }
  return place;
}

}  // namespace tombola
