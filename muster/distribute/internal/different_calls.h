// The error of workers that meet in different calls of their program. Pure functions.
#pragma once

#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

// A worker, "worker 0", and the call it has come to, "Model::save()".
struct WorkerCall {
  std::string worker{};
  std::string call{};
};

// "workers came to different calls ...: worker 0 to Model::save(), worker 1 to Model::fit()".
// `within`: the call in which both are, if there is one.
Error different_calls(const WorkerCall& one, const WorkerCall& other,
                      const std::string& within = "");

}  // namespace muster::inline v0_1::distribute
