// Numbers of a part of this process for people who look at its run: connections, bytes a second.
// The part offers them while it works, and the thread that writes the task's live file reads them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::plan {

// By name: "connections".
using Measures = std::map<std::string, double>;

// Of all sources of this process. Thread safety: any thread.
MUSTER_PART_EXPORT Measures measures();

class MUSTER_PART_EXPORT MeasureSource {
 public:
  // `read` is called by other threads while this object lives, by one at a time. It may not wait
  // for anything but a short lock.
  explicit MeasureSource(std::function<Measures()> read);
  ~MeasureSource();
  MeasureSource(const MeasureSource&) = delete;
  MeasureSource& operator=(const MeasureSource&) = delete;

 private:
  friend Measures measures();
  const std::function<Measures()> read_;
};

}  // namespace muster::inline v0_1::plan
