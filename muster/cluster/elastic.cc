#include "muster/cluster/elastic.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/pet.h"

namespace muster::inline v0_1::cluster {

int min_workers(const Environment& environment, std::string_view source) {
  const std::string text = environment.get_or("MUSTER_MIN_WORKERS", "");
  if (text.empty())
    return source == internal::pet_source().name ? min_workers_of_pet(environment) : 0;
  constexpr int kMost = 100'000;
  const std::optional<int64_t> number = parse_int(text);
  if (number && *number >= 0 && *number <= kMost) return static_cast<int>(*number);
  throw invalid_argument(
      fmt::format("MUSTER_MIN_WORKERS is '{}'", text),
      "set it to the least number of workers that an elastic run needs, or to 0 for none");
}

}  // namespace muster::inline v0_1::cluster
