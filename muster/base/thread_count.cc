#include "muster/base/thread_count.h"

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {

std::optional<int> threads_asked_for(const Environment& environment) {
  constexpr int kMost = 4096;
  const std::string text = environment.get_or("MUSTER_THREADS", "");
  if (text.empty()) return std::nullopt;
  const std::optional<int64_t> threads = parse_int(text);
  const std::string hint =
      "it is the number of threads of a process; unset it for one on each core it may use";
  if (!threads || *threads < 1) {
    throw invalid_argument("MUSTER_THREADS is '" + text + "', not a positive whole number", hint);
  }
  if (*threads > kMost) {
    throw invalid_argument(
        "MUSTER_THREADS is " + text + ", more than " + std::to_string(kMost) + " threads", hint);
  }
  return static_cast<int>(*threads);
}

}  // namespace muster::inline v0_1
