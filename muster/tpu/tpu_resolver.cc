#include "muster/tpu/tpu_resolver.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/tpu_slice.h"

namespace muster::inline v0_1::cluster {
namespace {

void check_options(const TpuResolverOptions& options) {
  if (options.tpu.find("://") != std::string::npos) {
    throw invalid_argument(
        fmt::format("not supported: the TPU at the address '{}'", options.tpu),
        "run the program on the hosts of the TPU, and leave TpuResolverOptions.tpu empty");
  }
  if (options.port < 1 || options.port > 65535) {
    throw invalid_argument(fmt::format("TpuResolverOptions.port is {}", options.port),
                           "a port is 1 to 65535");
  }
}

// "TPU" or "CPU".
std::string device_of(const Environment& environment) {
  const std::string device = environment.get_or("PJRT_DEVICE", "");
  if (device.empty() || device == "TPU") return "TPU";
  if (device == "CPU") return device;
  throw invalid_argument(fmt::format("PJRT_DEVICE is '{}'", device),
                         "TpuResolver knows TPU, and CPU for a machine without a TPU");
}

// The devices that XLA makes of the CPU.
int cpu_devices(const Environment& environment) {
  const std::string text = environment.get_or("CPU_NUM_DEVICES", "1");
  const std::optional<int64_t> count = parse_int(text);
  if (count && *count >= 1 && *count <= 1024) return static_cast<int>(*count);
  throw invalid_argument(fmt::format("CPU_NUM_DEVICES is '{}'", text),
                         "it is the number of devices that XLA makes of the CPU: 1 to 1024");
}

// The lines of "tpu-env": KEY: 'VALUE'.
std::map<std::string, std::string> read_tpu_env(const std::string& text) {
  std::map<std::string, std::string> values;
  for (const std::string& line : split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string_view value = trim(std::string_view(line).substr(colon + 1));
    const bool quoted = value.size() >= 2 && (value.front() == '\'' || value.front() == '"') &&
                        value.back() == value.front();
    if (quoted) value = value.substr(1, value.size() - 2);
    values[std::string(trim(std::string_view(line).substr(0, colon)))] = value;
  }
  return values;
}

// The third fields of "NAME:UID:ADDRESS,NAME:UID:ADDRESS"; an address of IPv6 has colons itself.
std::string hosts_in_endpoints(const std::string& text) {
  std::vector<std::string> hosts;
  for (const std::string& endpoint : split(text, ',')) {
    const size_t first = endpoint.find(':');
    const size_t second = first == std::string::npos ? first : endpoint.find(':', first + 1);
    if (second == std::string::npos) {
      throw invalid_argument(
          fmt::format("worker-network-endpoints is '{}', and '{}' is not NAME:UID:ADDRESS", text,
                      endpoint),
          "the TPU VM's metadata server has it: look at the state of the TPU");
    }
    hosts.emplace_back(trim(std::string_view(endpoint).substr(second + 1)));
  }
  return join(hosts, ",");
}

// The metadata of a TPU VM as the variables that GKE would set.
Environment with_metadata(Environment environment, const ReadTpuAttribute& read_attribute,
                          const std::string& zone) {
  const std::optional<std::string> text = read_attribute("tpu-env");
  const std::optional<std::string> endpoints = read_attribute("worker-network-endpoints");
  for (const auto& [name, found] :
       {std::pair{"tpu-env", &text}, std::pair{"worker-network-endpoints", &endpoints}}) {
    if (*found) continue;
    throw invalid_argument(
        fmt::format("the metadata server has no attribute {}: this machine is not a TPU VM", name),
        "run the program on a TPU VM, in GKE, or with PJRT_DEVICE=CPU on a machine without a TPU");
  }
  std::map<std::string, std::string> values = read_tpu_env(*text);
  if (!values.contains("WORKER_ID")) {
    throw invalid_argument("the attribute tpu-env of this TPU VM has no WORKER_ID",
                           "look at the state of the TPU");
  }
  if (const auto own = values.find("ZONE");
      own != values.end() && !zone.empty() && own->second != zone) {
    throw invalid_argument(
        fmt::format("the program wants a TPU in the zone '{}', and this one is in '{}'", zone,
                    own->second),
        "run it on a TPU of that zone, or leave TpuResolverOptions.zone empty");
  }
  const std::map<std::string, std::string> variables{
      {"WORKER_ID", "TPU_WORKER_ID"},
      {"ACCELERATOR_TYPE", "TPU_ACCELERATOR_TYPE"},
      {"TPU_PROCESS_BOUNDS", "TPU_PROCESS_BOUNDS"},
      {"TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS"}};
  for (const auto& [key, variable] : variables) {
    // What the user sets has priority, as it has in the runtime.
    if (values.contains(key) && environment.get_or(variable, "").empty())
      environment = environment.with(variable, values[key]);
  }
  return environment.with("TPU_WORKER_HOSTNAMES", hosts_in_endpoints(*endpoints));
}

void check_name(const TpuResolverOptions& options, const std::string& name) {
  if (options.tpu.empty() || options.tpu == "local" || name.empty() || options.tpu == name) return;
  throw invalid_argument(
      fmt::format("the program wants the TPU '{}', and TPU_NAME is '{}'", options.tpu, name),
      "run it on that TPU, or leave TpuResolverOptions.tpu empty");
}

}  // namespace

TpuResolver::TpuResolver(const TpuResolverOptions& options, const Environment& environment,
                         const ReadTpuAttribute& read_attribute)
    : environment_(environment), port_(options.port) {
  check_options(options);
  const bool on_cpu = device_of(environment) == "CPU";
  if (!has_tpu_slice(environment_) && read_attribute && !on_cpu)
    environment_ = with_metadata(environment_, read_attribute, options.zone);
  if (has_tpu_slice(environment_)) {
    TpuSlice slice = read_tpu_slice(environment_);
    accelerator_type_ = std::move(slice.accelerator);
    hosts_ = std::move(slice.hosts);
    worker_ = slice.worker;
    chips_per_worker_ = slice.chips;
  } else if (on_cpu) {
    hosts_ = {"localhost"};
  } else {
    throw invalid_argument(
        "no TPU was found: TPU_WORKER_ID and TPU_WORKER_HOSTNAMES do not describe a slice",
        "run the program in GKE, which sets both; on a TPU VM, give TpuResolver a function that "
        "reads the metadata; on a machine without a TPU, set PJRT_DEVICE=CPU");
  }
  if (on_cpu) {
    chips_per_worker_ = cpu_devices(environment_);
  }
  name_ = environment_.get_or("TPU_NAME", "");
  check_name(options, name_);
  if (name_.empty() && options.tpu != "local") name_ = options.tpu;
}

ClusterSpec TpuResolver::cluster_spec() const { return tpu_cluster_spec(hosts_, port_); }

}  // namespace muster::inline v0_1::cluster
