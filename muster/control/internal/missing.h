// The tasks that a task waits for, as messages name them. Pure function.
#pragma once

#include <string>
#include <vector>

#include "muster/base/strings.h"
#include "muster/plan/verdict.h"

namespace muster::inline v0_1::control {

// "worker 0 at host:1 (10 s), worker 1 at host:2 (10 s)"
inline std::string describe(const std::vector<plan::MissingTask>& missing) {
  std::vector<std::string> names;
  for (const plan::MissingTask& task : missing) names.push_back(task.describe());
  return muster::join(names, ", ");
}

}  // namespace muster::inline v0_1::control
