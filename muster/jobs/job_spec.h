// A job as plain data: which program runs as which tasks on which machines, whatever file it was
// read from and wherever it will run. Thread safety: values.
//
// Readers of configurations make one (AI Platform's trainingInput, Vertex AI's CustomJob), and each
// target takes one: this machine, Slurm, Kubernetes, Vertex AI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::inline v0_1::jobs {

// GPUs, or the like, of one machine.
struct Accelerator {
  std::string type{};  // as the configuration writes it: "NVIDIA_TESLA_T4"
  int count = 0;       // 0: none
  bool operator==(const Accelerator&) const = default;
};

// The tasks of one role, which are alike.
struct Pool {
  std::string role{};          // "chief", "worker", "ps" or "evaluator"
  int count = 0;               // tasks, each on a machine of its own where the target has several
  std::string machine_type{};  // "n1-standard-8"; empty: the target's default
  Accelerator accelerator = {};
  std::string image{};                    // the container; empty: the job's, or none
  std::vector<std::string> command = {};  // instead of the image's entry point
  std::vector<std::string> args = {};     // in place of the job's arguments, if there are any
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::string disk_type = {};  // "pd-ssd"
  int disk_gigabytes = 0;      // 0: the target's default
  bool operator==(const Pool&) const = default;
};

// How long a job may take, and what follows the loss of a task.
struct Scheduling {
  int64_t max_running_seconds = 0;  // 0: the target's limit
  int64_t max_wait_seconds = 0;     // in the queue; 0: the target's limit
  int priority = 0;
  bool restart_on_worker_restart = false;  // all tasks, as Vertex AI offers
  int restarts = 3;  // how often a task that was killed, or asks for it with 138, is started again
  bool operator==(const Scheduling&) const = default;
};

// One hyper-parameter of a search.
struct HyperParameter {
  // Which values it may have.
  enum class Type { kDouble, kInteger, kCategorical, kDiscrete };
  // How the values between its bounds are spread.
  enum class Scale { kNone, kLinear, kLog, kReverseLog };
  std::string name{};  // of the flag: --name=value
  Type type = Type::kDouble;
  double min_value = 0;                      // of doubles and integers, inclusive
  double max_value = 0;                      // of doubles and integers, inclusive
  std::vector<std::string> categories = {};  // of categorical ones
  std::vector<double> values = {};           // of discrete ones, ascending
  Scale scale = Scale::kNone;
  bool operator==(const HyperParameter&) const = default;
};

// A search for the best hyper-parameters, by trials of the whole job.
struct HyperParameterSearch {
  // How values are chosen; the default draws at random, and stops trials by halving.
  enum class Algorithm { kDefault, kGrid, kRandom };
  bool maximize = true;
  std::vector<HyperParameter> parameters{};
  int max_trials = 1;
  int max_parallel_trials = 1;
  int max_failed_trials = 0;                            // 0: the target's default
  std::string metric_tag = "training/hptuning/metric";  // of the summary that is compared
  Algorithm algorithm = Algorithm::kDefault;
  bool early_stopping = false;  // of trials that will not become the best
  bool operator==(const HyperParameterSearch&) const = default;
};

// One job.
struct JobSpec {
  std::string name{};                  // empty: made from the program and the time
  std::vector<std::string> program{};  // the program and the words before the arguments
  std::vector<std::string> args{};     // of all tasks; arguments of the command line come last
  std::vector<Pool> pools{};           // chief, worker, ps, evaluator, each at most once
  // Whether TF_CONFIG calls the first task "chief"; false: "master", as AI Platform's old runtimes.
  bool chief_in_tf_config = true;
  std::string job_dir{};  // passed on as --job-dir; a path or a URI; empty: none
  std::string region{};
  std::string project{};  // of the cloud; empty: the default of its tools
  std::string service_account{};
  std::string network{};
  std::string tensorboard{};  // resource name of Vertex AI's
  std::vector<std::pair<std::string, std::string>> labels{};
  Scheduling scheduling{};
  std::optional<HyperParameterSearch> search{};
  // The number of the trial that this job runs for a search; empty: none. TF_CONFIG contains it.
  std::string trial = {};
  bool operator==(const JobSpec&) const = default;

  // The pool of that role; nullptr when it has no tasks.
  const Pool* pool(const std::string& role) const;
  // The tasks of all pools together.
  int task_count() const;
};

}  // namespace muster::inline v0_1::jobs
