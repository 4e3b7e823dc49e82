#include "mapping.hpp"

#include <cerrno>
#include <system_error>

#include <sys/mman.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

namespace tombola {

Mapping::Mapping(int descriptor, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;  // mmap refuses an empty file
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category());
  data_ = static_cast<const std::uint8_t*>(address);
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(const_cast<std::uint8_t*>(data_), bytes_);
}

std::int64_t filesystem_magic([[maybe_unused]] int descriptor) {
#ifdef __linux__
  struct statfs found;
  if (fstatfs(descriptor, &found) != 0) throw std::system_error(errno, std::generic_category());
  return static_cast<std::int64_t>(static_cast<std::uint32_t>(found.f_type));
#else
  return 0;
#endif
}

}  // namespace tombola
