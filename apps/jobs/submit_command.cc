#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "apps/jobs/commands.h"
#include "apps/jobs/follow_job.h"
#include "apps/jobs/target_flags.h"
#include "apps/muster/board_report.h"
#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/command/command_line.h"
#include "muster/jobs/config_writer.h"
#include "muster/jobs/job_config.h"
#include "muster/jobs/job_dir.h"
#include "muster/jobs/search_job.h"
#include "muster/jobs/submit.h"
#include "muster/jobs/targets.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/run.h"

namespace muster::app {
namespace {

// Flags that describe a job, with or without a configuration.
struct JobFlags {
  std::string config, job_dir, name, program;
  int workers = 0, ps = 0;
  bool chief = false, evaluator = false;
  std::optional<int64_t> max_running_time, restarts;
  std::optional<int64_t> max_trials, parallel_trials;
  bool no_accelerators = false;
};

struct SubmitFlags {
  JobFlags job;
  std::string to = "local";
  TargetFlags target;
  bool dry_run = false, wait = false;
  uint64_t seed = 1;
  std::string report{};
};

class WithArguments final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    usage.insert(usage.find_last_not_of('\n') + 1, " [-- ARGUMENTS]");
    return usage;
  }
};

// Puts the counts of the flags in place of the configuration's.
void set_counts(jobs::JobSpec& job, const JobFlags& flags) {
  const auto set = [&](const std::string& role, int count) {
    if (count == 0) return;
    for (jobs::Pool& pool : job.pools) {
      if (pool.role == role) {
        pool.count = count;
        return;
      }
    }
    // A new role runs from the image of the others.
    job.pools.push_back(
        {.role = role, .count = count, .image = job.pools.empty() ? "" : job.pools.front().image});
  };
  set("chief", flags.chief || (flags.ps > 0 && job.pool("chief") == nullptr) ? 1 : 0);
  set("worker", flags.workers);
  set("ps", flags.ps);
  set("evaluator", flags.evaluator ? 1 : 0);
}

jobs::JobSpec job_of(const JobFlags& flags, const std::vector<std::string>& arguments) {
  jobs::JobSpec job;
  if (!flags.config.empty()) {
    jobs::check_slashes("--config", flags.config);
    jobs::JobConfig config = jobs::read_job_config_file(flags.config);
    for (const std::string& note : config.notes) log::info(note);
    job = std::move(config.job);
    set_counts(job, flags);
    // Names in configurations are of services that take more letters.
    if (!job.name.empty()) job.name = jobs::job_name_from(job.name);
  } else {
    job.pools = jobs::pools_of_counts(flags.chief, flags.workers, flags.ps, flags.evaluator);
    if (job.pools.empty() || (flags.evaluator && job.pools.size() == 1))
      job.pools.insert(job.pools.begin(), {.role = "chief", .count = 1});
  }
  if (!flags.name.empty()) {
    jobs::check_job_name(flags.name);
    job.name = flags.name;
  }
  if (!flags.job_dir.empty()) job.job_dir = flags.job_dir;
  jobs::check_slashes("the job directory", job.job_dir);
  if (!flags.program.empty()) job.program = {flags.program};
  job.args.insert(job.args.end(), arguments.begin(), arguments.end());
  for (jobs::Pool& pool : job.pools) {
    if (!pool.args.empty()) pool.args.insert(pool.args.end(), arguments.begin(), arguments.end());
    if (flags.no_accelerators) pool.accelerator = {};
  }
  if (flags.max_running_time) job.scheduling.max_running_seconds = *flags.max_running_time;
  if (flags.restarts) job.scheduling.restarts = static_cast<int>(*flags.restarts);
  if (job.search && flags.max_trials) job.search->max_trials = static_cast<int>(*flags.max_trials);
  if (job.search && flags.parallel_trials)
    job.search->max_parallel_trials = static_cast<int>(*flags.parallel_trials);
  return job;
}

