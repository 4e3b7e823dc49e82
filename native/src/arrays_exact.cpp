#include "arrays_exact.hpp"

#include "arrays_levels.hpp"
#include "arrays_rows.hpp"

namespace tombola {
namespace {

// Calls body with the rows as the type that suits their size.
template <class Body>
auto with_rows(std::byte* data, std::uint64_t row_bytes, std::int64_t step, const Body& body) {
  const bool packed = step == static_cast<std::int64_t>(row_bytes);
  switch (packed ? row_bytes : 0) {
    case 4: return body(FixedRows<4>(data));
    case 64: return body(FixedRows<64>(data));
#if !TOMBOLA_SANITIZED
    case 1: return body(FixedRows<1>(data));
    case 2: return body(FixedRows<2>(data));
    case 8: return body(FixedRows<8>(data));
    case 16: return body(FixedRows<16>(data));
    case 32: return body(FixedRows<32>(data));
    case 128: return body(FixedRows<128>(data));
#endif
    default: return body(AnyRows(data, row_bytes, step));
  }
}

static_assert(kDirectMax == AnyRows::kBytesMax);

}  // namespace

bool exact_shuffle(const Strided& array, std::uint64_t n, std::uint64_t key, int threads, const Stop& stop,
                   const Tuning& tuning) {
  if (array.bytes == 0 || n < 2) return true;
  const auto run = [&](auto rows) { return exact::Exact<decltype(rows)>(rows, threads, stop, tuning).run(n, key); };
  if (!array.axes.empty()) return run(SpreadRows(array));
  return with_rows(array.base, array.bytes, array.step, run);
}

void exact_bucket(std::byte* data, std::uint64_t n, std::uint64_t row_bytes, std::uint64_t key, const Tuning& tuning) {
  with_rows(data, row_bytes, static_cast<std::int64_t>(row_bytes), [&](auto rows) {
    exact::Exact<decltype(rows)> levels(rows, 1, {}, tuning);
    typename exact::Exact<decltype(rows)>::Work work;
    levels.bucket(0, n, key, 1, work);
    return true;
  });
}

}  // namespace tombola
