#include "muster/distribute/register_strategy.h"
#include "muster/tpu/tpu_strategy.h"

// The part's target refers to this name, so that the linker takes this file out of the archive.
extern "C" {
extern const int muster_tpu_linked;
const int muster_tpu_linked = 1;
}

namespace {

[[maybe_unused]] const bool registered = [] {
  muster::distribute::register_strategy(
      "tpu", [] { return muster::distribute::tpu(muster::cluster::TpuResolver()); });
  return true;
}();

}  // namespace
