// Cut [0, count) into pieces for threads. The result must never depend on the cuts.
#pragma once
#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace tombola {

template <class Body>  // Body(begin, end)
void parallel_for(std::int64_t count, int threads, std::int64_t grain, const Body& body) {
  const std::int64_t wanted = std::min<std::int64_t>(threads, (count + grain - 1) / std::max<std::int64_t>(grain, 1));
  if (wanted <= 1) {
    body(std::int64_t{0}, count);
    return;
  }
  std::vector<std::thread> workers;
  workers.reserve(static_cast<std::size_t>(wanted - 1));
  const std::int64_t step = (count + wanted - 1) / wanted;
  for (std::int64_t w = 1; w < wanted; ++w) {
    const std::int64_t begin = std::min(count, w * step), end = std::min(count, begin + step);
    workers.emplace_back([&body, begin, end] { body(begin, end); });
  }
  body(std::int64_t{0}, std::min(count, step));
  for (auto& worker : workers) worker.join();
}

}  // namespace tombola
