#include "muster/jobs/slurm_task.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <numeric>

#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/file_system.h"
#include "muster/base/loopback.h"
#include "muster/base/strings.h"
#include "muster/cluster/slurm_nodelist.h"
#include "muster/jobs/internal/slurm_files.h"
#include "muster/jobs/job_spec_json.h"
#include "muster/jobs/slurm_script.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1::jobs {
namespace {

std::string variable(const Environment& environment, const std::string& name) {
  const auto value = environment.get(name);
  if (value && !value->empty()) return *value;
  throw invalid_argument(name + " is not set",
                         "this is for srun, which the script of a job starts");
}

int64_t number(const Environment& environment, const std::string& name) {
  const std::string text = variable(environment, name);
  const auto value = parse_int(text);
  if (value && *value >= 0) return *value;
  throw invalid_argument(fmt::format("{} is '{}'", name, text), "Slurm sets it to a number");
}

FileDescriptor open_log(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.is_open()) {
    throw from_errno(errno, "cannot open " + path,
                     "the records of jobs must lie where all nodes reach them: set XDG_STATE_HOME");
  }
  return file;
}

// Whether to start the task again may help: it was killed, asked to stop, or asks for it.
bool may_end_otherwise(const launch::ExitStatus& status) {
  return status.signal != 0 || status.code > 128;
}

// Waits for a child, whatever signals come meanwhile: they are meant for it.
launch::ExitStatus wait_for(pid_t child) {
  int word = 0;
  while (waitpid(child, &word, 0) < 0 && errno == EINTR) {
  }
  return launch::ExitStatus::from_wait_status(word);
}

}  // namespace

std::vector<std::string> slurm_addresses(const JobSpec& job, const Environment& environment,
                                         int attempt) {
  const size_t tasks = tasks_of(job).size();
  const std::string list = variable(environment, "SLURM_STEP_NODELIST");
  const std::string counts = variable(environment, "SLURM_STEP_TASKS_PER_NODE");
  const std::vector<std::string> nodes = cluster::expand_nodelist(list);
  const std::vector<int> on_node = cluster::expand_tasks_per_node(counts);
  const auto sum = static_cast<size_t>(std::accumulate(on_node.begin(), on_node.end(), 0));
  if (nodes.size() != on_node.size() || sum != tasks) {
    throw invalid_argument(
        fmt::format("the job has {} tasks, and Slurm's step has {} on {} nodes: "
                    "SLURM_STEP_TASKS_PER_NODE is {}, SLURM_STEP_NODELIST is {}",
                    tasks, sum, nodes.size(), counts, list),
        "leave --ntasks and --ntasks-per-node out of --slurm, or let them make as many tasks");
  }
  constexpr uint64_t kFirstPort = 20'000, kPorts = 12'000;
  // Jobs of one node are numbered one after another, and each may have many tasks there.
  const uint64_t start = static_cast<uint64_t>(number(environment, "SLURM_JOB_ID")) * 64 +
                         static_cast<uint64_t>(attempt) * 7919;
  std::vector<std::string> addresses;
  for (size_t node = 0; node < nodes.size(); ++node) {
    for (int slot = 0; slot < on_node[node]; ++slot) {
      const auto port =
          static_cast<int>(kFirstPort + (start + static_cast<uint64_t>(slot)) % kPorts);
      addresses.push_back(nodes.size() == 1 ? loopback_address(port)
                                            : fmt::format("{}:{}", nodes[node], port));
    }
  }
  return addresses;
}

int run_slurm_task(const std::string& folder, int attempt, const Environment& environment) {
  // Slurm sends signals to all processes of the step. This process stays to report the end.
  for (const int signal_number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP})
    signal(signal_number, SIG_IGN);
  const std::string path = join_path(folder, internal::kSlurmJobFile);
  const JobSpec job = job_spec_from_json(local_file_system().read_file(path).value(), path);
  const std::vector<JobTask> tasks = tasks_of(job);
  const std::vector<std::string> addresses = slurm_addresses(job, environment, attempt);
  const auto own = static_cast<size_t>(number(environment, "SLURM_PROCID"));
  if (own >= tasks.size()) {
    throw invalid_argument(fmt::format("SLURM_PROCID is {} of {} tasks", own, tasks.size()),
                           "let the script of the job start its tasks");
  }
  const JobTask& task = tasks[own];
  launch::ChildSpec child{.name = task.name(), .argv = words_of(job, *job.pool(task.role))};
  child.environment = variables_of(job, task);
  child.environment.emplace_back("TF_CONFIG", tf_config_of(job, task, addresses));
  child.environment.emplace_back("MUSTER_JOB_ID", job.name);
  child.environment.emplace_back("MUSTER_JOB_TOKEN_FILE", join_path(folder, kSlurmTokenFile));
  // Variables of the shell in which the job was submitted, which sbatch hands on.
  child.without = {"MUSTER_JOB_TOKEN", "MUSTER_CLUSTER", "RANK", "WORLD_SIZE"};
  // By this an evaluator distinguishes this start from the one before.
  child.environment.emplace_back(
      "MUSTER_RUN_ID", fmt::format("{}-{}-{}", variable(environment, "SLURM_JOB_ID"),
                                   environment.get_or("SLURM_RESTART_COUNT", "0"), attempt));
  const FileDescriptor log = open_log(join_path(folder, task.name() + ".log"));
  child.out = log.get();
  child.err = log.get();
  child.dies_with_parent = true;
  internal::SlurmTaskFile file{.host = environment.get_or("SLURMD_NODENAME", "")};
  internal::write_task(folder, task.name(), file);
  // The program gets the default actions.
  for (const int signal_number : {SIGUSR1, SIGUSR2, SIGHUP}) signal(signal_number, SIG_DFL);
  sigset_t held, former;
  sigemptyset(&held);
  for (const int signal_number : {SIGUSR1, SIGUSR2, SIGHUP}) sigaddset(&held, signal_number);
  sigprocmask(SIG_BLOCK, &held, &former);
  child.mask = former;
  const launch::ExitStatus status = wait_for(launch::spawn(child));
  file.exit_code = status.shell_code();
  internal::write_task(folder, task.name(), file);
  if (!status.ok() && !may_end_otherwise(status)) {
    const FileDescriptor failed = open_log(join_path(folder, kSlurmFailedFile));
    const std::string line = fmt::format("{} {}\n", status.code, task.name());
    if (write(failed.get(), line.data(), line.size()) < 0)
      throw from_errno(errno, "cannot write to " + join_path(folder, kSlurmFailedFile));
  }
  return status.shell_code();
}

}  // namespace muster::inline v0_1::jobs
