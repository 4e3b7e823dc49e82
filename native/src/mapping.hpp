// A file mapped for reading, without its descriptor: what is open counts against no limit but address space.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tombola {

class Mapping {
 public:
  Mapping(int descriptor, std::size_t bytes);  // throws std::system_error
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::uint8_t* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t bytes_;
};

// The kernel's magic number of the file system that holds an open file; 0 where the system has none.
std::int64_t filesystem_magic(int descriptor);

}  // namespace tombola
