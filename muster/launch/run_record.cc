#include "muster/launch/run_record.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/clock.h"

namespace muster::inline v0_1::launch {

RunRecord::RunRecord(std::vector<std::string> command)
    : command_(std::move(command)), started_(system_clock().wall_seconds()) {}

void RunRecord::watch(RunOptions& options) {
  options.adjust = [this, before = std::move(options.adjust)](RunPlan& plan) {
    if (before) before(plan);
    // The tasks of a run that is started again have the same names.
    tasks_.resize(plan.processes.size());
    for (size_t i = 0; i < tasks_.size(); ++i) tasks_[i].name = plan.processes[i].name;
  };
  SuperviseOptions& supervise = options.supervise;
  supervise.on_start = [this, before = std::move(supervise.on_start)](size_t task) {
    if (before) before(task);
    tasks_.at(task).starts.push_back({.started = system_clock().wall_seconds()});
  };
  supervise.on_exit = [this, before = std::move(supervise.on_exit)](size_t task,
                                                                    const ExitStatus& status) {
    if (before) before(task, status);
    Start& start = tasks_.at(task).starts.back();
    start.ended = system_clock().wall_seconds();
    start.exit = explain(status);
    start.code = status.shell_code();
  };
  supervise.on_end = [this, before = std::move(supervise.on_end)](const Outcome& outcome) {
    if (before) before(outcome);
    for (size_t i = 0; i < outcome.tasks.size() && i < tasks_.size(); ++i) {
      if (!tasks_[i].starts.empty() && !outcome.tasks[i].status.ok())
        tasks_[i].starts.back().error = outcome.tasks[i].last_error;
    }
  };
}

std::string RunRecord::to_json(int exit_code) const {
  using nlohmann::json;
  json tasks = json::array();
  for (const Task& task : tasks_) {
    json starts = json::array();
    for (const Start& start : task.starts) {
      starts.push_back({{"started", start.started},
                        {"ended", start.ended},
                        {"exit", start.exit},
                        {"code", start.code},
                        {"error", start.error}});
    }
    tasks.push_back({{"name", task.name}, {"starts", std::move(starts)}});
  }
  const json record = {{"command", command_},
                       {"started", started_},
                       {"ended", system_clock().wall_seconds()},
                       {"exit_code", exit_code},
                       {"tasks", std::move(tasks)}};
  return record.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace muster::inline v0_1::launch
