#include "tests/fuzz/meter.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MUSTER_FUZZ_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUSTER_FUZZ_SANITIZED
#endif

namespace {

// Constants before anything runs: the first calls of malloc come before main().
constinit std::atomic<int64_t> held{0};
constinit std::atomic<int64_t> peak{0};
constinit int64_t held_before = 0;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

#ifndef MUSTER_FUZZ_SANITIZED

// glibc's own functions, which the counting functions below call. All libraries of the program call
// the counting ones.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}

namespace {

void* taken(void* memory) {
  if (memory == nullptr) return memory;
  const auto size = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = held.fetch_add(size, std::memory_order_relaxed) + size;
  if (now > peak.load(std::memory_order_relaxed)) peak.store(now, std::memory_order_relaxed);
  return memory;
}

void given_back(size_t size) {
  held.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* malloc(size_t size) { return taken(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return taken(__libc_calloc(count, size)); }
void free(void* memory) {
  if (memory != nullptr) given_back(malloc_usable_size(memory));
  __libc_free(memory);
}
// If it moves, the old memory and the new exist together.
void* realloc(void* memory, size_t size) {
  const size_t before = memory == nullptr ? 0 : malloc_usable_size(memory);
  void* moved = __libc_realloc(memory, size);
  if (moved == nullptr && size != 0) return nullptr;
  taken(moved);
  given_back(before);
  return moved;
}
void* memalign(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) {
  return taken(__libc_memalign(alignment, size));
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = taken(__libc_memalign(alignment, size));
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#endif  // MUSTER_FUZZ_SANITIZED

namespace muster::fuzz {

Meter::Meter(uint64_t most_bytes) : most_bytes_(most_bytes), began_(processor_seconds()) {
  held_before = held.load();
  peak.store(held_before);
}

Meter::~Meter() {
  constexpr double kMostSeconds = 30;
  const auto took = static_cast<uint64_t>(peak.load() - held_before);
  const double seconds = processor_seconds() - began_;
  if (took <= most_bytes_ && seconds <= kMostSeconds) return;
  std::fprintf(stderr,
               "fuzz: reading took %llu bytes of memory and %.1f s; at most %llu bytes and %.0f s "
               "may be (muster/base/parse_limits.h)\n",
               static_cast<unsigned long long>(took), seconds,
               static_cast<unsigned long long>(most_bytes_), kMostSeconds);
  std::abort();
}

}  // namespace muster::fuzz
