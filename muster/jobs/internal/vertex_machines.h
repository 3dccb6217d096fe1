// The machines that Vertex AI has, by the names that other configurations give them. Thread safety:
// pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs::internal {

struct VertexMachine {
  std::string type{};            // "n1-standard-8"
  Accelerator accelerator = {};  // its type as Vertex AI spells it
  std::string note = {};         // how an old name was understood; empty: it was none
};

// Returns the machine of a pool. Names of AI Platform's own ("complex_model_m_p100") become the
// machines of Compute Engine that these were; accelerators are known in any spelling. Throws
// InvalidArgument for machines that no longer exist and for unknown accelerators.
VertexMachine vertex_machine(const Pool& pool, const std::string& default_type);

// Returns the accelerator of Vertex AI that an unknown type probably means: "NVIDIA_TESLA_T4" for
// "T44". Returns nothing if none is near, and for known ones.
std::optional<std::string> meant_accelerator(const std::string& type);

}  // namespace muster::inline v0_1::jobs::internal
