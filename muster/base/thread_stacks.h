// What each thread of this process does now: the functions it is in. For reports of a process that
// does not go on. Thread-safe; calls wait for each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::inline v0_1 {

// Threads with the same stack.
struct ThreadStack {
  std::vector<int64_t> threads{};     // ids, as `ps -L` shows them; at least one
  std::string name{};                 // of the first one, as the kernel has it: at most 15 letters
  std::vector<std::string> frames{};  // the innermost first: "read_row at reader.cc:12"; at most 48
};

// The stacks of all threads but the one that calls: that of `first` first, then the others by their
// number. A signal (a free one of SIGRTMIN + 7 and above) makes each thread write down its stack,
// and interrupts a wait in the kernel, as any signal does. Threads that do not answer within
// `patience`, for example in a read of a disk that does not answer, have no frames. At most 256
// threads are asked. Functions without a symbol, as in stripped libraries, are addresses.
std::vector<ThreadStack> thread_stacks(
    int64_t first = 0, std::chrono::milliseconds patience = std::chrono::milliseconds(500));

// The id of the thread that calls.
int64_t this_thread_id();

}  // namespace muster::inline v0_1
