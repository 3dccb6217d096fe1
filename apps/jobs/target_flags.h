// The flags of `muster submit` that one target alone understands. Thread safety: the main thread.
#pragma once

#include <string>

#include "muster/jobs/targets.h"

namespace CLI {
class App;
}

namespace muster::app {

struct TargetFlags {
  jobs::TargetOptions options;
  std::string slurm, kind = "job", node_selector, tolerations, volume, image;
};

// Adds the flags to the command; `flags` must outlive the parsing.
void add_target_flags(CLI::App& command, TargetFlags& flags);
// The options that they make. Throws InvalidArgument for a flag that cannot be read, and for one of
// another target than `target`, if it would do nothing.
jobs::TargetOptions target_options(const CLI::App& command, const TargetFlags& flags,
                                   const std::string& target);

}  // namespace muster::app
