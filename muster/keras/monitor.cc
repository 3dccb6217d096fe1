#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/keras/callbacks.h"

namespace muster::inline v0_1::keras {
namespace {

bool lower_is_better(const std::string& name, MonitorMode mode) {
  if (mode != MonitorMode::kAuto) return mode == MonitorMode::kMin;
  constexpr std::array<std::string_view, 6> kHigher{"acc",       "accuracy", "auc",
                                                    "precision", "recall",   "score"};
  return std::ranges::none_of(kHigher,
                              [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

Monitor::Monitor(std::string whose, std::string name, MonitorMode mode, double min_delta)
    : whose_(std::move(whose)),
      name_(std::move(name)),
      lower_(keras::lower_is_better(name_, mode)),
      min_delta_(min_delta),
      best_(lower_ ? std::numeric_limits<double>::infinity()
                   : -std::numeric_limits<double>::infinity()) {}

std::optional<double> Monitor::value(const Logs& logs) const {
  const auto found = logs.find(name_);
  if (found != logs.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : logs) names.push_back(name);
  log::warning_once(
      fmt::format("{} looks for \"{}\", which is not among the logs of an epoch: {}; give fit() "
                  "validation_data for names with \"val_\"",
                  whose_, name_, join_quoted(names)));
  return std::nullopt;
}

bool Monitor::is_better_than(double value, double other) const {
  return lower_ ? value < other - min_delta_ : value > other + min_delta_;
}

}  // namespace muster::inline v0_1::keras
