#include "muster/cluster/internal/launcher_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/loopback.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

constexpr int kLastPort = 65535;
// Each has a place in memory.
constexpr int kMostProcesses = 1'000'000;

// "RANK and WORLD_SIZE".
bool is_plural(std::string_view source) { return source.find(" and ") != std::string_view::npos; }

void check_ranks(const LauncherProcess& process) {
  if (process.size > kMostProcesses) {
    throw invalid_argument(
        fmt::format("{} that this process has rank {} of {}: there are at most {}",
                    says(process.source), process.rank, process.size, kMostProcesses),
        "its launcher sets the number of processes; MUSTER_CLUSTER=local trains alone");
  }
  if (process.size < 1 || process.rank >= process.size) {
    throw invalid_argument(
        fmt::format("{} that this process has rank {} of {}: ranks are 0 to {}",
                    says(process.source), process.rank, process.size, process.size - 1),
        "start the program by one launcher, which sets both");
  }
  if (process.local_size < 1 || process.local_rank >= process.local_size ||
      process.local_size > process.size) {
    throw invalid_argument(
        fmt::format("{} that this process is number {} of {} on its machine, of {} in all",
                    says(process.source), process.local_rank, process.local_size, process.size),
        "start the program by one launcher, which sets all of these");
  }
}

// Whether Linux gives this port to outgoing connections, by its default range.
bool is_ephemeral(int port) { return port >= 32768 && port <= 60999; }

int coordinator_port(const LauncherProcess& process, const Environment& environment) {
  if (const auto own = number_if_set(environment, "MUSTER_PORT", 1)) {
    if (*own <= kLastPort) return *own;
    throw invalid_argument(fmt::format("MUSTER_PORT is {}; ports end at {}", *own, kLastPort));
  }
  if (const auto master = number_if_set(environment, "MASTER_PORT", 1)) {
    // The launcher's own store may listen at MASTER_PORT itself. In the range of outgoing
    // connections the next port may be one of them, as a client of that store.
    if (is_ephemeral(*master) || is_ephemeral(*master + 1))
      return port_for(static_cast<uint64_t>(*master));
    return *master < kLastPort ? *master + 1 : *master - 1;
  }
  return process.port != 0 ? process.port : kUsualPort;
}

std::string coordinator_host(const LauncherProcess& process, const Environment& environment) {
  const std::string loopback = loopback_host();
  const std::string given = environment.get_or("MASTER_ADDR", "");
  const std::string& host = process.one_machine ? loopback : given.empty() ? process.host : given;
  if (!host.empty()) return host.find(':') == std::string::npos ? host : "[" + host + "]";
  throw invalid_argument(
      fmt::format("{} not say on which machine rank 0 of the {} processes runs",
                  std::string(process.source) + (is_plural(process.source) ? " do" : " does"),
                  process.size),
      process.no_host_hint.empty() ? "set MASTER_ADDR to its name or number in all of them"
                                   : process.no_host_hint);
}

}  // namespace

std::string says(std::string_view source) {
  return std::string(source) + (is_plural(source) ? " say" : " says");
}

ResolvedCluster to_cluster(const LauncherProcess& process, const Environment& environment) {
  check_ranks(process);
  ResolvedCluster result;
  result.rank = process.rank;
  result.local_rank = process.local_rank;
  result.local_size = process.local_size;
  if (process.size == 1) return result;
  result.task = {"worker", process.rank};
  result.is_chief = process.rank == 0;
  result.num_workers = process.size;
  result.coordinator_address = fmt::format("{}:{}", coordinator_host(process, environment),
                                           coordinator_port(process, environment));
  result.workers.clear();
  for (int rank = 0; rank < process.size; ++rank) result.workers.push_back({"worker", rank});
  result.addresses.resize(static_cast<size_t>(process.size));
  result.addresses.front() = result.coordinator_address;
  return result;
}

std::optional<int> number_if_set(const Environment& environment, const std::string& name,
                                 int least) {
  const std::string text = environment.get_or(name, "");
  if (text.empty()) return std::nullopt;
  const std::optional<int64_t> number = parse_int(text);
  if (number && *number >= least && *number <= std::numeric_limits<int>::max())
    return static_cast<int>(*number);
  throw invalid_argument(
      fmt::format("{} is '{}', and not a whole number of at least {}", name, text, least),
      "its launcher sets it; MUSTER_CLUSTER=local trains alone");
}

int number_of(const Environment& environment, const std::string& name, int least) {
  if (const auto number = number_if_set(environment, name, least)) return *number;
  throw invalid_argument(
      fmt::format("{} is not set, and the launcher of this process should", name),
      "set it; MUSTER_CLUSTER=local trains alone");
}

bool has_all(const Environment& environment, std::initializer_list<const char*> names) {
  return std::ranges::all_of(
      names, [&](const char* name) { return !environment.get_or(name, "").empty(); });
}

int port_for(uint64_t job) {
  constexpr int kFirst = 61440, kCount = 4096;
  return kFirst + static_cast<int>(job % kCount);
}

int port_for(std::string_view job) { return port_for(fingerprint64(job)); }

}  // namespace muster::inline v0_1::cluster::internal
