#include "muster/launch/run.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/loopback.h"
#include "muster/base/nearest.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/base/thread_count.h"

namespace muster::inline v0_1::launch {
namespace {

int read_int(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int value = otherwise;
  return file >> value ? value : otherwise;
}

// Returns the whole cores that the quota of a container allows; 0 without a quota. The file holds
// "max 100000" or "200000 100000".
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  long period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return static_cast<int>(std::max(1L, std::strtol(quota.c_str(), nullptr, 10) / period));
}

bool is_program(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// Returns the name nearest to `name` of the programs in the folders; nothing when none is near.
std::optional<std::string> nearest_program(const std::string& name,
                                           const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::error_code error;  // PATH names folders that are not there, or not to be read
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
      names.push_back(entry->path().filename().string());
  }
  // Few names are near, so that few files are looked at.
  for (;;) {
    const auto near = nearest(name, names);
    if (!near) return std::nullopt;
    const auto is_in = [&](const std::string& folder) { return is_program(folder + "/" + *near); };
    if (std::ranges::any_of(folders, is_in)) return near;
    std::erase(names, *near);
  }
}

struct Role {
  std::string type;
  int index;
};

// Too many tasks would not train, but make the machine unusable.
void check_count(int count, const Machine& machine) {
  constexpr int kTasksPerCore = 32;
  if (count <= kTasksPerCore * std::max(1, machine.usable)) return;
  throw invalid_argument(
      fmt::format("{} tasks and {} cores: at most {} tasks a core can share this machine", count,
                  machine.usable, kTasksPerCore),
      "start fewer workers; one for each core is usual");
}

// What is wrong with the cores the user asked for; empty when nothing is.
std::string too_many_cores(const RunOptions& options, const Machine& machine) {
  const int64_t asked = int64_t{options.cores_per_task} * task_count(options);
  if (asked <= machine.usable) return "";
  return fmt::format(
      "--cores-per-task={} for {} task{} needs {} cores, but there are {}: tasks will share cores; "
      "an equal share is {}",
      options.cores_per_task, task_count(options), task_count(options) == 1 ? "" : "s", asked,
      machine.usable, std::max(1, machine.usable / task_count(options)));
}

// The first of several machines has what the run has once.
bool leads(const RunOptions& options) { return !options.place || options.place->node == 0; }

std::vector<Role> roles_of(const RunOptions& options) {
  std::vector<Role> roles;
  const int first = options.place ? options.place->node * options.workers : 0;
  if (options.chief && leads(options)) roles.push_back({"chief", 0});
  for (int i = 0; i < options.workers; ++i) roles.push_back({"worker", first + i});
  for (int i = 0; i < options.ps; ++i) roles.push_back({"ps", i});
  if (options.evaluator && leads(options)) roles.push_back({"evaluator", 0});
  return roles;
}

// The addresses of all tasks of the cluster by their types, as TF_CONFIG has them.
nlohmann::json cluster_of(const RunOptions& options, const std::vector<Role>& roles,
                          const std::vector<std::string>& own) {
  nlohmann::json cluster;
  if (!options.place) {
    for (std::size_t i = 0; i < own.size(); ++i) cluster[roles[i].type].push_back(own[i]);
    return cluster;
  }
  const bool chief = options.chief;
  for (const auto& of_node : options.place->addresses) {
    for (const std::string& address : of_node)
      cluster[chief && !cluster.contains("chief") ? "chief" : "worker"].push_back(address);
  }
  return cluster;
}

// What tells this run's tasks from all others; the user's own words go first.
std::vector<std::pair<std::string, std::string>> job_of(const RunOptions& options,
                                                        const Environment& environment) {
  std::vector<std::pair<std::string, std::string>> job;
  // Of several machines each has the token from its user, and all one name.
  if (options.place) return {{"MUSTER_JOB_ID", options.place->job_id}};
  if (environment.get_or("MUSTER_JOB_ID", "").empty()) {
    const std::string& program = options.command.front();
    job.emplace_back("MUSTER_JOB_ID", fmt::format("{}-{}", program.substr(program.rfind('/') + 1),
                                                  random_secret().substr(0, 6)));
  }
  const bool has_token = !environment.get_or("MUSTER_JOB_TOKEN", "").empty() ||
                         !environment.get_or("MUSTER_JOB_TOKEN_FILE", "").empty();
  if (!has_token) job.emplace_back("MUSTER_JOB_TOKEN", random_secret());
  return job;
}

// How many threads a task is told to use, as the two environment variables say it.
struct ThreadCounts {
  std::string muster;  // MUSTER_THREADS
  std::string openmp;  // OMP_NUM_THREADS
};

// Takes the counts from the options, else from the environment, else from `share`, the cores of a
// task.
ThreadCounts thread_counts(const RunOptions& options, const Environment& environment, int share) {
  std::string threads = std::to_string(options.threads > 0 ? options.threads : share);
  if (options.threads > 0) return {threads, threads};
  // A user who set one of the two variables means both. OpenMP's may be a list, of which the first
  // number is ours.
  const std::string openmp = environment.get_or("OMP_NUM_THREADS", "");
  const auto first = parse_int(openmp.substr(0, openmp.find(',')));
  if (const std::optional<int> own = threads_asked_for(environment)) {
    threads = std::to_string(*own);
  } else if (first && *first > 0) {
    threads = std::to_string(*first);
  }
  return {threads, openmp.empty() ? threads : openmp};
}

}  // namespace

