#include "muster/tensor/tracing.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

bool is_tracing() { return torch::jit::tracer::isTracing(); }

void refuse_tracing(const std::string& what, const std::string& why) {
  if (!is_tracing()) return;
  throw invalid_argument("not supported: exporting " + what + ": " + why,
                         "do this to the features before the model, in front of the server");
}

}  // namespace muster::inline v0_1
