// An array of any shape, seen as rows along its first axis.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "mover.hpp"

namespace tombola {

// The rows of an array whose axes have these sizes and steps in bytes, in runs as long as memory has them. Nothing when
// two of its elements may share memory: every axis has to step over all that finer ones reach.
//
// What is copied from row to row is the same bytes whatever the order of the inner axes. So they are sorted, turned to
// run upwards, and joined where nothing lies between them.
std::optional<Strided> rows_of(std::byte* data, int axes, const std::int64_t* sizes, const std::int64_t* steps,
                               std::uint64_t item_bytes);

}  // namespace tombola