void check_run_options(const RunOptions& options) {
  if (options.workers < 0 || (options.workers == 0 && !options.chief)) {
    throw invalid_argument(fmt::format("--workers is {}", options.workers),
                           "pass the number of worker tasks, at least 1");
  }
  if (options.ps < 0 || options.restart < 0) {
    throw invalid_argument(fmt::format("{} is {}", options.ps < 0 ? "--ps" : "--restart",
                                       options.ps < 0 ? options.ps : options.restart),
                           "pass a number, 0 or more");
  }
  if (options.ps > 0 && !options.chief) {
    throw invalid_argument(fmt::format("--ps is {}, and there is no --chief", options.ps),
                           "add --chief: with parameter servers one task begins the run and saves; "
                           "it trains as well, so --workers may be one less");
  }
  const int training = options.workers + (options.chief ? 1 : 0);
  if (options.min_workers < 0 || (!options.place && options.min_workers > training)) {
    throw invalid_argument(
        fmt::format("--workers has the minimum {}, and the run has {} tasks that train",
                    options.min_workers, training),
        "write --workers=MIN:MAX with a MIN from 1 to MAX");
  }
  if (options.min_workers > 0 && options.ps > 0) {
    throw invalid_argument(
        "not supported: --workers=MIN:MAX with --ps",
        "omit the minimum: with parameter servers a run continues without a lost worker anyway");
  }
  if (options.cores_per_task < 0) {
    throw invalid_argument(fmt::format("--cores-per-task is {}", options.cores_per_task),
                           "pass a number of cores, or omit it for an equal share");
  }
  if (options.threads < 0) {
    throw invalid_argument(
        fmt::format("--threads is {}", options.threads),
        "pass the number of threads of one task, or omit it to use its number of cores");
  }
  if (options.command.empty()) {
    throw invalid_argument("no program to run",
                           "write it after two dashes: muster run --workers=2 -- program args");
  }
}

int cluster_size(const RunOptions& options) {
  return options.workers + (options.chief && leads(options) ? 1 : 0) + options.ps;
}

int task_count(const RunOptions& options) {
  return cluster_size(options) + (options.evaluator && leads(options) ? 1 : 0);
}

std::string shell_quoted(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

Machine this_machine() {
  cpu_set_t set;
  CPU_ZERO(&set);
  Machine machine;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) machine.cores.push_back(core);
    }
  }
  if (machine.cores.empty()) machine.cores.push_back(0);
  // Hyper-threads often have numbers far from those of their siblings. Sorted in this way, shares
  // are whole cores.
  const auto place = [](int core) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", core);
    return std::tuple(read_int(folder + "physical_package_id", 0),
                      read_int(folder + "core_id", core), core);
  };
  std::sort(machine.cores.begin(), machine.cores.end(),
            [&](int a, int b) { return place(a) < place(b); });
  const int there = static_cast<int>(machine.cores.size());
  const int quota = quota_cores();
  machine.usable = quota > 0 ? std::min(there, quota) : there;
  return machine;
}

