// A program in place of torchrun, in pods that shall run several processes of it. Thread safety:
// call it once, from main.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::inline v0_1 {

// Starts this program again, with its command line, for each of cluster::processes_of_node(), and
// waits until all have ended. Returns their exit code, as launch::supervise() gives it; nothing if
// there is nothing to start and this process is itself a worker. Throws InvalidArgument when PET_*
// is wrong.
std::optional<int> start_node(const std::vector<std::string>& command);

}  // namespace muster::inline v0_1
