#include "muster/base/error.h"
#include "muster/distribute/register_strategy.h"
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

// Whoever links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_servers_linked;
const int muster_servers_linked = 1;
}

namespace {

[[maybe_unused]] const bool registered = [] {
  muster::distribute::register_strategy("parameter_server",
                                        [] { return muster::distribute::parameter_server(); });
  return true;
}();

}  // namespace
