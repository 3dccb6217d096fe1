#include "muster/base/error.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {

StrategyPtr parameter_server(const ParameterServerOptions& /*options*/) {
  throw invalid_argument("not supported: parameter servers in a build without the control plane",
                         "configure with -DMUSTER_CONTROL_PLANE=ON");
}

}  // namespace muster::inline v0_1::distribute
