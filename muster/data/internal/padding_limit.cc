#include "muster/data/internal/padding_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/memory_size.h"
#include "muster/base/parse_limits.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::data::internal {

void check_padding(const std::string& what, double padded_bytes, uint64_t read_bytes) {
  constexpr double kLittle = 1 << 26;
  if (padded_bytes <= kLittle) return;
  const auto shown = [](double bytes) {
    return human_bytes(static_cast<uint64_t>(std::min(bytes, 0x1p63)));
  };
  constexpr const char* kHint =
      "put rows of nearly one length together with bucket_by_sequence_length(), use a smaller "
      "batch "
      "size, or leave out the rows that are so long";
  if (padded_bytes > static_cast<double>(kMostUnpacked) * static_cast<double>(read_bytes)) {
    throw invalid_argument(
        fmt::format("{}, takes {} when it is filled up, more than {} times the {} it was read from",
                    what, shown(padded_bytes), kMostUnpacked, human_bytes(read_bytes)),
        kHint);
  }
  const auto memory = static_cast<double>(memory_size());
  if (padded_bytes <= memory) return;
  throw invalid_argument(fmt::format("{}, takes {} when it is filled up, and this machine has {}",
                                     what, shown(padded_bytes), shown(memory)),
                         kHint);
}

}  // namespace muster::inline v0_1::data::internal
