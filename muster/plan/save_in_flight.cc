#include "muster/plan/save_in_flight.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace muster::inline v0_1::plan {
namespace {

// It outlives all threads.
struct Saves {
  std::mutex mutex;
  std::vector<int64_t> steps;
};

Saves& saves() {
  static auto* const one = new Saves;
  return *one;
}

}  // namespace

SaveInFlight::SaveInFlight(int64_t step) : step_(step) {
  const std::lock_guard lock(saves().mutex);
  saves().steps.push_back(step_);
}

SaveInFlight::~SaveInFlight() {
  const std::lock_guard lock(saves().mutex);
  saves().steps.erase(std::ranges::find(saves().steps, step_));
}

std::optional<int64_t> save_in_flight() {
  const std::lock_guard lock(saves().mutex);
  return saves().steps.empty() ? std::nullopt : std::optional(saves().steps.back());
}

}  // namespace muster::inline v0_1::plan