// Flags of a search are for a job that has one, which is run here.
void check_search_flags(const CLI::App& command, const SubmitFlags& flags,
                        const jobs::JobSpec& job) {
  for (const char* flag : {"--max-trials", "--parallel-trials", "--seed", "--report"}) {
    if (command.get_option(flag)->count() == 0) continue;
    if (!job.search) {
      throw invalid_argument(
          fmt::format(
              "{} applies only to a hyper-parameter search, and {}", flag,
              flags.job.config.empty()
                  ? "no --config with a search was given"
                  : fmt::format("{} has neither hyperparameters nor studySpec", flags.job.config)),
          "add hyperparameters to the configuration (docs/hyperparameters.md), or omit the flag; "
          "write flags of the program after two dashes");
    }
    if (flags.to == "vertex" && std::string_view(flag) == "--report") {
      throw invalid_argument(
          "not supported: --report of a search on Vertex AI",
          "write it when the search has ended: muster board JOB_DIR --report=" + flags.report);
    }
    if (flags.to == "vertex" && std::string_view(flag) == "--seed") {
      throw invalid_argument(
          "--seed applies only to a search on this machine; Vertex AI draws values itself",
          "leave it out");
    }
  }
}

// A trial gets its values after the arguments, and a program refuses a flag that is given twice.
void check_searched(const jobs::JobSpec& job, const std::vector<std::string>& arguments) {
  if (!job.search) return;
  for (const jobs::HyperParameter& parameter : job.search->parameters) {
    const std::string flag = "--" + parameter.name;
    for (const std::string& word : arguments) {
      if (word != flag && !word.starts_with(flag + "=")) continue;
      throw invalid_argument(
          fmt::format("the arguments contain {}, but the search sets it in each trial", flag),
          fmt::format("remove it from the arguments, or remove {} from the hyper-parameters of the "
                      "configuration",
                      parameter.name));
    }
  }
}

// Where programs of this machine run, or of nodes that have it at the same place.
bool runs_programs(const std::string& target) { return target == "local" || target == "slurm"; }

// The same text for all ways to write a path, as long as that leads to the same file: what is
// behind a link and ".." is elsewhere.
std::string whole_path(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path);
  const std::filesystem::path plain = whole.lexically_normal();
  std::error_code ignored;
  return (std::filesystem::equivalent(plain, whole, ignored) ? plain : whole).string();
}

// Gives the program its path, so that it is found wherever it is started, and is known again
// however it was written.
void find_program(jobs::JobSpec& job, const std::string& muster_folder) {
  const auto resolve = [&](std::vector<std::string>& words) {
    if (words.empty()) return;
    const char* path = std::getenv("PATH");
    words[0] = whole_path(launch::find_program(words[0], path ? path : "", muster_folder));
  };
  resolve(job.program);
  if (job.program.empty()) {
    for (jobs::Pool& pool : job.pools) resolve(pool.command);
  }
}

int search(const SubmitFlags& flags, const jobs::JobSpec& job, jobs::JobStore& store,
           jobs::Target& target, const jobs::StatusOf& status) {
  const jobs::SearchJobOptions options{
      .seed = flags.seed, .interrupted = was_interrupted, .status_of = status};
  if (flags.dry_run) {
    for (const std::string& why : jobs::reasons_against_search(store, target, job, options)) {
      log::warning("this search cannot be run: " + why);
    }
    fputs(jobs::describe_search_job(store, target, job, flags.seed).c_str(), stdout);
    return 0;
  }
  if (!flags.report.empty()) check_board_report(flags.report);
  const InterruptScope interrupts(
      "\n"
      "ended at once; its trials continue to run. To end them and continue the search: the same "
      "command. To only end them: muster jobs cancel\n");
  const jobs::SearchJobResult result =
      jobs::run_search_job(store, target, job, system_clock(), options);
  fputs(result.table.c_str(), stdout);
  fmt::print("{}\n", result.summary);
  std::fflush(stdout);
  if (!flags.report.empty()) write_board_report(job.job_dir, flags.report);
  return result.exit_code;
}

