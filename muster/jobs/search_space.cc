#include "muster/jobs/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr int64_t kMostPoints = 1'000'000'000;

using Type = HyperParameter::Type;
using Scale = HyperParameter::Scale;

// A position in [low, high), or of a logarithmic scale in [low, high].
double scaled(double low, double high, double share, Scale scale) {
  switch (scale) {
    case Scale::kNone:
    case Scale::kLinear:
      return low + share * (high - low);
    case Scale::kLog:
      return low * std::pow(high / low, share);
    case Scale::kReverseLog:
      return low + high - low * std::pow(high / low, 1 - share);
  }
  return low;
}

// The number of values; 0 for a double.
int64_t count_values(const HyperParameter& parameter) {
  switch (parameter.type) {
    case Type::kDouble:
      return 0;
    case Type::kInteger:
      return static_cast<int64_t>(
          std::min<double>(parameter.max_value - parameter.min_value + 1, kMostPoints));
    case Type::kCategorical:
      return static_cast<int64_t>(parameter.categories.size());
    case Type::kDiscrete:
      return static_cast<int64_t>(parameter.values.size());
  }
  return 0;
}

// Value `index` of a parameter that is not a double.
std::string listed_value(const HyperParameter& parameter, int64_t index) {
  const auto at = static_cast<size_t>(index);
  if (parameter.type == Type::kCategorical) return parameter.categories[at];
  if (parameter.type == Type::kDiscrete) return fmt::format("{}", parameter.values[at]);
  return fmt::format("{:.0f}", parameter.min_value + static_cast<double>(index));
}

void check_range(const HyperParameter& parameter) {
  const std::string name = fmt::format("the hyper-parameter '{}'", parameter.name);
  const auto range = [&] {
    return fmt::format("{} to {}", parameter.min_value, parameter.max_value);
  };
  if (!std::isfinite(parameter.min_value) || !std::isfinite(parameter.max_value) ||
      parameter.min_value > parameter.max_value) {
    throw invalid_argument(fmt::format("{} has the range {}", name, range()),
                           "minValue is at most maxValue, and both are numbers");
  }
  const bool logarithmic = parameter.scale == Scale::kLog || parameter.scale == Scale::kReverseLog;
  if (logarithmic && parameter.min_value <= 0) {
    throw invalid_argument(
        fmt::format("{} has a logarithmic scale over the range {}", name, range()),
        "give a minValue above 0, or UNIT_LINEAR_SCALE");
  }
  // Beyond it doubles leave whole numbers out.
  constexpr double kMostWhole = 9'007'199'254'740'992;
  const double largest = std::max(std::abs(parameter.min_value), std::abs(parameter.max_value));
  const bool whole = largest <= kMostWhole &&
                     std::floor(parameter.min_value) == parameter.min_value &&
                     std::floor(parameter.max_value) == parameter.max_value;
  if (parameter.type == Type::kInteger && !whole) {
    throw invalid_argument(fmt::format("{} is an INTEGER with the range {}", name, range()),
                           "give whole numbers of at most 2^53, or make it a DOUBLE");
  }
}

}  // namespace

void check_search(const HyperParameterSearch& search) {
  if (search.parameters.empty()) {
    throw invalid_argument("the search has no hyper-parameters", "list them under params");
  }
  std::set<std::string> names;
  for (const HyperParameter& parameter : search.parameters) {
    if (parameter.name.empty()) {
      throw invalid_argument("a hyper-parameter has no name",
                             "it becomes a flag of the program: --NAME=VALUE");
    }
    if (!names.insert(parameter.name).second) {
      throw invalid_argument(fmt::format("the hyper-parameter '{}' occurs twice", parameter.name),
                             "keep one of them");
    }
    if (parameter.type == Type::kDouble || parameter.type == Type::kInteger) {
      check_range(parameter);
    } else if (count_values(parameter) == 0) {
      throw invalid_argument(fmt::format("the hyper-parameter '{}' has no values", parameter.name),
                             parameter.type == Type::kCategorical ? "list them as categoricalValues"
                                                                  : "list them as discreteValues");
    }
    if (search.algorithm == HyperParameterSearch::Algorithm::kGrid &&
        parameter.type == Type::kDouble) {
      throw invalid_argument(fmt::format("a grid has no end over the DOUBLE '{}'", parameter.name),
                             "list its values as DISCRETE, or search with RANDOM_SEARCH");
    }
  }
}

std::string value_at(const HyperParameter& parameter, double share) {
  switch (parameter.type) {
    case Type::kDouble: {
      const double value = scaled(parameter.min_value, parameter.max_value, share, parameter.scale);
      // Nine digits are more than a search can distinguish, and short enough to read.
      return fmt::format("{:.9g}", std::clamp(value, parameter.min_value, parameter.max_value));
    }
    case Type::kInteger: {
      const double value =
          std::floor(scaled(parameter.min_value, parameter.max_value + 1, share, parameter.scale));
      return fmt::format("{:.0f}", std::clamp(value, parameter.min_value, parameter.max_value));
    }
    case Type::kCategorical:
    case Type::kDiscrete: {
      const int64_t count = count_values(parameter);
      const auto index = static_cast<int64_t>(share * static_cast<double>(count));
      return listed_value(parameter, std::clamp<int64_t>(index, 0, count - 1));
    }
  }
  return {};
}

TrialValues draw_values(const HyperParameterSearch& search, RandomKey key) {
  TrialValues values;
  for (const HyperParameter& parameter : search.parameters) {
    // By name, so that one parameter more changes no other.
    Random random(key.derive(id_of(parameter.name)));
    values[parameter.name] = value_at(parameter, random.uniform());
  }
  return values;
}

int64_t count_points(const HyperParameterSearch& search) {
  int64_t points = 1;
  for (const HyperParameter& parameter : search.parameters) {
    const int64_t count = count_values(parameter);
    if (count == 0) return 0;
    points = points > kMostPoints / count ? kMostPoints : points * count;
  }
  return points;
}

TrialValues grid_point(const HyperParameterSearch& search, int64_t index) {
  TrialValues values;
  for (auto it = search.parameters.rbegin(); it != search.parameters.rend(); ++it) {
    const int64_t count = count_values(*it);
    values[it->name] = listed_value(*it, index % count);
    index /= count;
  }
  return values;
}

}  // namespace muster::inline v0_1::jobs
