#include "muster/distribute/shared_run.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/distribute/replica.h"

namespace muster::inline v0_1::distribute {

void check_in_step(const Replica& replica, const std::string& what) {
  if (replica.place().in_sync) return;
  throw invalid_argument(
      fmt::format("not supported: {} on parameter servers", what),
      "train an Estimator there; or take distribute::multi_worker_mirrored() in every task, and "
      "remove \"ps\" from \"cluster\" in TF_CONFIG");
}

}  // namespace muster::inline v0_1::distribute
