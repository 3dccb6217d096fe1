// Contestants are processes that take turns: one works for some steps while the others sleep, so
// that disturbances of the machine hit all of them. This is the contestant's side. Thread safety:
// one thread.
//
// While it slept, a contestant lost its caches, and its allocator gave memory back: each turn
// begins with steps that do not count.
//
// On standard input comes a number of steps, and how many go before them that do not count (at
// least 1); on standard output goes "ready" once, then for every
// turn one line: CPU nanoseconds of the process, the last loss, and the nanoseconds of every step
// that counts. The end of the input is the end of the benchmark.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::bench {

class StepPacer {
 public:
  // Call it before the first step and after every step; returns when a step may be made. False:
  // the benchmark is over. `loss` is of the step that was made.
  bool next(double loss = 0);

 private:
  void start_clocks();
  void answer(double loss);

  bool ready_ = false;
  int64_t lead_in_ = 0;
  int64_t left_ = 0;
  int64_t last_ = 0;
  int64_t cpu_ = 0;
  std::vector<int64_t> times_;
};

// Where processes meet that share nothing else: a page of memory, one counter for each rank.
class SharedBarrier {
 public:
  // A new page; the descriptor is inherited by children.
  static int create();
  // Maps the page. Ranks 0 to size - 1 use it, size <= 16.
  SharedBarrier(int descriptor, int rank, int size);
  // Returns when every rank has come here: spins for some microseconds, then sleeps.
  void wait();

 private:
  struct Slot;
  Slot* slots_;
  int rank_;
  int size_;
  uint32_t round_ = 0;
};

}  // namespace muster::bench
