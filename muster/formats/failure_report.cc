#include "muster/formats/failure_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr const char* kFailureFormat = "muster.failure.1";
constexpr int64_t kMostRanks = 1 << 20;
constexpr double kLatest = 1e11;  // Unix time that a calendar still shows

}  // namespace

std::string encode_failure_report(const FailureReport& report) {
  nlohmann::json calls = nlohmann::json::array();
  for (const FailureReport::Call& call : report.calls) {
    calls.push_back({{"transport", call.transport},
                     {"rank", call.rank},
                     {"size", call.size},
                     {"number", call.number},
                     {"call", call.call},
                     {"before", call.before},
                     {"seconds", call.seconds},
                     {"failure", call.failure}});
  }
  const nlohmann::json document{{"format", kFailureFormat},    {"task", report.task},
                                {"step", report.step},         {"error", report.error},
                                {"time", report.wall_seconds}, {"calls", std::move(calls)}};
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<FailureReport> parse_failure_report(std::string_view text, const std::string& path) {
  Result<nlohmann::json> parsed = parse_json(text, path, ErrorKind::kCorrupt);
  if (!parsed.ok()) return parsed.error();
  try {
    const nlohmann::json& document = parsed.value();
    if (document.at("format").get<std::string>() != kFailureFormat)
      return corrupt(path + " is not a report of a failure: it has another format");
    FailureReport report{.task = document.at("task").get<std::string>(),
                         .step = document.at("step").get<int64_t>(),
                         .error = document.at("error").get<std::string>(),
                         .wall_seconds = document.at("time").get<double>()};
    if (!(report.wall_seconds >= 0 && report.wall_seconds < kLatest))
      return corrupt(fmt::format("{} is not a report of a failure: its time is {} s after 1970",
                                 path, report.wall_seconds));
    for (const nlohmann::json& call : document.at("calls")) {
      report.calls.push_back({.transport = call.at("transport").get<std::string>(),
                              .rank = call.at("rank").get<int64_t>(),
                              .size = call.at("size").get<int64_t>(),
                              .number = call.at("number").get<int64_t>(),
                              .call = call.at("call").get<std::string>(),
                              .before = call.at("before").get<double>(),
                              .seconds = call.at("seconds").get<double>(),
                              .failure = call.at("failure").get<std::string>()});
      const FailureReport::Call& one = report.calls.back();
      if (one.size < 1 || one.size > kMostRanks || one.rank < 0 || one.rank >= one.size)
        return corrupt(fmt::format("{} is not a report of a failure: it has rank {} of {}", path,
                                   one.rank, one.size));
    }
    return report;
  } catch (const nlohmann::json::exception& error) {
    return corrupt(fmt::format("{} is not a report of a failure: {}", path, error.what()));
  }
}

}  // namespace muster::inline v0_1::formats
