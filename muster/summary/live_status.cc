#include "muster/summary/live_status.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/small_file.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1::summary {
namespace {

using nlohmann::json;
using plan::Activity;
using plan::ActivityNow;
using plan::kActivities;
using plan::StepSeconds;

constexpr const char* kFormat = "muster.live.1";
constexpr uint64_t kMostBytes = 4 << 20;
constexpr size_t kMostTasks = 4096;

std::optional<Activity> activity_of(const std::string& name) {
  for (size_t a = 0; a < kActivities; ++a) {
    if (plan::to_string(static_cast<Activity>(a)) == name) return static_cast<Activity>(a);
  }
  return std::nullopt;
}

// Those in which a replica has spent time.
std::vector<Activity> activities_of(const std::vector<ActivityNow>& replicas) {
  std::vector<Activity> all;
  for (size_t a = 0; a < kActivities; ++a) {
    const auto activity = static_cast<Activity>(a);
    const auto has = [&](const StepSeconds& seconds) { return seconds.of(activity) != 0; };
    if (std::ranges::any_of(replicas, [&](const ActivityNow& replica) {
          return has(replica.whole) || std::ranges::any_of(replica.last, has);
        }))
      all.push_back(activity);
  }
  return all;
}

// Whole microseconds are short, and fast to write.
json microseconds(json begin, const StepSeconds& seconds, const std::vector<Activity>& columns) {
  for (const Activity column : columns) begin.push_back(std::llround(seconds.of(column) * 1e6));
  return begin;
}

json replica_json(const ActivityNow& replica, const std::vector<Activity>& columns) {
  json steps = json::array();
  for (const StepSeconds& step : replica.last)
    steps.push_back(microseconds(json::array({step.step}), step, columns));
  return {{"task", replica.task},
          {"activity", plan::to_string(replica.activity)},
          {"seconds", replica.seconds},
          {"step", replica.step},
          {"bucket", replica.bucket},
          {"buckets", replica.buckets},
          {"epoch", replica.epoch},
          {"steps", std::move(steps)},
          {"whole", microseconds(json::array(), replica.whole, columns)}};
}

// `from` begins with `before` numbers that are no seconds.
StepSeconds seconds_of(const json& from, size_t before,
                       const std::vector<std::optional<Activity>>& columns) {
  StepSeconds seconds;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c]) {
      seconds.seconds[static_cast<size_t>(*columns[c])] =
          static_cast<float>(from.at(c + before).get<double>() * 1e-6);
    }
  }
  return seconds;
}

ActivityNow replica_of(const json& from, const std::vector<std::optional<Activity>>& columns) {
  ActivityNow replica{
      .task = from.at("task").get<std::string>(),
      .activity = activity_of(from.at("activity").get<std::string>()).value_or(Activity::kOther),
      .seconds = from.at("seconds").get<double>(),
      .step = from.at("step").get<int64_t>(),
      .bucket = from.at("bucket").get<int>(),
      .buckets = from.at("buckets").get<int>(),
      .epoch = from.value("epoch", int64_t{-1})};
  for (const json& step : from.at("steps")) {
    replica.last.push_back(seconds_of(step, 1, columns));
    replica.last.back().step = step.at(0).get<int64_t>();
  }
  // A task of an earlier version does not say it.
  if (from.contains("whole")) replica.whole = seconds_of(from.at("whole"), 0, columns);
  return replica;
}

// FileSystem::rename() lets the new name survive a crash, and waits for the disk. Two files that
// exchange their names do not, nor are they written to the disk before they are replaced.
Status put_in_place(FileSystem& files, const std::string& staging, const std::string& path) {
  const bool exchanged =
      ::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0;
  return exchanged ? files.remove(staging) : files.rename(staging, path);
}

LiveStatus status_of(const json& document) {
  LiveStatus status{.task = document.at("task").get<std::string>(),
                    .process = document.at("process").get<int64_t>(),
                    .processes = document.at("processes").get<int64_t>(),
                    .at_own_pace = document.at("at_own_pace").get<bool>(),
                    .host = document.at("host").get<std::string>(),
                    .pid = document.at("pid").get<int64_t>(),
                    .command = document.at("command").get<std::vector<std::string>>(),
                    .version = document.at("version").get<std::string>(),
                    .started = document.at("started").get<double>(),
                    .written = document.at("written").get<double>(),
                    .every = document.at("every").get<double>(),
                    .earlier_starts = document.value("earlier_starts", int64_t{0}),
                    .last_step = document.at("last_step").get<int64_t>(),
                    .collective = document.at("collective").get<std::string>(),
                    .collective_seconds = document.at("collective_seconds").get<double>(),
                    .saving = document.at("saving").get<int64_t>(),
                    .memory = document.at("memory").get<int64_t>(),
                    .device_memory = document.value("device_memory", int64_t{0}),
                    .device_reserved = document.value("device_reserved", int64_t{0}),
                    .measures = document.at("measures").get<std::map<std::string, double>>(),
                    .end = document.at("end").get<std::string>(),
                    .error = document.at("error").get<std::string>(),
                    .exit_code = document.at("exit_code").get<int64_t>()};
  std::vector<std::optional<Activity>> columns;
  for (const json& name : document.at("activities"))
    columns.push_back(activity_of(name.get<std::string>()));
  for (const json& replica : document.at("replicas"))
    status.replicas.push_back(replica_of(replica, columns));
  for (const json& line : document.at("log")) {
    status.log.push_back(
        {line.at(0).get<double>(), line.at(1).get<std::string>(), line.at(2).get<std::string>()});
  }
  return status;
}

}  // namespace

