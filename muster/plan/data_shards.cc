#include "muster/plan/data_shards.h"

#include <algorithm>

namespace muster::inline v0_1::plan {

std::vector<int64_t> batch_sizes_for_worker(int64_t global_batch, int64_t num_workers,
                                            int64_t replicas_per_worker, int64_t index) {
  const int64_t replicas = num_workers * replicas_per_worker;
  std::vector<int64_t> sizes;
  for (int64_t r = 0; r < replicas; ++r) {
    sizes.push_back(global_batch / replicas + (r < global_batch % replicas ? 1 : 0));
  }
  std::rotate(sizes.begin(), sizes.begin() + index * replicas_per_worker, sizes.end());
  return sizes;
}

}  // namespace muster::inline v0_1::plan
