#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/jobs/commands.h"
#include "apps/jobs/follow_job.h"
#include "apps/muster/report_error.h"
#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/text_table.h"
#include "muster/command/command_line.h"
#include "muster/jobs/final_status.h"
#include "muster/jobs/local_target.h"
#include "muster/jobs/search_job.h"
#include "muster/jobs/search_logs.h"
#include "muster/jobs/search_report.h"
#include "muster/jobs/slurm_task.h"
#include "muster/jobs/submit.h"
#include "muster/jobs/targets.h"
#include "muster/jobs/task_error.h"
#include "muster/launch/run.h"

namespace muster::app {
namespace {

using jobs::JobRecord;
using jobs::JobState;
using jobs::JobStatus;

struct JobsFlags {
  std::vector<std::string> names;
  std::string name, task, folder, attempt;
  bool follow = false, json = false;
  std::optional<int64_t> tail;
  jobs::TargetOptions options;
};

jobs::JobStore store() { return jobs::JobStore::of(Environment::process()); }

std::string date(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&time, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

nlohmann::ordered_json to_json(const JobRecord& record, const JobStatus& status) {
  const auto optional = [](const std::optional<int>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  for (const jobs::TaskStatus& task : status.tasks) {
    tasks.push_back({{"name", task.name},
                     {"state", jobs::to_string(task.state)},
                     {"exit_code", optional(task.exit_code)},
                     {"place", task.place}});
  }
  return {{"name", record.name},
          {"target", record.target},
          {"id", record.id},
          {"state", jobs::to_string(status.state)},
          {"exit_code", optional(status.exit_code)},
          {"detail", status.detail},
          {"restarts", status.restarts},
          {"submitted", record.submitted},
          {"job_dir", record.job_dir},
          {"folder", record.folder},
          {"command", record.command},
          {"tasks", tasks}};
}

void print(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// The jobs that were named, each once, in the order of the names.
std::vector<std::string> each_once(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names) {
    if (std::ranges::find(once, name) == once.end()) once.push_back(name);
  }
  return once;
}

// Runs `act` for each of the jobs. An error of one is reported, and the others have their turn;
// returns the exit code of the first that failed.
int for_each_job(const JobsFlags& flags, const std::function<void(const std::string& name)>& act) {
  const std::vector<std::string> names = each_once(flags.names);
  int code = 0;
  for (const std::string& name : names) {
    try {
      act(name);
    } catch (const Error& error) {
      if (names.size() == 1) throw;
      // Earlier results are printed before the error.
      fflush(stdout);
      const int wrong = report_error(error) == 2 ? 2 : 1;
      if (code == 0) code = wrong;
    }
  }
  return code;
}

int list(const JobsFlags& flags) {
  Asking asking(flags.options);
  std::vector<JobRecord> records;
  if (flags.names.empty()) records = store().list();
  const int code =
      for_each_job(flags, [&](const std::string& name) { records.push_back(store().find(name)); });
  if (flags.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const JobRecord& record : records) all.push_back(to_json(record, asking.status(record)));
    print(all);
    return code;
  }
  if (records.empty()) {
    if (flags.names.empty()) fmt::print("no jobs; muster submit starts one\n");
    return code;
  }
  TextTable table({"job", "target", "state", "submitted", "job directory"});
  for (const JobRecord& record : records) {
    table.add({record.name, record.target,
               std::string(jobs::to_string(asking.status(record).state)), date(record.submitted),
               record.job_dir});
  }
  fputs(table.text("").c_str(), stdout);
  return code;
}

// The state of a search; nothing for other jobs, before its first trial, and if its job directory
// cannot be read, which is reported.
std::optional<jobs::Search> found_so_far(const JobRecord& record, const JobStatus& status) {
  if (!jobs::is_search(record)) return std::nullopt;
  try {
    return jobs::found_by(record, status.left_running);
  } catch (const Error& error) {
    log::warning(fmt::format("the trials cannot be shown: {}", error.message()));
    return std::nullopt;
  }
}

// For a search, the errors of its trials say why they failed.
std::optional<jobs::TaskError> task_error_of(const JobRecord& record, const JobStatus& status,
                                             const jobs::TargetOptions& options) {
  if (jobs::is_search(record) || status.state != JobState::kFailed) return std::nullopt;
  return jobs::final_or_current_error(record, [&] {
    return jobs::task_error_of(*jobs::make_target(record.target, options), record, status);
  });
}

// How one job is.
struct Shown {
  JobRecord record{};
  JobStatus status{};
  std::optional<jobs::Search> found{};
  std::optional<jobs::TaskError> error{};
};

Shown look_at(const std::string& name, Asking& asking, const jobs::TargetOptions& options) {
  Shown shown{.record = store().find(name)};
  shown.status = asking.status(shown.record);
  shown.record = store().find(name);  // the search may have located it
  shown.found = found_so_far(shown.record, shown.status);
  shown.error = task_error_of(shown.record, shown.status, options);
  if (shown.error) jobs::tell_who_failed(shown.status, *shown.error);
  return shown;
}

nlohmann::ordered_json to_json(const Shown& shown) {
  nlohmann::ordered_json json = to_json(shown.record, shown.status);
  json["error"] = shown.error ? nlohmann::ordered_json{{"task", shown.error->task},
                                                       {"said", shown.error->said},
                                                       {"lines", shown.error->lines}}
                              : nlohmann::ordered_json();
  if (shown.found) json["trials"] = shown.found->to_json()["trials"];
  return json;
}

void print(const Shown& shown) {
  const auto& [record, status, found, error] = shown;
  const auto line = [](const char* what, const std::string& value) {
    if (!value.empty()) fmt::print("{:<15}{}\n", what, value);
  };
  line("job", record.name);
  line("state", std::string(jobs::to_string(status.state)) +
                    (status.detail.empty() ? "" : ": " + status.detail));
  if (status.exit_code) line("exit code", std::to_string(*status.exit_code));
  if (status.restarts > 0) line("restarts", std::to_string(status.restarts));
  line("target", record.target + (record.id.empty() ? "" : ", " + record.id));
  line("submitted", date(record.submitted));
  line("job directory", record.job_dir);
  line("record", record.folder);
  line("command", record.command);
  if (found) fputs(jobs::search_table(*found).c_str(), stdout);
  if (status.tasks.empty()) return;
  TextTable table({"task", "state", ">exit code", "place"});
  for (const jobs::TaskStatus& task : status.tasks) {
    table.add({task.name, std::string(jobs::to_string(task.state)),
               task.exit_code ? std::to_string(*task.exit_code) : "", task.place});
  }
  fputs(table.text("").c_str(), stdout);
  if (error) {
    fmt::print("{}{} {}:\n", error->task,
               error->exit_code ? fmt::format(", exit code {},", *error->exit_code) : "",
               error->said ? "said last" : "printed no error");
    for (const std::string& said : error->lines) fmt::print("  {}\n", said);
  }
}

int show(const JobsFlags& flags) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  Asking asking(flags.options);
  bool first = true;
  const int code = for_each_job(flags, [&](const std::string& name) {
    const Shown shown = look_at(name, asking, flags.options);
    if (!flags.json) {
      if (!std::exchange(first, false)) fputc('\n', stdout);
      return print(shown);
    }
    all.push_back(to_json(shown));
  });
  if (flags.json) print(each_once(flags.names).size() == 1 ? all.front() : all);
  return code;
}

int logs(const JobsFlags& flags) {
  JobRecord record = store().find(flags.name);
  check_submitted(record, flags.options);
  jobs::LogOptions options{.task = flags.task};
  if (flags.tail) options.tail = static_cast<int>(*flags.tail);
  const auto print = [](std::string_view line) {
    fwrite(line.data(), 1, line.size(), stdout);
    fputc('\n', stdout);
  };
  const auto make = [&] { return jobs::make_target(record.target, flags.options); };
  if (jobs::is_search(record)) {
    if (flags.follow) return follow_search(record, flags.options, options);
    jobs::search_logs(record, make, options, print);
    return 0;
  }
  const auto target = make();
  if (flags.follow) return follow_job(*target, record, options);
  target->logs(record, options, print);
  return 0;
}

void cancel(const std::string& name, const jobs::TargetOptions& options) {
  JobRecord record = store().find(name);
  check_submitted(record, options);
  const JobStatus status = status_of(record, options);
  // Parts of an ended job may run on: trials of a search whose process was killed, tasks of another
  // role.
  if (jobs::is_over(status)) {
    fmt::print("{} {} already\n", record.name,
               status.state == JobState::kSucceeded ? "has ended" : jobs::to_string(status.state));
    return;
  }
  const auto target = jobs::make_target(record.target, options);
  if (jobs::is_search(record)) {
    jobs::cancel_search(record, *target);
  } else {
    target->cancel(record);
  }
  fmt::print("{0} is asked to end; its tasks save first: muster jobs status {0}\n", record.name);
}

// A job whose status is unknown may be running, and without its record it could not be ended.
JobStatus status_to_forget(const JobRecord& record, const jobs::TargetOptions& options) {
  if (jobs::is_being_submitted(record)) return {.state = JobState::kQueued};
  try {
    return ask_for(record, options);
  } catch (const Error& error) {
    // A job whose submission did not end may be forgotten even if its existence is unknown: then
    // this warning is the last trace of it.
    if (!jobs::was_submitted(record)) log::warning(error.message());
    if (error.kind() == ErrorKind::kCorrupt || !jobs::was_submitted(record)) return {};
    throw Error(error.kind(), error.message(),
                fmt::format("when it answers, try again; to forget the job all the same: rm -r {}",
                            launch::shell_quoted(record.folder)));
  }
}

void remove(const std::string& name, const jobs::TargetOptions& options) {
  const jobs::JobStore jobs_there = store();
  const JobRecord record = jobs_there.find(name);
  const JobStatus status = status_to_forget(record, options);
  if (status.left > 0) {
    throw invalid_argument(fmt::format("trials of {} run, or may still begin", record.name),
                           "end it first: muster jobs cancel " + record.name);
  }
  if (jobs::tasks_go_on(status) && jobs::is_final(status.state)) {
    throw invalid_argument(
        fmt::format(
            "tasks of {} are still there on {}, although it {}", record.name, record.target,
            status.state == JobState::kSucceeded ? "has ended" : jobs::to_string(status.state)),
        "end them first: muster jobs cancel " + record.name);
  }
  if (jobs::goes_on(status.state)) {
    // Following it waits for its end.
    const std::string then =
        fmt::format("muster jobs logs --follow --tail=0 {0}; muster jobs remove {0}", record.name);
    throw invalid_argument(
        fmt::format("{} is {}", record.name, jobs::to_string(status.state)),
        status.state == JobState::kEnding
            ? "wait until its tasks have saved: " + then
            : fmt::format("end it first: muster jobs cancel {}; {}", record.name, then));
  }
  jobs::forget_job(jobs_there, record);
  fmt::print("{} is forgotten{}\n", record.name,
             record.job_dir.empty() ? "" : "; its job directory stays: " + record.job_dir);
}

}  // namespace

void add_jobs(CLI::App& app, const std::string& muster_folder, Action& action) {
  auto* command = app.add_subcommand(kJobsCommand.name, kJobsCommand.help);
  command->require_subcommand(1);
  const std::string where =
      "\nRecords of jobs lie in $XDG_STATE_HOME/muster/jobs, else in ~/.local/state/muster/jobs.";
  command->footer(
      "Examples:\n"
      "  muster jobs list\n"
      "  muster jobs logs --follow mnist-1\n"
      "  muster jobs logs --task=worker-1 --tail=20 mnist-1\n"
      "  muster jobs cancel mnist-1 mnist-2\n" +
      where);
  auto flags = std::make_shared<JobsFlags>();
  flags->options.muster = muster_folder + "/muster";
  const auto add = [&](const char* name, const char* help, int (*run)(const JobsFlags&)) {
    CLI::App* one = command->add_subcommand(name, help);
    one->callback([flags, run, &action] { action = [flags, run] { return run(*flags); }; });
    return one;
  };
  const auto named = [&](CLI::App* one, const char* help) {
    return command::add_arguments(*one, "JOB", &flags->names, help);
  };
  const char* const some = "The names of one or more jobs";
  const Flag json{"json", &flags->json, "One JSON document, for programs"};
  CLI::App* list_command = add("list", "All jobs, the newest last", list);
  named(list_command, "The names of some jobs; all when none");
  list_command->footer("Example:\n  muster jobs list\n" + where);
  command::add_flag(*list_command, json);
  CLI::App* status_command = add("status", "Jobs and their tasks", show);
  named(status_command, some)->required();
  status_command->footer(
      "Examples:\n  muster jobs status mnist-1\n  muster jobs status --json mnist-1 mnist-2\n" +
      where);
  command::add_flag(*status_command, json);
  CLI::App* logs_command = add("logs", "What the tasks have printed", logs);
  command::add_argument(*logs_command, {"JOB", &flags->name, "The job's name"})->required();
  logs_command->footer(
      "Examples:\n"
      "  muster jobs logs --follow mnist-1\n"
      "  muster jobs logs --task=worker-1 --tail=20 mnist-1\n" +
      where);
  command::add_flag(
      *logs_command,
      {"follow", &flags->follow,
       "Go on until the job ends, and return its exit code; Ctrl-C ends the printing"});
  logs_command->add_flag("-f", flags->follow, "The same as --follow");
  command::add_flag(*logs_command,
                    {"task", &flags->task,
                     "Of one task, such as worker-1; of a search one trial, such as trial-3"});
  command::add_flag(*logs_command, {"tail",
                                    &flags->tail,
                                    "Only the last lines of what is there",
                                    {.at_least = 0, .at_most = 1e9},
                                    "LINES"});
  const auto add_act = [&](const char* name, const char* help,
                           void (*act)(const std::string&, const jobs::TargetOptions&)) {
    CLI::App* one = command->add_subcommand(name, help);
    one->callback([flags, act, &action] {
      action = [flags, act] {
        return for_each_job(*flags, [&](const std::string& job) { act(job, flags->options); });
      };
    });
    named(one, some)->required();
    one->footer(
        fmt::format("Examples:\n  muster jobs {0} mnist-1\n  muster jobs {0} mnist-1 mnist-2\n{1}",
                    name, where));
  };
  add_act("cancel", "End jobs; their tasks save first", cancel);
  add_act("remove", "Forget jobs that have ended, with their logs", remove);

  // Commands that only jobs call.
  CLI::App* keep = add("keep", "Stay with a job of this machine",
                       [](const JobsFlags& it) { return jobs::keep_local_job(it.folder); });
  command::add_argument(*keep, {"FOLDER", &flags->folder, "Of its record"})->required();
  CLI::App* task = add("task", "Be a task of a job on Slurm", [](const JobsFlags& it) {
    return jobs::run_slurm_task(it.folder, std::atoi(it.attempt.c_str()), Environment::process());
  });
  command::add_argument(*task, {"FOLDER", &flags->folder, "Of its record"})->required();
  command::add_argument(*task, {"ATTEMPT", &flags->attempt, "How often it was started"})
      ->required();
  for (CLI::App* own : {keep, task}) own->group("");
}

}  // namespace muster::app
