// The words of the simulator: a scenario is a small run of Muster in a simulated world, its faults
// are a function of the seed, and after every event its laws must hold. Thread safety: scenarios
// are constant and may run several seeds at a time, each with a trace of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::sim {

// One fault of a run.
struct Fault {
  double at = 0;       // simulated seconds since the begin of the run
  int kind = 0;        // of the scenario's faults
  int task = 0;        // which task it is for, where that matters
  double amount = 0;   // seconds, or how many operations
  std::string text{};  // for people: "worker 1 is killed"
};

// A broken law: thrown where it is seen.
struct Broken {
  std::string law;
};
inline void require(bool holds, std::string_view law) {
  if (!holds) throw Broken{std::string(law)};
}

// What happened in a run, for people. Empty unless somebody wants to read it.
class Trace {
 public:
  explicit Trace(bool kept = false) : kept_(kept) {}
  bool kept() const { return kept_; }
  void add(double seconds, const std::string& line);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  bool kept_;
  std::vector<std::string> lines_;
};

class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual std::string name() const = 0;
  // What runs in it, in one line.
  virtual std::string about() const = 0;
  // The faults of a seed, by time.
  virtual std::vector<Fault> faults(uint64_t seed) const = 0;
  // Runs the seed with these faults. Returns the law that was broken, "" if all held. The same
  // arguments give the same result.
  virtual std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const = 0;
};

}  // namespace muster::sim