RunPlan plan_run(const RunOptions& options, const Machine& machine, const std::vector<int>& ports,
                 const Environment& environment) {
  check_run_options(options);
  const int count = task_count(options), in_cluster = cluster_size(options);
  const std::size_t here =
      options.place ? options.place->addresses.at(options.place->node).size() : ports.size();
  if (static_cast<int>(here) != in_cluster)
    throw invalid_argument(fmt::format("{} ports for {} tasks", here, in_cluster));
  check_count(count, machine);
  const std::vector<Role> roles = roles_of(options);

  const int share =
      options.cores_per_task > 0 ? options.cores_per_task : std::max(1, machine.usable / count);
  const bool whole = machine.usable == static_cast<int>(machine.cores.size());
  const bool pin = options.pin && whole && share <= machine.usable / count;
  const ThreadCounts threads = thread_counts(options, environment, share);

  RunPlan plan;
  plan.warning = too_many_cores(options, machine);
  const auto secrets = job_of(options, environment);
  if (options.place) {
    plan.addresses = options.place->addresses[options.place->node];
  } else {
    for (const int port : ports) plan.addresses.push_back(loopback_address(port));
  }
  const nlohmann::json cluster = cluster_of(options, roles, plan.addresses);
  std::size_t tasks = 0;
  for (const auto& [type, addresses] : cluster.items()) tasks += addresses.size();
  const auto config_of = [](const nlohmann::json& of, const Role& role) {
    const nlohmann::json config = {{"cluster", of},
                                   {"task", {{"type", role.type}, {"index", role.index}}}};
    return std::pair("TF_CONFIG", config.dump());
  };
  // By this name an evaluator tells what an earlier run has left in model_dir.
  const std::string run_id = options.place ? options.place->run_id : random_secret().substr(0, 16);
  for (int i = 0; i < count; ++i) {
    ProcessSpec spec;
    spec.argv = options.command;
    if (i >= in_cluster) {
      spec.name = "evaluator";
      spec.beside = true;
      spec.restarts = options.restart;
      // A task that trains alone has no cluster; its evaluator needs the name of a chief.
      const nlohmann::json alone = {{"chief", {plan.addresses.front()}}};
      spec.environment.push_back(config_of(tasks > 1 ? cluster : alone, roles[i]));
    } else {
      spec.name = fmt::format("{} {}", roles[i].type, roles[i].index);
      if (options.ps > 0) {
        spec.may_be_lost = roles[i].type == "worker";
        spec.serves = roles[i].type == "ps";
        spec.restarts = options.restart;
      }
      if (options.min_workers > 0 && tasks > 1) {
        spec.environment.emplace_back("MUSTER_MIN_WORKERS", std::to_string(options.min_workers));
        spec.may_be_lost = spec.spared = i > 0 || !leads(options);
        spec.restarts = spec.spared ? options.restart : 0;
        spec.newcomer = options.place && options.place->joins;
      }
      if (tasks > 1) {
        spec.environment.push_back(config_of(cluster, roles[i]));
        spec.secrets = secrets;
        // A choice of another launcher does not apply to the tasks of this one, and the place
        // in another one's run, of which this process is a child, is not theirs.
        for (const char* name : {"MUSTER_CLUSTER", "RANK", "WORLD_SIZE"}) {
          if (environment.has(name)) spec.without.emplace_back(name);
        }
      } else {
        spec.without.emplace_back("TF_CONFIG");
      }
    }
    if (options.evaluator) spec.environment.emplace_back("MUSTER_RUN_ID", run_id);
    spec.environment.emplace_back("OMP_NUM_THREADS", threads.openmp);
    spec.environment.emplace_back("MUSTER_THREADS", threads.muster);
    if (options.json) spec.environment.emplace_back("MUSTER_LOG_FORMAT", "json");
    if (pin) {
      const auto first = machine.cores.begin() + i * share;
      spec.cores.assign(first, first + share);
    }
    plan.processes.push_back(std::move(spec));
  }
  return plan;
}

std::string find_program(const std::string& program, std::string_view path,
                         const std::string& beside) {
  if (const size_t slash = program.rfind('/'); slash != std::string::npos) {
    if (is_program(program)) return program;
    const std::string folder = program.substr(0, slash + 1);
    const auto near = nearest_program(program.substr(slash + 1), {folder});
    throw not_found(fmt::format("program '{}' does not exist or is not executable", program),
                    (near ? fmt::format("did you mean {}{}? ", folder, *near) : "") +
                        "check the path; relative ones start at the current folder");
  }
  std::vector<std::string> folders;
  if (!path.empty()) {
    for (const std::string& folder : split(path, ':'))
      folders.push_back(folder.empty() ? "." : folder);
  }
  if (!beside.empty()) folders.push_back(beside);
  for (const std::string& folder : folders) {
    if (is_program(folder + "/" + program)) return folder + "/" + program;
  }
  // A program without a path is usually one in this folder.
  const std::string here = "./" + program;
  const auto own = is_program(here) ? program : nearest_program(program, {"."});
  const auto near = own ? "./" + *own : nearest_program(program, folders);
  throw not_found(
      fmt::format("program '{}' was found neither in PATH nor in muster's folder", program),
      near ? fmt::format("did you mean {}?", *near)
           : fmt::format("give its path, for example {}", here));
}

std::string describe(const RunPlan& plan) {
  std::string text;
  for (const ProcessSpec& spec : plan.processes) {
    text += fmt::format("# {}\n", spec.name);
    std::string line = "env";
    for (const std::string& name : spec.without) line += " -u " + name;
    for (const auto& [name, value] : spec.environment)
      line += " " + name + "=" + shell_quoted(value);
    if (!spec.cores.empty()) line += fmt::format(" taskset -c {}", fmt::join(spec.cores, ","));
    for (const std::string& word : spec.argv) line += " " + shell_quoted(word);
    text += line + "\n";
  }
  return text;
}

}  // namespace muster::inline v0_1::launch
