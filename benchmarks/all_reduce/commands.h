// The protocol for a rank of a contestant: it reads a size in bytes and a number of rounds from one
// named pipe, makes them, and writes the nanoseconds all of them took to another. A size of 0 ends
// it. It depends on nothing else: the contestant over Open MPI links nothing of Muster. Thread
// safety: one thread.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <string>

namespace muster::bench {

inline constexpr int64_t kLargest = 100'000'000;  // bytes

struct Command {
  int64_t bytes = 0;
  int64_t rounds = 0;
};

inline std::string pipe_of(const std::string& stem, int rank, const char* direction) {
  return stem + "." + std::to_string(rank) + "." + direction;
}

// Both sides open both ends, so that neither waits for the other to do so.
inline int open_pipe(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) throw std::runtime_error("cannot open " + path);
  return descriptor;
}

inline void write_all(int descriptor, const void* data, size_t bytes) {
  if (write(descriptor, data, bytes) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("cannot write to a pipe");
  }
}

// Bounded: a rank that receives nothing for minutes has been left behind.
inline void read_all(int descriptor, void* data, size_t bytes) {
  constexpr int kPatience = 300;  // seconds
  pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, kPatience * 1000) <= 0) throw std::runtime_error("nothing comes any more");
  if (read(descriptor, data, bytes) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("cannot read from a pipe");
  }
}

// Takes part as `rank` until the end. `all_reduce` sums the given number of bytes of float32 over
// the ranks, in the same place each time.
inline void obey(const std::string& stem, int rank,
                 const std::function<void(int64_t bytes)>& all_reduce) {
  const int in = open_pipe(pipe_of(stem, rank, "in"));
  const int out = open_pipe(pipe_of(stem, rank, "out"));
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
  };
  int64_t answer = 0;  // connected
  write_all(out, &answer, sizeof answer);
  for (Command command; read_all(in, &command, sizeof command), command.bytes > 0;) {
    // It has slept: its caches are cold, and the ranks wake one after the other.
    for (int i = 0; i < 3; ++i) all_reduce(command.bytes);
    const int64_t start = now();
    for (int64_t i = 0; i < command.rounds; ++i) all_reduce(command.bytes);
    answer = now() - start;
    write_all(out, &answer, sizeof answer);
  }
  close(in);
  close(out);
}

// One core for each rank, while there are enough.
inline void stay_on_core(int rank) {
  cpu_set_t all, own;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  int nth = rank % CPU_COUNT(&all);
  CPU_ZERO(&own);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all) && nth-- == 0) CPU_SET(core, &own);
  }
  sched_setaffinity(0, sizeof own, &own);
}

}  // namespace muster::bench
