#include "muster/board/task_report.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/json.h"
#include "muster/base/small_file.h"
#include "muster/board/live_json.h"
#include "muster/launch/run_record.h"
#include "muster/summary/live_run.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;
using summary::LiveRun;
using summary::LiveStatus;

constexpr uint64_t kMostLaunchBytes = 4 << 20;

json launch_of(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, launch::kLaunchFile);
  const Result<std::string> text = read_small_file(files, path, kMostLaunchBytes);
  if (!text.ok()) return nullptr;
  Result<json> parsed = parse_json(text.value(), path, ErrorKind::kCorrupt);
  if (!parsed.ok()) return nullptr;
  try {
    // As run_record.cc writes it.
    for (const json& task : parsed.value().at("tasks")) {
      task.at("name").get<std::string>();
      for (const json& start : task.at("starts")) start.at("exit").get<std::string>();
    }
  } catch (const json::exception&) {
    return nullptr;
  }
  return std::move(parsed).value();
}

// The slow task, if all tasks were still at their last steps.
json straggler_of_all(FileSystem& files, const std::string& directory) {
  std::vector<LiveStatus> statuses = summary::read_live_statuses(files, directory);
  for (LiveStatus& status : statuses) {
    status.end.clear();
    status.written = 0;
  }
  const LiveRun run = summary::live_run(std::move(statuses), 0);
  if (!run.straggler) return nullptr;
  return {{"name", run.replicas[run.straggler->task].now.task}, {"text", run.straggler_text}};
}

}  // namespace

json task_report_json(FileSystem& files, const std::string& directory) {
  json run = live_json(files, directory, system_clock().wall_seconds());
  json launched = launch_of(files, directory);
  if (run.is_null() && launched.is_null()) return nullptr;
  if (run.is_null()) {
    run = {
        {"directory", directory}, {"tasks", json::array()}, {"missing", 0}, {"straggler", nullptr}};
  }
  if (run["straggler"].is_null()) run["straggler"] = straggler_of_all(files, directory);
  run["launch"] = std::move(launched);
  return run;
}

}  // namespace muster::inline v0_1::board
