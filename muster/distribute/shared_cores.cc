#include "muster/distribute/internal/shared_cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error.h"
#include "muster/base/host_identity.h"
#include "muster/base/log.h"
#include "muster/plan/failure.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::distribute {
namespace {

using nlohmann::json;

// The numbers of the cores that this process may run on.
std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

std::string describe_host() {
  std::string host;
  try {
    host = host_identity();
  } catch (const Error&) {
    // Then no other task is known to share it.
  }
  return json{{"host", host}, {"threads", num_threads()}, {"cores", own_cores()}}.dump();
}

void warn_of_shared_cores(const std::vector<std::string>& hosts,
                          const cluster::ResolvedCluster& cluster) {
  std::vector<json> all;
  for (const std::string& text : hosts) all.push_back(json::parse(text));
  const json& own = all.at(static_cast<size_t>(cluster.rank));
  if (own.at("host") == "") return;
  std::set<int> cores;
  int threads = 0;
  std::vector<std::string> tasks;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].at("host") != own.at("host")) continue;
    if (tasks.empty() && static_cast<int>(rank) != cluster.rank) return;  // another one speaks
    for (const int core : all[rank].at("cores")) cores.insert(core);
    threads += all[rank].at("threads").get<int>();
    tasks.push_back(plan::readable_task(cluster.workers[rank].name()));
  }
  const int there = static_cast<int>(cores.size());
  // One thread each is the least.
  const int fewest = std::max(there, static_cast<int>(tasks.size()));
  if (tasks.size() < 2 || there == 0 || threads <= fewest) return;
  log::warning(
      fmt::format("{} share this machine and compute with {} threads on {} cores, which slows all "
                  "of them; set MUSTER_THREADS={} for each, or start them with muster run",
                  fmt::join(tasks, ", "), threads, there,
                  std::max<int>(1, there / static_cast<int>(tasks.size()))));
}

}  // namespace muster::inline v0_1::distribute
