#include "muster/summary/live_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// Whole microseconds are short, and fast to write.
json replica_json(const ActivityNow& replica) {
  json steps = json::array();
  for (const StepSeconds& step : replica.last) {
    json one = json::array({step.step});
    for (const float seconds : step.seconds) one.push_back(std::llround(seconds * 1e6));
    steps.push_back(std::move(one));
  }
  return {{"task", replica.task},       {"activity", plan::to_string(replica.activity)},
          {"seconds", replica.seconds}, {"step", replica.step},
          {"bucket", replica.bucket},   {"buckets", replica.buckets},
          {"epoch", replica.epoch},     {"steps", std::move(steps)}};
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
    StepSeconds one{.step = step.at(0).get<int64_t>()};
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c]) {
        one.seconds[static_cast<size_t>(*columns[c])] =
            static_cast<float>(step.at(c + 1).get<double>() * 1e-6);
      }
    }
    replica.last.push_back(one);
  }
  return replica;
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
  for (size_t a = 0; a < kActivities; ++a)
    activities.push_back(plan::to_string(static_cast<Activity>(a)));
  for (const ActivityNow& replica : status.replicas) replicas.push_back(replica_json(replica));
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
  if (done.ok()) done = files.rename(staging, path);
  return done;
}

std::vector<LiveStatus> read_live_statuses(FileSystem& files, const std::string& model_dir) {
  const std::string folder = join_path(model_dir, kLiveFolder);
  const auto names = files.list_directory(folder);
  std::vector<LiveStatus> all;
  if (!names.ok()) return all;
  for (const std::string& name : names.value()) {
    if (!name.ends_with(".json") || all.size() == kMostTasks) continue;
    const std::string path = join_path(folder, name);
    const auto text = read_small_file(files, path, kMostBytes);
    if (!text.ok()) continue;
    auto status = parse_live_status(text.value(), path);
    if (status.ok()) all.push_back(std::move(status.value()));
  }
  double begun = 0;
  for (const LiveStatus& status : all) {
    if (status.process == 0) begun = std::max(begun, status.started);
  }
  std::erase_if(all, [&](const LiveStatus& status) { return status.written < begun; });
  std::ranges::sort(all, {}, [](const LiveStatus& status) {
    return std::tuple(!status.trains(), status.process, status.task);
  });
  return all;
}

}  // namespace muster::inline v0_1::summary
