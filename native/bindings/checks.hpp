// What the bindings refuse: numbers from Python that would be looked up outside a table.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tombola {

// All of 0 … end − 1, or an error that names the first that is not.
inline void check_below(const std::int64_t* values, std::int64_t count, std::int64_t end, const char* what) {
  std::uint64_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {  // without a branch, so that the compiler can take several at a time
    bad |= static_cast<std::uint64_t>(static_cast<std::uint64_t>(values[i]) >= static_cast<std::uint64_t>(end));
  }
  if (bad == 0) return;
  for (std::int64_t i = 0; i < count; ++i) {
    if (values[i] < 0 || values[i] >= end) {
      throw std::out_of_range(std::string(what) + " " + std::to_string(values[i]) + " is not below " +
                              std::to_string(end));
    }
  }
}

inline void check_one_below(std::int64_t value, std::int64_t end, const char* what) {
  check_below(&value, 1, end, what);
}

// start, start + step, … , count of them, all of 0 … end − 1.
inline void check_range_below(std::int64_t start, std::int64_t step, std::int64_t count, std::int64_t end,
                              const char* what) {
  if (count == 0) return;
  check_one_below(start, end, what);
  if (step < 1 || count - 1 > (end - 1 - start) / step) {
    throw std::out_of_range(std::string(what) + "s from " + std::to_string(start) + " on, " + std::to_string(count) +
                            " of them, end beyond " + std::to_string(end));
  }
}

}  // namespace tombola
