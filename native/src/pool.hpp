// Memory that is used again. A batch of megabytes in fresh memory spends more time on the system's page faults than on
// copying, and memory that was just let go is still in the cache.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "large.hpp"

namespace tombola {

class Pool;

// Uninitialised bytes that go back to where they came from.
class Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    Block(std::move(other)).swap(*this);
    return *this;
  }
  ~Block();

  std::uint8_t* data() const { return data_; }
  template <class T>
  T* as() const { return reinterpret_cast<T*>(data_); }
  std::uint64_t bytes() const { return bytes_; }

  // From the pool when there is one.
  static Block of(std::uint64_t bytes, Pool* pool);

 private:
  friend class Pool;
  void swap(Block& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(room_, other.room_);
    std::swap(pool_, other.pool_);
  }

  std::uint8_t* data_ = nullptr;
  std::uint64_t bytes_ = 0, room_ = 0;
  std::shared_ptr<Pool> pool_;
};

// Keeps at most so many bytes of what was let go. Threads may share it. Nobody ever waits for it: where another thread
// is at it, or was when the process forked, memory comes from the system and goes back there.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  explicit Pool(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (const Free& one : free_) release(one.data, one.room);
  }

  // Bytes that are kept and not in use.
  std::uint64_t bytes() {
    const std::lock_guard<std::mutex> held(lock_);
    return bytes_;
  }

 private:
  friend class Block;
  struct Free {
    std::uint8_t* data;
    std::uint64_t room;
  };
  // More than this many pieces are not worth looking through.
  static constexpr std::size_t kPiecesMax = 64;

  static std::uint8_t* acquire(std::uint64_t room) { return LargeAllocator<std::uint8_t>().allocate(room); }
  static void release(std::uint8_t* data, std::uint64_t room) { LargeAllocator<std::uint8_t>().deallocate(data, room); }

  // Neighbouring sizes share pieces: rounded up by an eighth at most.
  static std::uint64_t round_up(std::uint64_t bytes) {
    std::uint64_t step = 64;
    while (step * 16 < bytes) step *= 2;
    return (bytes + step - 1) / step * step;
  }

  std::uint8_t* take(std::uint64_t room) {
    const std::unique_lock<std::mutex> held(lock_, std::try_to_lock);
    if (!held.owns_lock()) return nullptr;
    // The one that was let go last is the warmest.
    for (std::size_t at = free_.size(); at-- > 0;) {
      if (free_[at].room != room) continue;
      std::uint8_t* found = free_[at].data;
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(at));
      bytes_ -= room;
      return found;
    }
    return nullptr;
  }

  void give(std::uint8_t* data, std::uint64_t room) noexcept {
    const std::unique_lock<std::mutex> held(lock_, std::try_to_lock);
    if (held.owns_lock() && room <= bytes_max_) {
      // Sizes that nobody asks for any more make way.
      while (!free_.empty() && (bytes_ + room > bytes_max_ || free_.size() == kPiecesMax)) {
        bytes_ -= free_.front().room;
        release(free_.front().data, free_.front().room);
        free_.erase(free_.begin());
      }
      try {
        free_.push_back({data, room});
        bytes_ += room;
        return;
      } catch (const std::bad_alloc&) {  // then it is not kept
      }
    }
    release(data, room);
  }

  const std::uint64_t bytes_max_;
  std::mutex lock_;
  std::vector<Free> free_;
  std::uint64_t bytes_ = 0;
};

inline Block Block::of(std::uint64_t bytes, Pool* pool) {
  Block block;
  block.bytes_ = bytes;
  block.room_ = pool == nullptr ? bytes : Pool::round_up(bytes);
  if (pool != nullptr) {
    block.data_ = pool->take(block.room_);
    block.pool_ = pool->shared_from_this();
  }
  if (block.data_ == nullptr) block.data_ = Pool::acquire(block.room_);
  return block;
}

inline Block::~Block() {
  if (data_ == nullptr) return;
  if (pool_ != nullptr) {
    pool_->give(data_, room_);
  } else {
    Pool::release(data_, room_);
  }
}

}  // namespace tombola
