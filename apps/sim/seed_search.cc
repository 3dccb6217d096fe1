#include "apps/sim/seed_search.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

namespace muster::sim {

namespace {

// The calling thread, and those that it starts, stay on one of the CPUs that it may use. The
// threads of a world take turns, so a second CPU does not make it faster, and to wake a thread on
// another CPU takes longer than to switch to it.
void stay_on_one_cpu(int job) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) == 0) return;
  int left = job % CPU_COUNT(&all);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

// A tenth of the time for other programs. Threads that take turns on one CPU are always the next
// ones for Linux's scheduler, so a program that only computes there could wait for minutes.
class Breaks {
 public:
  void take() {
    constexpr auto kWork = std::chrono::milliseconds(45), kBreak = std::chrono::milliseconds(5);
    if (std::chrono::steady_clock::now() - since_ < kWork) return;
    std::this_thread::sleep_for(kBreak);
    since_ = std::chrono::steady_clock::now();
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace

void Trace::add(double seconds, const std::string& line) {
  if (kept_) lines_.push_back(fmt::format("{:10.3f} s  {}", seconds, line));
}

std::optional<FailingSeed> find_failure(const Scenario& scenario, uint64_t first, uint64_t count,
                                        int jobs) {
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::optional<FailingSeed> found;
  std::atomic<uint64_t> end{count};  // no seed from here on can be the lowest
  const auto work = [&](int job) {
    stay_on_one_cpu(job);
    Breaks breaks;
    for (uint64_t i = next++; i < end; i = next++) {
      const std::vector<Fault> faults = scenario.faults(first + i);
      Trace none;
      std::string law = scenario.run(first + i, faults, none);
      breaks.take();
      if (law.empty()) continue;
      const std::lock_guard lock(mutex);
      if (found && found->seed < first + i) continue;
      found = FailingSeed{first + i, std::move(law), faults};
      end = i;
    }
  };
  std::vector<std::jthread> threads;
  for (int job = 0; job < std::max(1, jobs); ++job) threads.emplace_back(work, job);
  threads.clear();  // joins them
  return found;
}

std::vector<Fault> shrink(const Scenario& scenario, uint64_t seed, std::vector<Fault> faults) {
  // Halves first, then smaller parts, down to single faults.
  for (size_t part = std::max<size_t>(faults.size() / 2, 1); part > 0 && !faults.empty();) {
    bool removed = false;
    for (size_t from = 0; from < faults.size();) {
      std::vector<Fault> fewer = faults;
      const auto begin = fewer.begin() + static_cast<std::ptrdiff_t>(from);
      fewer.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(part, fewer.size() - from)));
      Trace none;
      if (scenario.run(seed, fewer, none).empty()) {
        from += part;
      } else {
        faults = std::move(fewer);
        removed = true;
      }
    }
    if (!removed || part > faults.size()) part /= 2;
  }
  return faults;
}

std::string replay(const Scenario& scenario, uint64_t seed, const std::vector<Fault>& faults) {
  Trace trace(/*kept=*/true);
  const std::string law = scenario.run(seed, faults, trace);
  std::string text = fmt::format("{}, seed {}, {} fault{}:\n", scenario.name(), seed, faults.size(),
                                 faults.size() == 1 ? "" : "s");
  for (const Fault& fault : faults) text += fmt::format("{:10.3f} s  {}\n", fault.at, fault.text);
  text += "what happened:\n";
  for (const std::string& line : trace.lines()) text += line + "\n";
  return text + (law.empty() ? "all laws hold\n" : "broken law: " + law + "\n");
}

}  // namespace muster::sim
