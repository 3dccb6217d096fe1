#include "muster/base/error.h"
#include "muster/distribute/strategy.h"
#include "muster/ps/closures.h"
#include "muster/ps/parameter_server.h"

namespace muster::inline v0_1 {
namespace {

Error without_control_plane() {
  return invalid_argument("not supported: parameter servers in a build without the control plane",
                          "configure with -DMUSTER_CONTROL_PLANE=ON");
}

}  // namespace

distribute::StrategyPtr distribute::parameter_server(const ParameterServerOptions& /*options*/) {
  throw without_control_plane();
}

namespace ps {

// There is no such strategy.
const distribute::ParameterServerOptions* options_of(const distribute::Strategy& /*strategy*/) {
  return nullptr;
}

std::unique_ptr<ClosureHost> host_closures(ClosureHostOptions /*options*/) {
  throw without_control_plane();
}

std::unique_ptr<ClosureClient> connect_closures(ClosureOptions /*options*/) {
  throw without_control_plane();
}

}  // namespace ps
}  // namespace muster::inline v0_1
