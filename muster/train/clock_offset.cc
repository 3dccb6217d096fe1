#include "muster/train/internal/clock_offset.h"

#include <algorithm>
#include <limits>

namespace muster::inline v0_1::internal {

ClockOffset clock_offset(const std::vector<Meeting>& reference,
                         const std::vector<Meeting>& theirs) {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  for (size_t m = 0; m < reference.size(); ++m) {
    least = std::max(least, theirs[m].came - reference[m].left);
    most = std::min(most, theirs[m].left - reference[m].came);
  }
  if (least <= 0 && most >= 0) return {.offset = 0, .uncertainty = std::max(-least, most)};
  return {.offset = least + (most - least) / 2, .uncertainty = (most - least + 1) / 2};
}

}  // namespace muster::inline v0_1::internal
