#include "muster/cluster/internal/partial_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

// A list of hosts may be long.
std::string shown(const std::string& text) {
  constexpr size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// "A, B and C".
std::string listed(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return join(parts, "");
  return join({parts.begin(), parts.end() - 1}, ", ") + " and " + parts.back();
}

std::string are(const std::vector<std::string>& names, std::string_view what) {
  return fmt::format("{} {} {}", listed(names), names.size() == 1 ? "is" : "are", what);
}

// A rank or a size of all processes, as it was read.
struct Number {
  const char* variable;
  int64_t value;
};

bool means_others(Counts counts, int64_t number) {
  switch (counts) {
    case Counts::kRank:
      return number > 0;
    case Counts::kSize:
    case Counts::kLocalSize:
      return number > 1;
    case Counts::kMaybe:
    case Counts::kNothing:
      break;
  }
  return false;
}

}  // namespace

std::optional<PartialEnvironment> find_partial_environment(const Environment& environment,
                                                           std::span<const PlaceVariable> variables,
                                                           std::string_view fix,
                                                           std::string_view instead) {
  PartialEnvironment partial{.fix = std::string(fix)};
  bool is_this_launcher = false;
  std::vector<std::string> said, absent, empty;
  std::optional<Number> rank, size;
  bool has_rank = false;
  for (const PlaceVariable& variable : variables) {
    const std::optional<std::string> text = environment.get(variable.name);
    is_this_launcher = is_this_launcher || (text && variable.own);
    if (!text || text->empty()) {
      if (!variable.needed) continue;
      (text ? empty : absent).emplace_back(variable.name);
      // An empty value is a mistake; and without a size it is unknown whether there is only one
      // process.
      partial.is_doubtful = partial.is_doubtful || text || variable.counts == Counts::kSize;
      continue;
    }
    said.push_back(fmt::format("{} is {}", variable.name, shown(*text)));
    const auto number = variable.read != nullptr ? variable.read(*text) : parse_int(*text);
    if (!number) continue;
    // The first rank of a launcher is that among all its processes.
    if (variable.counts == Counts::kRank && !rank) rank = Number{variable.name, *number};
    has_rank = has_rank || (variable.counts == Counts::kRank && variable.needed);
    if (variable.counts == Counts::kSize && !size) size = Number{variable.name, *number};
    partial.means_cluster = partial.means_cluster || means_others(variable.counts, *number);
    partial.is_doubtful = partial.is_doubtful || (variable.counts == Counts::kMaybe && *number > 1);
  }
  // Its siblings, which have a rank above 0, refuse to train too.
  partial.means_cluster = partial.means_cluster || (has_rank && !size);
  partial.lacking = absent.size() + empty.size();
  if (rank && size) {
    partial.claim =
        PlaceClaim{.variables = fmt::format("{} and {}", rank->variable, size->variable),
                   .rank = rank->value,
                   .size = size->value};
  }
  if (!is_this_launcher || (partial.lacking == 0 && instead.empty())) return std::nullopt;
  std::vector<std::string> why;
  if (!empty.empty()) why.push_back(are(empty, "empty"));
  if (!absent.empty()) why.push_back(are(absent, "not there"));
  if (partial.lacking == 0) why.emplace_back(instead);
  partial.finding = (said.empty() ? "" : listed(said) + ", and ") + join(why, ", and ");
  return partial;
}

const PartialEnvironment* plainest(std::span<const PartialEnvironment> partials) {
  const auto order = [](const PartialEnvironment& partial) {
    return std::pair(partial.means_cluster ? 0 : partial.is_doubtful ? 1 : 2, partial.lacking);
  };
  const auto first = std::ranges::min_element(partials, {}, order);
  if (first == partials.end() || !(first->means_cluster || first->is_doubtful)) return nullptr;
  return &*first;
}

Error refusal_of(const PartialEnvironment& partial) {
  return invalid_argument(
      partial.finding + ": this looks like one of several processes, but it would train alone",
      partial.fix + "; MUSTER_CLUSTER=local trains alone");
}

std::string note_of(const PartialEnvironment& partial) {
  return fmt::format(
      "{}: this process trains alone. If it is one of several, {}; if it should train alone, set "
      "MUSTER_CLUSTER=local",
      partial.finding, partial.fix);
}

}  // namespace muster::inline v0_1::cluster::internal
