// `muster run` starts the tasks of one cluster on this machine. plan_run() says as plain data what
// will be started; run() starts and supervises it. Thread safety: plan_run() is a pure function;
// for run() see supervise().
//
// Several tasks get a TF_CONFIG each, on loopback addresses with free ports: a worker-only cluster,
// or with `chief` one of a chief and workers, and with `ps` of servers. A single task gets none and
// runs locally, as under Kubeflow's TFJob. An evaluator is one more process with a TF_CONFIG of its
// own; it is not part of the cluster, and listens nowhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/free_ports.h"
#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch {

struct RunPlan;

// The place of a machine in a run on several. Each machine has the same number of workers; the
// first machine has the chief and the evaluator too.
struct RunPlace {
  int node = 0;  // of this machine, from 0
  // Of each machine the addresses of its tasks of the cluster, "10.0.0.1:40123", the chief's first.
  std::vector<std::vector<std::string>> addresses{};
  std::string job_id{};  // the name of the job
  std::string run_id{};  // by which an evaluator tells what an earlier run has left
  bool joins = false;    // the others of an elastic run train already
};

// The flags of `muster run`.
struct RunOptions {
  int workers = 1;
  // More than 0: the run is elastic. It continues without workers that are lost while so many tasks
  // that train are left, on all machines, the first of them (the chief, or worker 0) always.
  int min_workers = 0;
  bool chief = false;      // one more task, of type chief
  int ps = 0;              // parameter servers; they need a chief
  bool evaluator = false;  // one more task, of type evaluator, next to the cluster
  int cores_per_task = 0;  // 0: the cores there are, divided by the tasks
  int threads = 0;         // per task; 0: its cores, unless the environment says
  bool pin = true;         // each task to cores of its own, when there are enough
  bool tls = false;        // the tasks talk to the coordinator over TLS, with certificates we make
  bool json = false;       // the tasks log as JSON, and so do we
  // How often within an hour what was killed, or asks for it with 138, is started again: a task of
  // a run with parameter servers, a worker of an elastic run, or the evaluator, by itself; of other
  // runs all tasks together.
  int restart = 0;
  // Set on one of several machines: see nodes/node_run.h. The numbers above are then of each
  // machine.
  std::optional<RunPlace> place{};
  std::vector<std::string> command{};
  SuperviseOptions supervise{};
  // Changes what run() has planned, before it is started; also when it is started again.
  std::function<void(RunPlan&)> adjust = {};
};

// The cores that this process may use. Siblings of one physical core, and cores of one socket,
// stand side by side.
struct Machine {
  std::vector<int> cores{};
  int usable = 1;  // fewer than cores where a container has a CPU quota; then nothing is pinned
};
// Reads the machine that this process runs on, by its affinity mask and CPU quota.
Machine this_machine();

// The processes that will be started, and where they listen.
struct RunPlan {
  std::vector<ProcessSpec> processes{};
  std::vector<std::string> addresses{};  // "127.0.0.1:40123", as in processes
  // More cores were asked for than there are, with the numbers; empty: no.
  std::string warning = {};
};

// Throws InvalidArgument for options out of range.
void check_run_options(const RunOptions& options);

// Plans a run; `ports` holds one port for each task of the cluster, and is empty with
// `options.place`. OMP_NUM_THREADS and
// MUSTER_THREADS are the task's share of cores (at least 1), unless `options.threads` or the
// environment sets them. Throws InvalidArgument for options out of range, and for a MUSTER_THREADS
// that is not a positive number.
RunPlan plan_run(const RunOptions& options, const Machine& machine, const std::vector<int>& ports,
                 const Environment& environment);

// The number of tasks of the cluster on this machine: the workers, the chief where there is one,
// and the servers.
int cluster_size(const RunOptions& options);
// The number of processes: these, and the evaluator where there is one.
int task_count(const RunOptions& options);

// Returns the path of `program`: `program` itself when it has a slash, else the one in the folders
// of `path` (as in PATH), else the one in the folder `beside`. Throws NotFound, with the nearest
// name of a program there.
std::string find_program(const std::string& program, std::string_view path,
                         const std::string& beside = {});

// Returns `text` as one word of a POSIX shell, in quotes where they are needed.
std::string shell_quoted(const std::string& text);

// Returns a shell command for each task, ready to be pasted, for --dry-run.
std::string describe(const RunPlan& plan);

// Lines that say why all tasks start again: for the restart of this number in the last hour, after
// a pause in seconds; and because another program uses a port of these addresses.
std::string starting_again(double pause, int restart, int restarts);
std::string ports_in_use(const std::string& addresses);

// Starts and supervises what was planned, once. The outcome says whether new ports are needed.
Outcome run_once(const RunOptions& options, RunPlan plan, SuperviseOptions supervision);

// Plans and supervises a run; command[0] is a path. When a task exits with 138 after a line with
// "address already in use", new ports are chosen and all tasks are started again, once. Returns the
// group's exit code, of the last time where it was started several times.
int run(const RunOptions& options, const std::function<std::vector<int>(int)>& ports = free_ports);

}  // namespace muster::inline v0_1::launch
