// Checkpoints that threads of this process write while its run makes steps, for people who look at
// the run. Thread safety: any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace muster::inline v0_1::plan {

// While one lives, its thread writes the checkpoint of `step`.
class SaveInFlight {
 public:
  explicit SaveInFlight(int64_t step);
  ~SaveInFlight();
  SaveInFlight(const SaveInFlight&) = delete;
  SaveInFlight& operator=(const SaveInFlight&) = delete;

 private:
  const int64_t step_;
};

// The step of the one that began last; nothing where no thread writes.
std::optional<int64_t> save_in_flight();

}  // namespace muster::inline v0_1::plan
