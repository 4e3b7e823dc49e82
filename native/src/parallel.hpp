// Cut [0, count) into pieces for threads. The result must never depend on the cuts.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <system_error>
#include <thread>

namespace tombola {

// Threads claim pieces, the calling one too, which waits only for pieces that are claimed: on a machine that is busy
// with other things a thread may come late, and finds then that there is nothing left to do.
template <class Body>  // Body(begin, end)
void parallel_for(std::int64_t count, int threads, std::int64_t grain, const Body& body) {
  constexpr std::int64_t kPiecesPerThread = 4;
  const std::int64_t most = (count + grain - 1) / std::max<std::int64_t>(grain, 1);
  const std::int64_t pieces = std::min<std::int64_t>(kPiecesPerThread * threads, most);
  if (threads <= 1 || pieces <= 1) {
    body(std::int64_t{0}, count);
    return;
  }
  struct Claims {
    std::atomic<std::int64_t> next{0}, left;
    explicit Claims(std::int64_t all) : left(all) {}
  };
  const auto claims = std::make_shared<Claims>(pieces);
  const std::int64_t step = (count + pieces - 1) / pieces;
  const auto work = [claims, pieces, step, count, run = &body]() noexcept {
    for (std::int64_t piece; (piece = claims->next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
      const std::int64_t begin = std::min(count, piece * step), end = std::min(count, begin + step);
      if (begin < end) (*run)(begin, end);
      if (claims->left.fetch_sub(1, std::memory_order_acq_rel) == 1) claims->left.notify_one();
    }
  };
  for (std::int64_t other = 1; other < std::min<std::int64_t>(threads, pieces); ++other) {
    try {
      std::thread(work).detach();
    } catch (const std::system_error&) {  // the system gives no more threads: those that there are do it
      break;
    }
  }
  work();
  for (std::int64_t left; (left = claims->left.load(std::memory_order_acquire)) > 0;) claims->left.wait(left);
}

}  // namespace tombola
