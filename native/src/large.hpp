// A vector for tables of many megabytes: elements are left uninitialised (each is written once anyway) and large ones
// ask for huge pages, because first touching 4 KiB pages is what building a table would spend its time on.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace tombola {

// From Mapped bytes on memory goes back to the system when it is given back, which costs time when it is asked for often.
template <class T, std::size_t Mapped = std::size_t{4} << 20>
struct LargeAllocator {
  using value_type = T;
  static constexpr std::size_t kHuge = std::size_t{2} << 20;
  template <class U>
  struct rebind {
    using other = LargeAllocator<U, Mapped>;
  };

  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U, Mapped>&) {}

#if defined(__linux__)
  // Mapped by hand: what malloc has been given back it may keep, and then a budget of memory is spent twice.
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < Mapped) return checked(std::malloc(bytes > 0 ? bytes : 1));
    const std::size_t spare = bytes < 2 * kHuge ? 0 : kHuge;  // to begin where a huge page can
    void* const mapped = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    if (spare == 0) return static_cast<T*>(mapped);
    auto* const first = static_cast<std::byte*>(mapped);
    const std::size_t before = (kHuge - reinterpret_cast<std::uintptr_t>(first) % kHuge) % kHuge;
    const std::size_t end = before + pages(bytes), all = pages(bytes + spare);
    if (before > 0) munmap(first, before);
    if (end < all) munmap(first + end, all - end);
    madvise(first + before, bytes, MADV_HUGEPAGE);  // a wish: ignoring it costs only time
    return reinterpret_cast<T*>(first + before);
  }
  void deallocate(T* memory, std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < Mapped) std::free(memory);
    else munmap(static_cast<void*>(memory), bytes);
  }
#else
  T* allocate(std::size_t count) { return checked(std::malloc(count > 0 ? count * sizeof(T) : 1)); }
  void deallocate(T* memory, std::size_t) { std::free(memory); }
#endif

  template <class U>
  void construct(U* place) noexcept(std::is_nothrow_default_constructible_v<U>) {
    ::new (static_cast<void*>(place)) U;  // default, not value: no zeroes
  }
  template <class U, class... Args>
  void construct(U* place, Args&&... args) {
    ::new (static_cast<void*>(place)) U(std::forward<Args>(args)...);
  }
  template <class U>
  bool operator==(const LargeAllocator<U, Mapped>&) const { return true; }

 private:
  static T* checked(void* memory) {
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
#if defined(__linux__)
  static std::size_t pages(std::size_t bytes) {
    static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
  }
#endif
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

// For memory that is counted against a budget.
template <class T>
using BudgetVector = std::vector<T, LargeAllocator<T, (std::size_t{128} << 10)>>;

}  // namespace tombola