int submit(const CLI::App& command, const SubmitFlags& flags, std::vector<std::string> arguments,
           const std::string& muster_folder) {
  JobFlags job_flags = flags.job;
  // As after `muster run`: the first word names the program where nothing else does.
  const bool program_behind = job_flags.config.empty() && job_flags.program.empty() &&
                              !arguments.empty() && !arguments.front().starts_with('-');
  if (program_behind) {
    job_flags.program = arguments.front();
    arguments.erase(arguments.begin());
  }
  jobs::JobSpec job = job_of(job_flags, arguments);
  check_search_flags(command, flags, job);
  check_searched(job, arguments);
  jobs::TargetOptions options = target_options(command, flags.target, flags.to);
  options.muster = muster_folder + "/muster";
  options.vertex.only_described = flags.dry_run;
  const auto target = jobs::make_target(flags.to, options);
  if (runs_programs(flags.to)) find_program(job, muster_folder);
  for (const std::string& note : target->check(job)) log::info(note);
  // Vertex AI searches by itself.
  const bool searches = job.search && flags.to != "vertex";
  // Nodes of a cluster have folders that this machine has not; those of an image are its own.
  if (runs_programs(flags.to) || searches)
    jobs::check_place(job.job_dir, flags.to == "local" || searches);
  if (job.search && job.job_dir.empty()) {
    throw invalid_argument("the search has no job directory",
                           "give a folder for the folders of all trials: --job-dir=DIR");
  }
  jobs::JobStore store = jobs::JobStore::of(Environment::process());
  Asking asking(options);
  const jobs::StatusOf status = [&](const jobs::JobRecord& record) {
    return asking.status(record);
  };
  if (searches) return search(flags, job, store, *target, status);
  if (flags.dry_run) {
    for (const std::string& why : jobs::reasons_against(store, *target, job, status)) {
      log::warning("this job cannot be submitted: " + why);
    }
    const jobs::JobRecord record = jobs::preview_job(store, *target, job);
    fputs(target->describe(job, record).c_str(), stdout);
    return 0;
  }
  const jobs::JobRecord record = jobs::submit_job(store, *target, job, system_clock(), status);
  if (flags.wait) return follow_job(*target, record);
  fmt::print("{} is submitted to {}{}\n", record.name, record.target,
             record.target == "local" ? "" : fmt::format(" as {}", record.id));
  fmt::print(
      "  muster jobs logs --follow {0}\n  muster jobs status {0}\n  muster jobs cancel {0}\n",
      record.name);
  return 0;
}

// The flags that `muster job init` has too.
void add_job_flags(CLI::App& command, JobFlags& flags) {
  const FlagLimits count{.at_least = 0, .at_most = 4096};
  const auto flag = [&](const Flag& it) { command::add_flag(command, it); };
  flag({"job-dir",
        &flags.job_dir,
        "Folder for the job's output, a path or a URI; the program gets it as --job-dir",
        {},
        "DIR"});
  flag({"workers", &flags.workers, "Number of worker tasks; 0: as in the configuration, or none",
        count});
  flag({"chief", &flags.chief, "Add a task of type chief; without other tasks it runs alone"});
  flag({"ps", &flags.ps, "Number of parameter servers; a chief is then added too", count});
  flag({"evaluator", &flags.evaluator, "Add a task that evaluates checkpoints"});
  flag({"max-running-time",
        &flags.max_running_time,
        "Seconds after which the job is asked to stop",
        {.at_least = 1},
        "SECONDS"});
}

struct InitFlags {
  JobFlags job;
  std::string machine, image, accelerator, region, out;
  int gpus = 0;
};

int init(const InitFlags& flags, const std::vector<std::string>& arguments) {
  jobs::JobSpec job = job_of(flags.job, arguments);
  job.region = flags.region;
  for (jobs::Pool& pool : job.pools) {
    pool.machine_type = flags.machine;
    pool.image = flags.image;
    const bool trains = pool.role == "chief" || pool.role == "worker";
    if (flags.gpus > 0 && trains) pool.accelerator = {flags.accelerator, flags.gpus};
  }
  // AI Platform's first task is the master, whatever trains.
  if (job.pool("chief") == nullptr) {
    for (jobs::Pool& pool : job.pools) {
      if (pool.role != "worker") continue;
      jobs::Pool chief = pool;
      chief.role = "chief";
      chief.count = 1;
      --pool.count;
      job.pools.insert(job.pools.begin(), chief);
      break;
    }
  }
  const std::string text = jobs::to_ai_platform_yaml(job);
  if (flags.out.empty()) {
    fputs(text.c_str(), stdout);
    return 0;
  }
  if (local_file_system().exists(flags.out).value()) {
    throw invalid_argument(fmt::format("the file {} exists already", flags.out),
                           "give another --out, or remove the file");
  }
  local_file_system().write_atomically(flags.out, text).value();
  fmt::print("{} written; to see what it starts: muster submit --config={} --dry-run PROGRAM\n",
             flags.out, launch::shell_quoted(flags.out));
  return 0;
}

}  // namespace

