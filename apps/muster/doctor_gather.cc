#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include "apps/muster/doctor.h"
#include "apps/muster/helper_program.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/memory_size.h"
#include "muster/base/strings.h"
#include "muster/cluster/address.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::app {
namespace {

// Returns the number after `key` in a file of lines "key number ..."; nothing when the key is not
// there.
std::optional<uint64_t> number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> word && word == key && words >> number) return number;
  }
  return std::nullopt;
}

std::set<std::string> hosts_of(const Environment& environment) {
  std::set<std::string> hosts;
  try {
    const auto cluster = cluster::resolve_cluster(environment, {.worker_zero_may_be_chief = true});
    for (const std::string& address : cluster.addresses)
      if (!address.empty()) hosts.insert(cluster::host_of(address));
  } catch (const Error&) {
    // judge_environment() reports the error.
  }
  return hosts;
}

// Joins the objects of the probe's lines; a line that is not JSON is left out.
void read_facts(ProbeFacts& probe) {
  probe.facts = nlohmann::json::object();
  for (const std::string& line : split(probe.ran->out, '\n')) {
    const auto object = parse_json(line, "muster-probe");
    if (!object.ok() || !object.value().is_object()) continue;
    if (const auto doing = object.value().find("doing"); doing != object.value().end()) {
      if (doing->is_string()) probe.doing = doing->get<std::string>();
    } else {
      probe.facts.update(object.value());
    }
  }
}

}  // namespace

std::map<std::string, Addresses> look_up(const std::set<std::string>& hosts,
                                         std::function<Addresses(const std::string&)> resolve,
                                         std::chrono::milliseconds deadline) {
  constexpr size_t kMostThreads = 16;
  struct Shared {
    std::function<Addresses(const std::string&)> resolve;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> waiting;
    std::map<std::string, Addresses> found;
  };
  const auto shared = std::make_shared<Shared>();
  shared->resolve = std::move(resolve);
  shared->waiting.assign(hosts.rbegin(), hosts.rend());
  const auto work = [shared] {
    std::unique_lock lock(shared->mutex);
    while (!shared->waiting.empty()) {
      const std::string host = std::move(shared->waiting.back());
      shared->waiting.pop_back();
      lock.unlock();
      Addresses addresses = shared->resolve(host);
      lock.lock();
      shared->found[host] = std::move(addresses);
      shared->changed.notify_all();
    }
  };
  size_t threads = 0;
  try {
    for (; threads < std::min(hosts.size(), kMostThreads); ++threads) std::thread(work).detach();
  } catch (const std::system_error&) {
    // The threads that could be started do the work; without any, no host is looked up.
  }
  std::unique_lock lock(shared->mutex);
  if (threads > 0) {
    shared->changed.wait_for(lock, deadline, [&] { return shared->found.size() == hosts.size(); });
  }
  shared->waiting.clear();  // the rest is not awaited
  return shared->found;
}

MachineFacts gather_machine(const Environment& environment) {
  MachineFacts facts;
  facts.cores = launch::this_machine();
  facts.memory = number_in("/proc/meminfo", "MemTotal:").value_or(0) * 1024;
  facts.memory_available = number_in("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  facts.memory_limit = memory_limit();
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    facts.open_files = files.rlim_cur;
  }
  facts.interfaces = network_interfaces();
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) facts.host_name = name;
  std::set<std::string> hosts = hosts_of(environment);
  if (!facts.host_name.empty()) hosts.insert(facts.host_name);
  // Without this limit, a name server that does not answer would take much longer.
  facts.hosts = look_up(
      hosts, [](const std::string& host) { return addresses_of(host); }, std::chrono::seconds(3));
  return facts;
}

ProbeFacts gather_probe(const std::string& own_folder, std::chrono::milliseconds deadline) {
  ProbeFacts probe;
  probe.deadline = std::chrono::duration<double>(deadline).count();
  HelperProgram helper = find_helper_program(own_folder, "muster-probe");
  probe.path = std::move(helper.path);
  probe.looked_in = std::move(helper.looked_in);
  if (probe.path.empty()) return probe;
  try {
    probe.ran = launch::run_to_end({probe.path}, deadline);
    read_facts(probe);
  } catch (const Error& error) {
    probe.not_started = error;
  }
  return probe;
}

}  // namespace muster::app
