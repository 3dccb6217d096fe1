#include "muster/distribute/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/internal/start_multi_worker.h"
#include "muster/distribute/reducer.h"

namespace muster::inline v0_1::distribute {
namespace {

void check_positive(double value, const char* name) {
  if (!(value > 0)) {
    throw invalid_argument(
        fmt::format("CommunicationOptions.{} is {}; it must be more than 0", name, value));
  }
}

class MultiWorkerMirrored : public Strategy {
 public:
  explicit MultiWorkerMirrored(const CommunicationOptions& options)
      : options_(options), devices_(replica_devices(options.devices, options.local_replicas)) {
    check_wire_dtype("CommunicationOptions.wire_dtype", options.wire_dtype);
    if (options.bytes_per_pack && *options.bytes_per_pack < 0) {
      throw invalid_argument(
          fmt::format("CommunicationOptions.bytes_per_pack is {}", *options.bytes_per_pack),
          "leave it unset, or use 0 for one bucket, or a size in bytes");
    }
    if (options.local_replicas < 1) {
      throw invalid_argument(
          fmt::format("CommunicationOptions.local_replicas is {}", options.local_replicas),
          "it must be at least 1");
    }
    check_positive(options.timeout_seconds, "timeout_seconds");
    check_positive(options.heartbeat_seconds, "heartbeat_seconds");
    check_positive(options.progress_timeout_seconds, "progress_timeout_seconds");
    check_positive(options.save_timeout_seconds, "save_timeout_seconds");
    if (options.heartbeat_timeout_seconds < 2 * options.heartbeat_seconds) {
      throw invalid_argument(
          fmt::format("CommunicationOptions.heartbeat_timeout_seconds is {}, heartbeat_seconds {}",
                      options.heartbeat_timeout_seconds, options.heartbeat_seconds),
          "allow for at least two missed heartbeats");
    }
  }

  std::string_view name() const override { return "MultiWorkerMirrored"; }
  Device device() const override { return devices_[0]; }
  bool multi_worker() const override { return true; }

  std::vector<std::unique_ptr<Session>> start_replicas(const StartOptions& options) const override {
    if (options.cluster.num_ps > 0) {
      throw invalid_argument(
          "TF_CONFIG lists parameter servers, which MultiWorkerMirrored does not use",
          "remove \"ps\" from \"cluster\" in TF_CONFIG of every task");
    }
    if (!options.cluster.distributed()) {
      return mirrored({.replicas = options_.local_replicas,
                       .devices = options_.devices,
                       .bytes_per_pack =
                           options_.bytes_per_pack.value_or(MirroredOptions().bytes_per_pack),
                       .wire_dtype = options_.wire_dtype,
                       .timeout_seconds = options_.timeout_seconds,
                       .progress_timeout_seconds = options_.progress_timeout_seconds,
                       .save_timeout_seconds = options_.save_timeout_seconds})
          ->start_replicas(options);
    }
    return start_multi_worker(options, options_, devices_);
  }

 private:
  CommunicationOptions options_;
  std::vector<Device> devices_;  // by replica of this process
};

// "cuda:0,cuda:2" as a list.
std::vector<std::string> split_at_commas(const std::string& names) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    parts.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::unique_ptr<Session> Strategy::start(const StartOptions& options) const {
  std::vector<std::unique_ptr<Session>> sessions = start_replicas(options);
  if (sessions.size() != 1) {
    throw invalid_argument(
        fmt::format("{} has {} replicas in this process", name(), sessions.size()),
        "call start_replicas(), and use each session in a thread of its own");
  }
  return std::move(sessions.front());
}

StrategyPtr strategy_by_name(const std::string& name) {
  if (name == "one_device") return one_device();
  if (name == "multi_worker") return multi_worker_mirrored();
  if (name == "mirrored") return mirrored();
  const size_t colon = name.find(':');
  if (colon != std::string::npos) {
    const std::string of = name.substr(colon + 1);
    std::vector<std::string> devices = split_at_commas(of);
    const auto replicas = parse_int(of);
    if (replicas) devices.clear();
    const bool counted = replicas && *replicas >= 1 && *replicas <= 1024;
    if (counted || (!devices.empty() && std::ranges::all_of(devices, names_device))) {
      const int count = counted ? static_cast<int>(*replicas) : 1;
      if (name.starts_with("one_device:") && devices.size() == 1) return one_device(of);
      if (name.starts_with("mirrored:")) return mirrored({.replicas = count, .devices = devices});
      if (name.starts_with("multi_worker:"))
        return multi_worker_mirrored({.local_replicas = count, .devices = devices});
    }
  }
  throw invalid_argument(
      fmt::format("there is no strategy '{}'", name),
      "use one_device, mirrored (2 replicas in this process), mirrored:4 (or another number from 1 "
      "to 1024), multi_worker, or multi_worker:4 (replicas in each worker); on GPUs "
      "one_device:cuda, mirrored:cuda (all of them), multi_worker:cuda");
}

std::vector<Device> replica_devices(const std::vector<std::string>& devices, int replicas) {
  if (devices.empty()) return std::vector<Device>(std::max(replicas, 1), at::kCPU);
  std::vector<Device> parsed = parse_devices(devices);
  for (const Device& device : parsed) {
    if (device.type() == parsed[0].type()) continue;
    throw invalid_argument(fmt::format("not supported: replicas on devices of several kinds ({})",
                                       join_quoted(devices)),
                           "use GPUs alone, or the CPU alone");
  }
  return parsed;
}

StrategyPtr multi_worker_mirrored(const CommunicationOptions& options) {
  return std::make_shared<MultiWorkerMirrored>(options);
}

}  // namespace muster::inline v0_1::distribute