void add_submit(CLI::App& app, const std::vector<std::string>& arguments,
                const std::string& muster_folder, Action& action) {
  auto* command = app.add_subcommand(kSubmitCommand.name, kSubmitCommand.help);
  auto flags = std::make_shared<SubmitFlags>();
  command->formatter(std::make_shared<WithArguments>());
  const auto flag = [&](const Flag& it) { command::add_flag(*command, it); };
  command::add_argument(*command, {"PROGRAM", &flags->job.program,
                                   "The program; may be omitted if the image has one"});
  flag({"config",
        &flags->job.config,
        "Configuration file of a job in the format of AI Platform (trainingInput) or Vertex AI "
        "(workerPoolSpecs), YAML or JSON",
        {},
        "FILE"});
  flag({"to",
        &flags->to,
        "Where the job runs: " + join(jobs::target_names(), ", ") + "; local is this machine",
        {},
        {},
        jobs::target_names()});
  flag({"name", &flags->job.name, "Name of the job; empty: the program's name and a number"});
  add_job_flags(*command, flags->job);
  flag({"restart",
        &flags->job.restarts,
        "How many times to restart tasks that were killed or exit with 138; 3 without a "
        "configuration",
        {.at_least = 0, .at_most = 1000}});
  flag({"no-accelerators", &flags->job.no_accelerators,
        "Request no accelerators, even if the configuration does"});
  flag({"max-trials",
        &flags->job.max_trials,
        "For a search: number of trials, instead of the configuration's",
        {.at_least = 1, .at_most = 1000000}});
  flag({"parallel-trials",
        &flags->job.parallel_trials,
        "For a search: number of trials that run at the same time, instead of the configuration's",
        {.at_least = 1, .at_most = 1000000}});
  flag({"seed", &flags->seed,
        "For a search: seed of the drawn values; the same seed gives the same trials"});
  flag({"report",
        &flags->report,
        "For a search: HTML file to write when it has ended, with its trials and their curves",
        {},
        "FILE"});
  flag({"wait", &flags->wait, "Print the job's log until it ends, and return its exit code"});
  flag({"dry-run", &flags->dry_run, "Print what would be started without starting it"});
  add_target_flags(*command, flags->target);
  command->footer(
      "Write the program's arguments after two dashes; they follow those of the configuration.\n"
      "The command returns when the job is submitted; a job on this machine continues after the\n"
      "terminal is closed. A configuration with hyperparameters is a search: the command runs its\n"
      "trials as jobs until the search ends. To continue a stopped search, run the same command.\n"
      "\n"
      "Examples:\n"
      "  muster data digits --out digits\n"
      "  muster submit --workers=2 mnist -- --data_dir=digits --model_dir=model\n"
      "  muster job init --workers=2 --out=config.yaml\n"
      "  muster submit --config=config.yaml --job-dir=runs/7 mnist -- --data_dir=digits "
      "--epochs=5\n"
      "  muster submit --config=config.yaml --to=slurm --slurm=--partition=gpu --dry-run mnist");
  command->callback([command, flags, arguments, muster_folder, &action] {
    action = [command, flags, arguments, muster_folder] {
      return submit(*command, *flags, arguments, muster_folder);
    };
  });
}

void add_job(CLI::App& app, const std::vector<std::string>& arguments, Action& action) {
  auto* job = app.add_subcommand(kJobCommand.name, kJobCommand.help);
  job->require_subcommand(1);
  job->footer("Example:\n  muster job init --workers=2 --out=config.yaml");
  auto* command = job->add_subcommand(
      "init", "Write a configuration from flags, in AI Platform's format (trainingInput)");
  auto flags = std::make_shared<InitFlags>();
  flags->machine = "n1-standard-8";
  flags->accelerator = "NVIDIA_TESLA_T4";
  command->formatter(std::make_shared<WithArguments>());
  add_job_flags(*command, flags->job);
  const auto flag = [&](const Flag& it) { command::add_flag(*command, it); };
  flag({"machine", &flags->machine, "Machine type of each task"});
  flag({"gpus",
        &flags->gpus,
        "Number of accelerators of each training task",
        {.at_least = 0, .at_most = 1024}});
  flag({"accelerator", &flags->accelerator, "Their type"});
  flag({"image", &flags->image, "Container image of the tasks"});
  flag({"region", &flags->region, "Region, such as europe-west4"});
  flag({"out", &flags->out, "File to write; empty: standard output", {}, "FILE"});
  command->footer(
      "Arguments after two dashes become the configuration's args.\n"
      "\n"
      "Examples:\n"
      "  muster job init --workers=4 --gpus=1 --out=gpus.yaml\n"
      "  muster job init --workers=4 --ps=2 --evaluator -- --epochs=5");
  command->callback([flags, arguments, &action] {
    action = [flags, arguments] { return init(*flags, arguments); };
  });
}

}  // namespace muster::app
