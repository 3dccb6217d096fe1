#include "muster/base/error.h"
#include "muster/collectives/gloo_communicator.h"
#include "muster/collectives/hierarchical_communicator.h"

namespace muster::inline v0_1 {
namespace {

Error not_built() {
  return invalid_argument(
      "not supported: this Muster was built without its control plane (MUSTER_CONTROL_PLANE=OFF), "
      "and so without messages over TCP",
      "build Muster with -DMUSTER_CONTROL_PLANE=ON, or keep to threads and to processes of one "
      "host");
}

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(const GlooOptions& /*options*/) {
  throw not_built();
}

std::unique_ptr<Communicator> make_hierarchical_communicator(
    const HierarchicalOptions& /*options*/) {
  throw not_built();
}

std::unique_ptr<Communicator> try_hierarchical_communicator(const HierarchicalOptions& /*options*/,
                                                            std::string* /*why_not*/) {
  throw not_built();
}

}  // namespace muster::inline v0_1
