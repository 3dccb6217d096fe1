#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "muster/base/better.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/internal/model_impl.h"

namespace muster::inline v0_1::keras {

Monitor::Monitor(std::string whose, std::string name, MonitorMode mode, double min_delta)
    : whose_(std::move(whose)), name_(std::move(name)), mode_(mode), min_delta_(min_delta) {}

void Monitor::learn(const Model& model, bool there) {
  if (mode_ != MonitorMode::kAuto) return;
  const std::string name = name_.starts_with("val_") ? name_.substr(4) : name_;
  const auto& known = internal::ModelAccess::impl(model).better;
  auto metric = known.find(name);
  // A part of a metric is better where the metric is.
  if (metric == known.end()) metric = known.find(name.substr(0, name.find('/')));
  Better better = metric == known.end() ? Better::kUnknown : metric->second;
  if (better == Better::kUnknown) better = better_by_name(name);
  if (better != Better::kUnknown) {
    mode_ = better == Better::kHigher ? MonitorMode::kMax : MonitorMode::kMin;
    return;
  }
  if (!there && metric == known.end()) return;
  throw invalid_argument(
      fmt::format("{} monitors \"{}\", but it is unknown whether higher or lower values are better",
                  whose_, name_),
      "give it .mode = keras::MonitorMode::kMax, or kMin; or say it of the metric: "
      "keras::MetricChoice(\"name\", function, Better::kHigher)");
}

std::optional<double> Monitor::value(const Logs& logs) const {
  const auto found = logs.find(name_);
  if (found != logs.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : logs) names.push_back(name);
  log::warning_once(
      fmt::format("{} needs \"{}\", which is not in the logs of an epoch: {}; for names with "
                  "\"val_\" give fit() validation_data",
                  whose_, name_, join_quoted(names)));
  return std::nullopt;
}

bool Monitor::is_better(double value) const {
  return !std::isnan(value) && (!best_ || is_better_than(value, *best_));
}

bool Monitor::is_better_than(double value, double other) const {
  return lower_is_better() ? value < other - min_delta_ : value > other + min_delta_;
}

double Monitor::best() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return best_.value_or(lower_is_better() ? kInfinity : -kInfinity);
}

}  // namespace muster::inline v0_1::keras
