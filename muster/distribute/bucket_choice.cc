#include "muster/distribute/bucket_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "muster/base/log.h"
#include "muster/collectives/measure.h"
#include "muster/plan/communication_cost.h"

namespace muster::inline v0_1::distribute {

plan::BucketOptions choose_buckets(Communicator& communicator, int64_t bytes,
                                   std::optional<int64_t> bytes_per_pack, bool tells) {
  plan::BucketOptions buckets;
  if (bytes_per_pack == 0) {
    buckets.first_bucket_bytes = buckets.bucket_bytes = std::numeric_limits<int64_t>::max();
    return buckets;
  }
  if (bytes_per_pack) {
    buckets.bucket_bytes = *bytes_per_pack;
    buckets.first_bucket_bytes = std::min(buckets.first_bucket_bytes, buckets.bucket_bytes);
    return buckets;
  }
  // Where their size shows in the bits, it may not be another one in each run.
  if (!communicator.sums_in_rank_order()) return buckets;
  const plan::CommunicationCost cost = measure_all_reduce(communicator);
  buckets = plan::choose_buckets(cost, bytes);
  const std::optional<int64_t> at_once = communicator.tune(cost);
  if (tells) {
    log::debug(
        fmt::format("gradients of {:.1f} MB, in buckets of {:.1f} MB: a message takes {:.1f} us, a "
                    "MB {:.0f} us{}",
                    static_cast<double>(bytes) * 1e-6,
                    static_cast<double>(std::min(buckets.bucket_bytes, bytes)) * 1e-6,
                    cost.latency * 1e6, cost.seconds_per_byte * 1e12,
                    at_once ? fmt::format("; up to {:.1f} KB are summed in one exchange",
                                          static_cast<double>(*at_once) * 1e-3)
                            : ""));
  }
  return buckets;
}

}  // namespace muster::inline v0_1::distribute
