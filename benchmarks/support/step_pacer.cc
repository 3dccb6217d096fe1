#include "benchmarks/support/step_pacer.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "muster/base/error.h"

namespace muster::bench {
namespace {

int64_t nanoseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

bool StepPacer::next(double loss) {
  if (lead_in_ > 0) {
    if (--lead_in_ == 0) start_clocks();
    return true;
  }
  if (left_ > 0) {
    const int64_t now = nanoseconds(CLOCK_MONOTONIC);
    times_.push_back(now - last_);
    last_ = now;
    if (--left_ > 0) return true;
    answer(loss);
  } else if (!ready_) {
    std::puts("ready");
    std::fflush(stdout);
    ready_ = true;
  }
  char line[32];
  if (std::fgets(line, sizeof line, stdin) == nullptr) return false;
  char* rest = nullptr;
  left_ = std::max(1L, std::strtol(line, &rest, 10));
  lead_in_ = std::max(1L, std::strtol(rest, nullptr, 10));
  times_.clear();
  times_.reserve(static_cast<size_t>(left_));
  return true;
}

void StepPacer::start_clocks() {
  cpu_ = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  last_ = nanoseconds(CLOCK_MONOTONIC);
}

void StepPacer::answer(double loss) {
  fmt::print("{} {} {}\n", nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_, loss,
             fmt::join(times_, " "));
  std::fflush(stdout);
}

// A line of the cache for each rank.
struct alignas(64) SharedBarrier::Slot {
  std::atomic<uint32_t> round;
  std::atomic<uint32_t> sleepers;
};

int SharedBarrier::create() {
  const int descriptor = memfd_create("barrier", 0);
  if (descriptor < 0 || ftruncate(descriptor, 4096) != 0) {
    throw from_errno(errno, "cannot make a page of shared memory");
  }
  return descriptor;
}

SharedBarrier::SharedBarrier(int descriptor, int rank, int size) : rank_(rank), size_(size) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (page == MAP_FAILED) throw from_errno(errno, "cannot map the page of the barrier");
  slots_ = static_cast<Slot*>(page);
}

void SharedBarrier::wait() {
  constexpr int kSpins = 2000;  // some tens of microseconds
  ++round_;
  Slot& own = slots_[rank_];
  own.round.store(round_);
  if (own.sleepers.load() > 0) {
    syscall(SYS_futex, &own.round, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  for (int r = 0; r < size_; ++r) {
    Slot& other = slots_[r];
    const auto there = [&] { return static_cast<int32_t>(other.round.load() - round_) >= 0; };
    for (int spin = 0; spin < kSpins && !there(); ++spin) __builtin_ia32_pause();
    if (there()) continue;
    other.sleepers.fetch_add(1);
    for (uint32_t seen = other.round.load(); !there(); seen = other.round.load()) {
      const timespec second{1, 0};
      syscall(SYS_futex, &other.round, FUTEX_WAIT, seen, &second, nullptr, 0);
    }
    other.sleepers.fetch_sub(1);
  }
}

}  // namespace muster::bench
