#include "muster/board/live_json.h"

#include <nlohmann/json.hpp>

#include "muster/summary/live_run.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;
using plan::Activity;
using plan::kActivities;
using summary::LiveReplica;
using summary::LiveRun;
using summary::LiveStatus;

json seconds_json(const plan::StepSeconds& step) {
  json all = json::object();
  for (size_t a = 0; a < kActivities; ++a) {
    if (step.seconds[a] > 0)
      all[std::string(plan::to_string(static_cast<Activity>(a)))] = step.seconds[a];
  }
  return all;
}

json start_json(const LiveStatus& status) {
  return {{"task", status.task},          {"command", status.command}, {"version", status.version},
          {"host", status.host},          {"pid", status.pid},         {"started", status.started},
          {"written", status.written},    {"end", status.end},         {"error", status.error},
          {"exit_code", status.exit_code}};
}

json replica_json(const LiveReplica& replica) {
  json steps = json::array();
  for (const plan::StepSeconds& step : replica.now.last)
    steps.push_back({{"step", step.step}, {"seconds", seconds_json(step)}});
  return {{"name", replica.now.task},
          {"activity", plan::to_string(replica.now.activity)},
          {"seconds", replica.now.seconds},
          {"step", replica.now.step},
          {"bucket", replica.now.bucket},
          {"buckets", replica.now.buckets},
          {"epoch", replica.now.epoch},
          {"rate", replica.rate},
          {"mean", seconds_json(replica.mean)},
          {"steps", std::move(steps)},
          {"whole", seconds_json(replica.now.whole)}};
}

json task_json(const LiveRun::Task& task) {
  json log = json::array();
  for (const LiveStatus::Line& line : task.status.log)
    log.push_back({{"time", line.time}, {"level", line.level}, {"text", line.text}});
  json made = start_json(task.status);
  made["state"] = summary::to_string(task.state);
  made["age"] = task.age;
  made["last_step"] = task.status.last_step;
  made["earlier_starts"] = task.status.earlier_starts;
  made["collective"] = task.status.collective;
  made["collective_seconds"] = task.status.collective_seconds;
  made["saving"] = task.status.saving;
  made["memory"] = task.status.memory;
  made["device_memory"] = task.status.device_memory;
  made["device_reserved"] = task.status.device_reserved;
  made["trains"] = task.status.trains();
  made["measures"] = task.status.measures;
  made["log"] = std::move(log);
  made["replicas"] = json::array();
  return made;
}

}  // namespace

json live_json(FileSystem& files, const std::string& directory, double now) {
  const LiveRun run = summary::live_run(summary::read_live_statuses(files, directory), now);
  if (run.tasks.empty()) return nullptr;
  json tasks = json::array();
  for (const LiveRun::Task& task : run.tasks) tasks.push_back(task_json(task));
  for (const LiveReplica& replica : run.replicas)
    tasks[replica.task]["replicas"].push_back(replica_json(replica));
  json straggler;
  if (run.straggler) {
    const LiveReplica& slow = run.replicas[run.straggler->task];
    straggler = {{"name", slow.now.task},
                 {"task", run.tasks[slow.task].status.task},
                 {"where", plan::to_string(run.straggler->where)},
                 {"seconds", run.straggler->seconds},
                 {"others", run.straggler->others},
                 {"slowdown", run.straggler->slowdown},
                 {"text", run.straggler_text}};
  }
  return {{"directory", directory},
          {"tasks", std::move(tasks)},
          {"missing", run.missing},
          {"straggler", std::move(straggler)}};
}

json starts_json(FileSystem& files, const std::string& directory) {
  json all = json::array();
  for (const LiveStatus& status : summary::read_live_statuses(files, directory))
    all.push_back(start_json(status));
  return all;
}

}  // namespace muster::inline v0_1::board
