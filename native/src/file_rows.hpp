// Reading and writing runs of bytes of an open file, wholly or with an error, and hints about what comes next.
#pragma once
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace tombola {

inline void check_moved(ssize_t moved, std::uint64_t at, const char* doing) {
  if (moved > 0 || (moved < 0 && errno == EINTR)) return;
  if (moved < 0) throw std::system_error(errno, std::generic_category(), doing);
  throw std::system_error(EIO, std::generic_category(), "the file ended after " + std::to_string(at) + " bytes");
}

inline void read_all(int file, std::byte* to, std::uint64_t bytes, std::uint64_t at) {
  while (bytes > 0) {
    const ssize_t got = ::pread(file, to, bytes, static_cast<off_t>(at));
    check_moved(got, at, "reading the rows");
    if (got < 0) continue;
    to += got;
    at += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
}

inline void write_all(int file, const std::byte* from, std::uint64_t bytes, std::uint64_t at) {
  while (bytes > 0) {
    const ssize_t put = ::pwrite(file, from, bytes, static_cast<off_t>(at));
    check_moved(put, at, "writing the rows");
    if (put < 0) continue;
    from += put;
    at += static_cast<std::uint64_t>(put);
    bytes -= static_cast<std::uint64_t>(put);
  }
}

// Rows that lie one after the other in the file are read to places in memory that do not: no copy besides the kernel's.
class RowsReader {
 public:
  RowsReader(int file, std::uint64_t row_bytes) : file_(file), row_bytes_(row_bytes) { rows_.reserve(kRowsMax); }

  void start(std::uint64_t at) { at_ = at; }
  void read_to(std::byte* row) {
    rows_.push_back({row, row_bytes_});
    if (rows_.size() == kRowsMax) finish();
  }
  void finish() {
    iovec* first = rows_.data();
    auto left = static_cast<int>(rows_.size());
    while (left > 0) {
      const ssize_t got = ::preadv(file_, first, left, static_cast<off_t>(at_));
      check_moved(got, at_, "reading the rows");
      if (got < 0) continue;
      at_ += static_cast<std::uint64_t>(got);
      auto rest = static_cast<std::size_t>(got);
      for (; left > 0 && rest >= first->iov_len; --left) rest -= (first++)->iov_len;
      if (rest > 0) *first = {static_cast<std::byte*>(first->iov_base) + rest, first->iov_len - rest};
    }
    rows_.clear();
  }

 private:
#if defined(IOV_MAX)
  static constexpr std::size_t kRowsMax = std::min(IOV_MAX, 1024);
#else
  static constexpr std::size_t kRowsMax = 1024;
#endif

  int file_;
  std::uint64_t row_bytes_, at_ = 0;
  std::vector<iovec> rows_;
};

// The kernel begins to read what will be wanted soon, so that nobody waits for it then.
inline void ask_for(int file, std::uint64_t bytes, std::uint64_t at) {
#if defined(POSIX_FADV_WILLNEED)
  if (bytes > 0) ::posix_fadvise(file, static_cast<off_t>(at), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
#else
  static_cast<void>(file), static_cast<void>(bytes), static_cast<void>(at);
#endif
}

// The kernel begins to write what will not change any more, so that less is left for the end.
inline void begin_writing(int file, std::uint64_t bytes, std::uint64_t at) {
#if defined(SYNC_FILE_RANGE_WRITE)
  // A hint: an error will show again when the file is flushed.
  static_cast<void>(::sync_file_range(file, static_cast<off_t>(at), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE));
#else
  static_cast<void>(file), static_cast<void>(bytes), static_cast<void>(at);
#endif
}

}  // namespace tombola
