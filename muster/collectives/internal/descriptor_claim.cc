#include "muster/collectives/internal/descriptor_claim.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>

#include "muster/base/descriptor_limit.h"
#include "muster/base/error.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr int64_t kSpare = 16;  // for files that are opened meanwhile

// Claims that overlap are counted on top of the descriptors that were open before the first of
// them: the number that they have opened so far is unknown.
struct Claims {
  std::mutex mutex{};
  int64_t count = 0;
  int64_t open = 0;
  int64_t claimed = 0;
};

Claims& all_claims() {
  static Claims one;
  return one;
}

// Nothing if the system does not say.
std::optional<int64_t> count_open() {
  std::error_code error;
  const std::filesystem::directory_iterator entries("/proc/self/fd", error);
  if (error) return std::nullopt;
  return std::distance(begin(entries), end(entries)) - 1;  // except the descriptor that reads this
}

}  // namespace

DescriptorClaim::DescriptorClaim(int64_t count, const std::string& what) : count_(count) {
  Claims& all = all_claims();
  const std::lock_guard lock(all.mutex);
  if (all.count == 0) {
    all.open = count_open().value_or(0);
    all.claimed = 0;
  }
  rlimit limit{};
  const auto needed = static_cast<uint64_t>(all.open + all.claimed + count + kSpare);
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && needed > limit.rlim_cur) {
    if (const uint64_t most = raise_descriptor_limit(); needed > most) {
      throw Error(ErrorKind::kUnavailable,
                  fmt::format("{} takes {} file descriptors; this process has {} open, its other "
                              "ranks take {}, and {} is the limit",
                              what, count, all.open, all.claimed, most),
                  "raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile= of "
                  "a container), or train with fewer local replicas");
    }
  }
  ++all.count;
  all.claimed += count;
}

DescriptorClaim::~DescriptorClaim() {
  Claims& all = all_claims();
  const std::lock_guard lock(all.mutex);
  --all.count;
  if (!kept_) all.claimed -= count_;
}

}  // namespace muster::inline v0_1::internal
