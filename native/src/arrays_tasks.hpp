// Tasks of uneven length, dealt to threads as they become free. The result must never depend on who took which.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tombola {

// Asked between tasks, only on the thread that called: true means that no further task shall begin.
using Stop = std::function<bool()>;

// body(task, worker) for each task in 0…count−1. Returns false when it was stopped, in which case each task was done
// wholly or not at all. An exception of a task is thrown again here, after the others have ended.
template <class Body>
bool run_tasks(std::int64_t count, int threads, const Stop& stop, const Body& body) {
  const int workers = static_cast<int>(std::clamp<std::int64_t>(count, 1, std::max(threads, 1)));
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> halted{false};
  std::exception_ptr failure;
  std::mutex guard;
  const auto work = [&](int worker) {
    try {
      while (!halted.load(std::memory_order_relaxed)) {
        if (worker == 0 && stop && stop()) {
          halted = true;
          return;
        }
        const std::int64_t task = next.fetch_add(1);
        if (task >= count) return;
        body(task, worker);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(guard);
      if (!failure) failure = std::current_exception();
      halted = true;
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(static_cast<std::size_t>(workers - 1));
    for (int w = 1; w < workers; ++w) others.emplace_back(work, w);
  } catch (...) {
    // No more threads or no memory for them to be had: those there are do all of it. Some callers have rows in flight.
  }
  work(0);
  for (auto& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
  return !halted;
}

}  // namespace tombola
