#include "muster/data/internal/batch_checks.h"

#include "muster/base/error.h"
#include "muster/base/memory_size.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::data::internal {

void check_fits(const Node& batch, int64_t rows, const std::function<uint64_t()>& row_bytes) {
  constexpr int64_t kManyRows = 1 << 16;  // so few need no look at the machine
  if (rows <= kManyRows) return;
  const double needed = static_cast<double>(rows) * static_cast<double>(row_bytes());
  const auto memory = static_cast<double>(memory_size());
  if (needed <= memory) return;
  throw invalid_argument(
      fmt::format("a batch of {} rows needs {} or more, and this machine has {}: {}", rows,
                  human_bytes(static_cast<uint64_t>(needed)),
                  human_bytes(static_cast<uint64_t>(memory)), batch.description),
      "use a smaller batch size");
}

}  // namespace muster::inline v0_1::data::internal
