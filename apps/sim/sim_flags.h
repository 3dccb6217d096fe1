// The flags of `muster sim`: the command checks them, and muster-sim, which it starts, reads them
// again. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::app {

struct SimFlags {
  std::vector<std::string> scenarios{};  // empty: all
  int64_t seeds = 1000;
  int64_t first = 0;
  int64_t seed = -1;  // the one to replay; -1: none
  int64_t jobs = 2;
  bool all_faults = false;
  bool list = false;
};

// Adds them, with help and limits. `flags` must outlive `app`.
void add_sim_flags(CLI::App& app, SimFlags& flags);

}  // namespace muster::app
