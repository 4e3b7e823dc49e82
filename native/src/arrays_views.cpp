#include "arrays_views.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace tombola {

std::optional<Strided> rows_of(std::byte* data, int axes, const std::int64_t* sizes, const std::int64_t* steps,
                               std::uint64_t item_bytes) {
  Strided rows{data, steps[0], item_bytes, {}};
  if (item_bytes == 0 || std::any_of(sizes, sizes + axes, [](std::int64_t size) { return size == 0; })) {
    rows.bytes = 0;  // nothing to move
    return rows;
  }
  for (int a = 1; a < axes; ++a) {
    if (sizes[a] == 1) continue;
    rows.axes.push_back({sizes[a], std::abs(steps[a])});
    if (steps[a] < 0) rows.base += (sizes[a] - 1) * steps[a];
  }
  // Few axes, and usually in order already.
  std::sort(rows.axes.begin(), rows.axes.end(), [](const auto& a, const auto& b) { return a.step > b.step; });

  const std::int64_t outer = std::abs(steps[0]);
  auto reach = static_cast<std::int64_t>(item_bytes);
  bool passed = sizes[0] == 1;  // axis 0 takes its turn among the others
  const auto step_over = [&](std::int64_t size, std::int64_t step) {
    if (step < reach) return false;
    reach += (size - 1) * step;
    return true;
  };
  for (auto axis = rows.axes.rbegin(); axis != rows.axes.rend(); ++axis) {
    if (!passed && outer < axis->step) {
      if (!step_over(sizes[0], outer)) return {};
      passed = true;
    }
    if (!step_over(axis->size, axis->step)) return {};
  }
  if (!passed && !step_over(sizes[0], outer)) return {};

  while (!rows.axes.empty() && rows.axes.back().step == static_cast<std::int64_t>(rows.bytes)) {
    rows.bytes *= static_cast<std::uint64_t>(rows.axes.back().size);
    rows.axes.pop_back();
  }
  for (std::size_t k = rows.axes.size(); k-- > 1;) {  // two axes that are one
    if (rows.axes[k - 1].step != rows.axes[k].size * rows.axes[k].step) continue;
    rows.axes[k - 1] = {rows.axes[k - 1].size * rows.axes[k].size, rows.axes[k].step};
    rows.axes.erase(rows.axes.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return rows;
}

}  // namespace tombola
