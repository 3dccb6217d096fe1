#include "muster/board/searches.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/json.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;

constexpr uint64_t kMostSearchBytes = 32 << 20;
constexpr size_t kCurvePoints = 200;  // of a trial's curve

// At most kCurvePoints of the measurements, spread evenly, the last among them.
json curve_of(const json& measurements) {
  json curve = json::array();
  const size_t count = measurements.size(), most = std::min(count, kCurvePoints);
  for (size_t point = 0; point < most; ++point) {
    const json& each = measurements[(point + 1) * count / most - 1];
    if (each.at(0).is_number() && each.at(1).is_number()) curve.push_back({each.at(0), each.at(1)});
  }
  return curve;
}

// A trial for the page. Throws json::exception for another form than that of jobs/search.cc.
json trial_json(const json& saved, bool maximize) {
  json trial = {{"number", saved.at("number")},
                {"values", saved.at("values")},
                {"state", saved.at("state")},
                {"failure", saved.at("failure")},
                {"exit_code", saved.at("exit_code")},
                {"log", saved.at("log")},
                {"best", nullptr},
                {"best_step", nullptr},
                {"last", nullptr}};
  const json& measurements = saved.at("measurements");
  trial["measurements"] = measurements.size();
  trial["curve"] = curve_of(measurements);
  for (const json& each : measurements) {
    const json &step = each.at(0), &value = each.at(1);
    if (!value.is_number()) continue;
    trial["last"] = value;
    const bool better =
        trial["best"].is_null() || (maximize ? value > trial["best"] : value < trial["best"]);
    if (!better) continue;
    trial["best"] = value;
    trial["best_step"] = step;
  }
  return trial;
}

}  // namespace

json search_json(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, kSearchFile);
  const Result<uint64_t> size = files.file_size(path);
  if (!size.ok() || size.value() > kMostSearchBytes) return nullptr;
  const Result<std::string> text = files.read_file(path);
  if (!text.ok()) return nullptr;
  const Result<json> saved = parse_json(text.value(), path, ErrorKind::kCorrupt);
  if (!saved.ok()) return nullptr;
  try {
    const json& what = saved.value().at("search");
    const bool maximize = what.at("maximize").get<bool>();
    json trials = json::array();
    for (const json& trial : saved.value().at("trials"))
      trials.push_back(trial_json(trial, maximize));
    return {{"directory", directory},
            {"maximize", maximize},
            {"metric", what.at("metric")},
            {"trials", trials}};
  } catch (const json::exception&) {
    return nullptr;
  }
}

}  // namespace muster::inline v0_1::board
