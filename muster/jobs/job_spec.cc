#include "muster/jobs/job_spec.h"

#include <algorithm>
#include <numeric>

namespace muster::inline v0_1::jobs {

const Pool* JobSpec::pool(const std::string& role) const {
  const auto it = std::find_if(pools.begin(), pools.end(), [&](const Pool& pool) {
    return pool.role == role && pool.count > 0;
  });
  return it == pools.end() ? nullptr : &*it;
}

int JobSpec::task_count() const {
  return std::accumulate(pools.begin(), pools.end(), 0,
                         [](int sum, const Pool& pool) { return sum + pool.count; });
}

}  // namespace muster::inline v0_1::jobs
