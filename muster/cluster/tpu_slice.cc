#include "muster/cluster/tpu_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/address.h"
#include "muster/cluster/internal/launcher_process.h"

namespace muster::inline v0_1::cluster {
namespace {

constexpr const char* kFix =
    "the TPU VM or GKE sets this variable: leave it as it is; MUSTER_CLUSTER=local trains alone";

// A variable and its text.
struct Variable {
  std::string name{};
  std::string text{};
};

// The first of the variables that is set; empty texts if none is.
Variable first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string text = environment.get_or(name, ""); !text.empty()) return {name, text};
  }
  return {};
}

// One process for each chip.
bool is_process_per_chip(const Environment& environment) {
  return internal::has_all(environment, {"TPU_PROCESS_ADDRESSES", "CLOUD_TPU_TASK_ID"});
}

// The numbers of "2,2,1". TPU 7x adds a fourth number, the cores of a chip, to process bounds.
std::vector<int64_t> numbers_of_bounds(const Variable& bounds) {
  constexpr int64_t kMost = 1'000'000;
  std::vector<int64_t> numbers;
  int64_t product = 1;
  for (const std::string& text : split(bounds.text, ',')) {
    const int64_t number = parse_int(trim(text)).value_or(0);
    if (number < 1 || number > kMost || (product *= number) > kMost) {
      numbers.clear();
      break;
    }
    numbers.push_back(number);
  }
  if (numbers.size() == 3 || numbers.size() == 4) return numbers;
  throw invalid_argument(fmt::format("{} is '{}', and not three whole numbers such as 2,2,1",
                                     bounds.name, bounds.text),
                         kFix);
}

int64_t product_of(const std::vector<int64_t>& numbers, size_t count) {
  int64_t product = 1;
  for (size_t i = 0; i < std::min(count, numbers.size()); ++i) product *= numbers[i];
  return product;
}

void check_bounds(const Environment& environment, const Variable& list, size_t processes) {
  const Variable bounds = first_of(environment, {"TPU_PROCESS_BOUNDS", "TPU_HOST_BOUNDS"});
  if (bounds.name.empty()) return;
  const std::vector<int64_t> numbers = numbers_of_bounds(bounds);
  const auto count = static_cast<int64_t>(processes);
  if (product_of(numbers, 3) == count || product_of(numbers, 4) == count) return;
  throw invalid_argument(
      fmt::format("{} is {}, which is {} process{}, and {} has {}", bounds.name, bounds.text,
                  product_of(numbers, 4), product_of(numbers, 4) == 1 ? "" : "es", list.name,
                  processes),
      fmt::format("unset {} to use the whole slice; MUSTER_CLUSTER=local trains alone",
                  bounds.name));
}

std::vector<std::string> read_hosts(const Variable& list, bool with_ports) {
  std::vector<std::string> hosts;
  std::set<std::string> known;
  for (const std::string& part : split(list.text, ',')) {
    const std::string entry(trim(part));
    const std::string host = with_ports ? host_of(entry) : entry;
    if (host.empty()) {
      throw invalid_argument(
          fmt::format("{} is '{}': host {} is empty", list.name, list.text, hosts.size()), kFix);
    }
    if (!known.insert(entry).second) {
      throw invalid_argument(
          fmt::format("{} is '{}': it has '{}' twice", list.name, list.text, entry), kFix);
    }
    hosts.push_back(host);
  }
  return hosts;
}

// Each slice numbers its workers from 0, so they would be several clusters.
void check_one_slice(const Environment& environment) {
  if (internal::number_if_set(environment, "MEGASCALE_NUM_SLICES", 1).value_or(1) == 1) return;
  throw invalid_argument(fmt::format("not supported: one run on {} slices (MEGASCALE_NUM_SLICES)",
                                     environment.get_or("MEGASCALE_NUM_SLICES", "")),
                         "use one slice, or give all hosts RANK, WORLD_SIZE and MASTER_ADDR");
}

}  // namespace

bool has_tpu_slice(const Environment& environment) {
  return is_process_per_chip(environment) ||
         (internal::has_all(environment, {"TPU_WORKER_HOSTNAMES"}) &&
          !first_of(environment, {"CLOUD_TPU_TASK_ID", "TPU_WORKER_ID"}).name.empty());
}

int tpu_chips_per_process(const Environment& environment) {
  const Variable bounds =
      first_of(environment, {"TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_CHIPS_PER_HOST_BOUNDS"});
  return bounds.name.empty() ? 0 : static_cast<int>(product_of(numbers_of_bounds(bounds), 3));
}

TpuSlice read_tpu_slice(const Environment& environment) {
  check_one_slice(environment);
  const bool per_chip = is_process_per_chip(environment);
  const Variable list =
      first_of(environment, {per_chip ? "TPU_PROCESS_ADDRESSES" : "TPU_WORKER_HOSTNAMES"});
  const Variable id = first_of(environment, {"CLOUD_TPU_TASK_ID", "TPU_WORKER_ID"});
  TpuSlice slice{.name = environment.get_or("TPU_NAME", ""),
                 .accelerator = environment.get_or("TPU_ACCELERATOR_TYPE", ""),
                 .worker = internal::number_of(environment, id.name),
                 .hosts = read_hosts(list, per_chip),
                 .chips = tpu_chips_per_process(environment)};
  if (slice.worker >= std::ssize(slice.hosts)) {
    throw invalid_argument(fmt::format("{} is {}, and {} has {} host{}: workers are 0 to {}",
                                       id.name, slice.worker, list.name, slice.hosts.size(),
                                       slice.hosts.size() == 1 ? "" : "s", slice.hosts.size() - 1),
                           kFix);
  }
  check_bounds(environment, list, slice.hosts.size());
  return slice;
}

ClusterSpec tpu_cluster_spec(const std::vector<std::string>& hosts, int port) {
  ClusterSpec cluster;
  for (size_t worker = 0; worker < hosts.size(); ++worker)
    cluster.add({"worker", static_cast<int>(worker)}, join_address(hosts[worker], port));
  return cluster;
}

}  // namespace muster::inline v0_1::cluster
