#include "muster/train/internal/merge_summaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/summary/histogram.h"

namespace muster::inline v0_1::internal {
namespace {

using formats::Histogram;
using nlohmann::json;

Histogram histogram_of(const json& from) {
  return {.min = from[0],
          .max = from[1],
          .count = from[2],
          .sum = from[3],
          .sum_squares = from[4],
          .limits = from[5],
          .counts = from[6]};
}

// Each is [batch, value, weight]. In the order of the batches, whichever replica had them: so the
// bits do not depend on the number of replicas.
double weighted_mean(std::vector<json> numbers) {
  std::ranges::stable_sort(numbers, {},
                           [](const json& number) { return number[0].get<int64_t>(); });
  const auto value = [](const json& number) { return number[1].get<double>(); };
  const double first = value(numbers[0]);
  // A number that is the same everywhere is not rounded.
  const auto same = [&](const json& number) { return value(number) == first; };
  if (std::ranges::all_of(numbers, same)) return first;
  double sum = 0, weights = 0;
  for (const json& number : numbers) {
    sum += value(number) * number[2].get<double>();
    weights += number[2].get<double>();
  }
  return sum / weights;
}

}  // namespace

json histogram_json(const Histogram& histogram) {
  return {histogram.min,         histogram.max,    histogram.count, histogram.sum,
          histogram.sum_squares, histogram.limits, histogram.counts};
}

Error mixed_kinds(const std::string& tag) {
  return invalid_argument(
      fmt::format("the summary \"{}\" is of two kinds: in another batch, or on another replica, it "
                  "was something else",
                  tag),
      "give each kind a different name");
}

std::vector<formats::SummaryValue> merge_summaries(const std::vector<json>& parts) {
  std::map<std::string, std::vector<json>> scalars;
  std::map<std::string, Histogram> histograms;
  for (const json& part : parts) {
    for (const auto& [tag, numbers] : part.at("scalars").items()) {
      for (const json& number : numbers) scalars[tag].push_back(number);
    }
    for (const auto& [tag, histogram] : part.at("histograms").items()) {
      const auto [known, fresh] = histograms.emplace(tag, histogram_of(histogram));
      if (!fresh) known->second = summary::merge_histograms(known->second, histogram_of(histogram));
    }
  }
  std::vector<formats::SummaryValue> values;
  for (auto& [tag, numbers] : scalars) {
    if (histograms.contains(tag)) throw mixed_kinds(tag);
    values.push_back({tag, static_cast<float>(weighted_mean(std::move(numbers)))});
  }
  for (auto& [tag, histogram] : histograms) values.push_back({tag, std::move(histogram)});
  return values;
}

}  // namespace muster::inline v0_1::internal
