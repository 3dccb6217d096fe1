#include "muster/distribute/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/internal/check_options.h"
#include "muster/distribute/reducer.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"

namespace muster::inline v0_1::distribute {

std::unique_ptr<Replica> Strategy::start(const StartOptions& options) const {
  std::vector<std::unique_ptr<Replica>> replicas = start_replicas(options);
  if (replicas.size() != 1) {
    throw invalid_argument(
        fmt::format("{} has {} replicas in this process", name(), replicas.size()),
        "call start_replicas(), and use each replica in its own thread");
  }
  return std::move(replicas.front());
}

void Strategy::serve(const StartOptions& options, const BuildModel& /*build*/) const {
  throw invalid_argument(
      fmt::format("this is {}, and {} has no parameter servers", options.cluster.task.name(),
                  name()),
      "take a strategy that has, in every task: --strategy=parameter_server, where the program has "
      "that flag, in its source .train_distribute = distribute::parameter_server(); or remove "
      "\"ps\" from \"cluster\" in TF_CONFIG of every task");
}

void check_worker(const cluster::ResolvedCluster& task, const std::string& verb) {
  if (task.is_evaluator) {
    throw invalid_argument(
        fmt::format("a task of type \"evaluator\" does not {}: it evaluates the checkpoints of "
                    "others, in train_and_evaluate()",
                    verb),
        "start no evaluator for this program; or train by train_and_evaluate(), a Keras model by "
        "model_to_estimator()");
  }
  if (task.task.type != "ps") return;
  throw invalid_argument(
      fmt::format("a task of type \"{}\" does not {}", task.task.type, verb),
      "a parameter server only serves the others: call train() or train_and_evaluate() in it, or "
      "ClusterCoordinator::serve(), with distribute::parameter_server()");
}

std::vector<Device> replica_devices(const std::vector<std::string>& devices, int replicas) {
  if (devices.empty()) return std::vector<Device>(std::max(replicas, 1), at::kCPU);
  std::vector<Device> parsed = parse_devices(devices);
  for (const Device& device : parsed) {
    if (device.type() == parsed[0].type()) continue;
    throw invalid_argument(fmt::format("not supported: replicas on devices of several kinds ({})",
                                       join_quoted(devices)),
                           "use only GPUs, or only the CPU");
  }
  return parsed;
}

void internal::check_options(const CommunicationOptions& options, const std::string& structure,
                             const std::string& replicas) {
  const auto named = [&](const std::string& field) { return structure + "." + field; };
  if (options.local_replicas < 1) {
    throw invalid_argument(fmt::format("{} is {}", named(replicas), options.local_replicas),
                           "it must be at least 1");
  }
  if (options.bytes_per_pack && *options.bytes_per_pack < 0) {
    throw invalid_argument(
        fmt::format("{} is {}", named("bytes_per_pack"), *options.bytes_per_pack),
        "leave it unset, or use 0 for one bucket, or a size in bytes");
  }
  check_wire_dtype(named("wire_dtype"), options.wire_dtype);
  for (const auto& [field, time] : {std::pair{"timeout", options.timeout},
                                    std::pair{"heartbeat_interval", options.heartbeat_interval},
                                    std::pair{"progress_timeout", options.progress_timeout},
                                    std::pair{"save_timeout", options.save_timeout}}) {
    if (time.count() > 0) continue;
    throw invalid_argument(
        fmt::format("{} is {} s; it must be more than 0", named(field), time.count()));
  }
  if (options.heartbeat_timeout < 2 * options.heartbeat_interval) {
    throw invalid_argument(
        fmt::format("{} is {} s, heartbeat_interval {} s", named("heartbeat_timeout"),
                    options.heartbeat_timeout.count(), options.heartbeat_interval.count()),
        "allow for at least two missed heartbeats");
  }
}

}  // namespace muster::inline v0_1::distribute
