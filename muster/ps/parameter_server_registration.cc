#include "muster/distribute/register_strategy.h"
#include "muster/ps/parameter_server.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
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
