// Logs the steps for which a device had to compile new programs, and which sizes of the batch
// differ from those of the step before. It also logs once that each step reads numbers on the host,
// and once how much memory of the device is used. A device that runs each operation at once
// compiles nothing. Thread safety: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/tensor/batch.h"
#include "muster/tensor/device_library.h"

namespace muster::inline v0_1 {

class CompilationLog {
 public:
  // `library` outlives the log; nullptr: nothing is compiled, and all functions do nothing.
  // `device`: whose memory is logged.
  CompilationLog(DeviceLibrary* library, Device device) : library_(library), device_(device) {}

  // After the model function, and before the gradients of a batch. Returns the line that it logged,
  // or "": programs ran since end() in each of the last five steps.
  std::string begin();
  // After the update. `step` is the number of the step, from 1; `batch` may be nullptr if it is
  // unknown; `updated`: the batch made an update. Returns the line that it logged, or "". The first
  // two updates compile in every run, because the optimizer makes its slots in the first one. Ten
  // lines are logged at most, and after the second update one about the memory of the device, if
  // its library knows it.
  std::string end(int64_t step, const Batch* batch, bool updated);
  // The number of programs that were compiled after the first two updates.
  int64_t late() const { return late_; }

 private:
  using Sizes = std::map<std::string, std::vector<int64_t>>;  // by name, "features.image"

  static Sizes sizes_of(const Batch& batch);
  static std::string cause(const Sizes& before, const Sizes& now);

  std::string memory() const;

  DeviceLibrary* library_;
  Device device_;
  int64_t programs_ = 0;  // at begin()
  int64_t updates_ = 0;
  int64_t late_ = 0;
  int64_t lines_ = 0;
  int64_t runs_ = -1;    // at end(); -1 before
  int64_t reading_ = 0;  // steps in a row that ran a program before begin()
  bool told_of_reading_ = false;
  Sizes before_;
};

}  // namespace muster::inline v0_1