std::string_view own_version() { return MUSTER_VERSION; }

std::string encode_live_status(const LiveStatus& status) {
  json activities = json::array(), replicas = json::array(), log = json::array();
  const std::vector<Activity> columns = activities_of(status.replicas);
  for (const Activity column : columns) activities.push_back(plan::to_string(column));
  for (const ActivityNow& replica : status.replicas)
    replicas.push_back(replica_json(replica, columns));
  for (const LiveStatus::Line& line : status.log) log.push_back({line.time, line.level, line.text});
  const json document{{"format", kFormat},
                      {"task", status.task},
                      {"process", status.process},
                      {"processes", status.processes},
                      {"at_own_pace", status.at_own_pace},
                      {"host", status.host},
                      {"pid", status.pid},
                      {"command", status.command},
                      {"version", status.version},
                      {"started", status.started},
                      {"written", status.written},
                      {"every", status.every},
                      {"earlier_starts", status.earlier_starts},
                      {"last_step", status.last_step},
                      {"activities", std::move(activities)},
                      {"replicas", std::move(replicas)},
                      {"collective", status.collective},
                      {"collective_seconds", status.collective_seconds},
                      {"saving", status.saving},
                      {"memory", status.memory},
                      {"device_memory", status.device_memory},
                      {"device_reserved", status.device_reserved},
                      {"measures", status.measures},
                      {"log", std::move(log)},
                      {"end", status.end},
                      {"error", status.error},
                      {"exit_code", status.exit_code}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<LiveStatus> parse_live_status(std::string_view text, const std::string& path) {
  Result<json> parsed = parse_json(text, path, ErrorKind::kCorrupt);
  if (!parsed.ok()) return parsed.error();
  try {
    if (parsed.value().at("format").get<std::string>() != kFormat)
      return corrupt(path + " is not the status of a task: it has another format");
    return status_of(parsed.value());
  } catch (const json::exception& error) {
    return corrupt(fmt::format("{} is not the status of a task: {}", path, error.what()));
  }
}

Result<LiveStatus> read_live_status(FileSystem& files, const std::string& path) {
  const auto text = read_small_file(files, path, kMostBytes);
  if (!text.ok()) return text.error();
  return parse_live_status(text.value(), path);
}

std::string live_path(const std::string& model_dir, const std::string& task) {
  std::string name = task + ".json";
  std::ranges::replace(name, ' ', '-');
  return join_path(join_path(model_dir, kLiveFolder), name);
}

Status write_live_status(FileSystem& files, const std::string& model_dir, const LiveStatus& status,
                         bool may_make_dir) {
  const std::string path = live_path(model_dir, status.task);
  const std::string text = encode_live_status(status);
  // A store replaces an object in one request.
  if (is_remote(path)) return files.write_atomically(path, text);
  const std::string staging = path + ".new";
  // One that a killed process left would be continued.
  if (Status gone = files.remove(staging);
      !gone.ok() && gone.error().kind() != ErrorKind::kNotFound)
    return gone;
  auto writer = files.open_writer(staging);
  if (!writer.ok()) {
    if (!may_make_dir && !files.exists(model_dir).value_or(false)) return writer.error();
    if (Status made = files.make_directories(join_path(model_dir, kLiveFolder)); !made.ok())
      return made;
    writer = files.open_writer(staging);
  }
  if (!writer.ok()) return writer.error();
  Status done = writer.value()->append(bytes_of(text));
  if (done.ok()) done = writer.value()->close();
  if (done.ok()) done = put_in_place(files, staging, path);
  return done;
}

std::vector<LiveStatus> read_live_statuses(FileSystem& files, const std::string& model_dir) {
  const std::string folder = join_path(model_dir, kLiveFolder);
  const auto names = files.list_directory(folder);
  std::vector<LiveStatus> all;
  if (!names.ok()) return all;
  for (const std::string& name : names.value()) {
    if (!name.ends_with(".json") || all.size() == kMostTasks) continue;
    auto status = read_live_status(files, join_path(folder, name));
    if (status.ok()) all.push_back(std::move(status.value()));
  }
  double begun = 0;
  for (const LiveStatus& status : all) {
    // A date that was set back since says nothing of before and after.
    if (status.process == 0 && status.written >= status.started)
      begun = std::max(begun, status.started);
  }
  std::erase_if(all, [&](const LiveStatus& status) { return status.written < begun; });
  std::ranges::sort(all, {}, [](const LiveStatus& status) {
    return std::tuple(!status.trains(), status.process, status.task);
  });
  return all;
}

}  // namespace muster::inline v0_1::summary
