// Judges the machine and the environment.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/muster/doctor.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/address.h"
#include "muster/cluster/protection_check.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::app {
namespace {

using cluster::host_of;
using cluster::is_loopback;

// This is five times what a task of the mnist example needs.
constexpr uint64_t kLittleMemory = 1ull << 30;
// A task needs two sockets for each peer, and some for the coordinator, files and libraries.
constexpr uint64_t kFewFiles = 256;

Finding judge_cores(const launch::Machine& machine) {
  const size_t there = machine.cores.size();
  if (static_cast<size_t>(machine.usable) < there) {
    return {Level::kOk, "Cores",
            fmt::format("{} (a quota of the container; {} are there)", machine.usable, there)};
  }
  return {Level::kOk, "Cores", std::to_string(there)};
}

Finding judge_memory(const MachineFacts& machine) {
  if (machine.memory == 0) return {Level::kNote, "Memory", "/proc/meminfo does not say"};
  const bool limited = machine.memory_limit > 0 && machine.memory_limit < machine.memory;
  Finding finding{.name = "Memory",
                  .text = fmt::format("{} available of {}", human_bytes(machine.memory_available),
                                      human_bytes(machine.memory))};
  if (limited) {
    finding.text += fmt::format(", limited to {} here", human_bytes(machine.memory_limit));
  }
  if (limited && machine.memory_limit < kLittleMemory) {
    finding.level = Level::kWarning;
    finding.fix = "give the container or service at least 1 GiB for each task";
  } else if (machine.memory_available < kLittleMemory) {
    finding.level = Level::kWarning;
    finding.fix = "end other programs, or start fewer tasks: count on 1 GiB for each";
  }
  return finding;
}

Finding judge_files(uint64_t limit) {
  if (limit == 0) return {Level::kOk, "Open files", "no limit"};
  if (limit < kFewFiles) {
    return {Level::kWarning, "Open files",
            fmt::format("{} at most, too few for several workers", limit),
            "ulimit -n 4096, or LimitNOFILE= of the service"};
  }
  return {Level::kOk, "Open files", fmt::format("{} at most", limit)};
}

Finding judge_interfaces(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> texts;
  bool loopback = false;
  for (const NetworkInterface& interface : interfaces) {
    if (!interface.up || interface.addresses.empty()) continue;
    loopback |= interface.loopback;
    texts.push_back(interface.name + " " + join(interface.addresses, " "));
  }
  const size_t more = texts.size() > 4 ? texts.size() - 4 : 0;
  texts.resize(texts.size() - more);
  Finding finding{.name = "Network", .text = join(texts, ", ")};
  if (more > 0) finding.text += fmt::format(" and {} more", more);
  if (!loopback) {
    finding.level = Level::kProblem;
    finding.text = texts.empty() ? "no interface is up"
                                 : "the loopback interface is down; up: " + finding.text;
    finding.fix = "ip link set lo up";
  }
  return finding;
}

// An address of this machine that others can reach.
std::string outside_address(const MachineFacts& machine) {
  for (const NetworkInterface& interface : machine.interfaces) {
    if (interface.up && !interface.loopback && !interface.addresses.empty()) {
      return interface.addresses.front();
    }
  }
  return {};
}

Finding judge_host_name(const MachineFacts& machine) {
  const auto found = machine.hosts.find(machine.host_name);
  if (found == machine.hosts.end()) {
    return {Level::kNote, "Host name",
            fmt::format("'{}' could not be looked up in time; only matters if TF_CONFIG names it",
                        machine.host_name)};
  }
  if (found->second.empty()) {
    return {
        Level::kNote, "Host name",
        fmt::format("'{}' has no address; only matters if TF_CONFIG names it", machine.host_name)};
  }
  const std::string& address = found->second.front();
  const std::string outside = outside_address(machine);
  std::string text = fmt::format("{} is {}", machine.host_name, address);
  if (!is_loopback(address) || outside.empty()) return {Level::kOk, "Host name", text};
  return {Level::kNote, "Host name",
          fmt::format("{}, which reaches this machine only; in a TF_CONFIG of several machines "
                      "write {}",
                      text, outside)};
}

// The hosts of TF_CONFIG, each with the task that is to be reached there.
using TaskOfHost = std::map<std::string, std::string>;

// Returns "'a', the host of worker:1, <one>", or for several hosts "3 hosts <many>: 'a', 'b', 'c'".
std::string about_hosts(const TaskOfHost& tasks, const char* one, const char* many) {
  if (tasks.size() == 1) {
    return fmt::format("'{}', the host of {}, {}", tasks.begin()->first, tasks.begin()->second,
                       one);
  }
  std::vector<std::string> hosts;
  for (const auto& [host, task] : tasks) hosts.push_back(host);
  return fmt::format("{} hosts {}: {}", hosts.size(), many, join_quoted(hosts, 5));
}

// Reports hosts without an address, once for all that are alike.
void judge_unreached(Level level, const TaskOfHost& unknown, const TaskOfHost& late,
                     std::vector<Finding>* findings) {
  if (!unknown.empty()) {
    findings->push_back(
        {level, "TF_CONFIG", about_hosts(unknown, "is not known here", "are not known here"),
         "check the name, or write the number of the address; a name that appears only when the "
         "task runs (Kubernetes) is fine"});
  }
  if (!late.empty()) {
    findings->push_back(
        {Level::kWarning, "TF_CONFIG",
         about_hosts(late, "could not be looked up in time", "could not be looked up in time"),
         "check that the name servers in /etc/resolv.conf answer, or write the "
         "number of the address"});
  }
}

// Judges whether the addresses of the cluster can be right, as far as this machine can tell.
void judge_addresses(const cluster::ResolvedCluster& cluster, const MachineFacts& machine,
                     std::vector<Finding>* findings) {
  std::vector<std::string> own;
  for (const NetworkInterface& interface : machine.interfaces) {
    if (interface.up) own.insert(own.end(), interface.addresses.begin(), interface.addresses.end());
  }
  std::vector<std::pair<std::string, std::string>> tasks;  // name and host
  for (size_t rank = 0; rank < cluster.addresses.size(); ++rank) {
    // Processes of launchers know the chief's alone.
    if (!cluster.addresses[rank].empty())
      tasks.emplace_back(cluster.workers[rank].name(), host_of(cluster.addresses[rank]));
  }
  for (size_t ps = 0; ps < cluster.ps_addresses.size(); ++ps)
    tasks.emplace_back(fmt::format("ps:{}", ps), host_of(cluster.ps_addresses[ps]));
  TaskOfHost unknown, late, own_unknown, own_late;
  bool elsewhere = false;  // some task is on another machine
  std::string own_host;
  for (const auto& [task, host] : tasks) {
    const auto found = machine.hosts.find(host);
    const bool ours = task == cluster.task.name();
    if (ours) own_host = host;
    if (found == machine.hosts.end()) {
      (ours ? own_late : late).emplace(host, task);
      continue;
    }
    if (found->second.empty()) {
      (ours ? own_unknown : unknown).emplace(host, task);
      continue;
    }
    const bool here = std::ranges::any_of(found->second, [&](const std::string& address) {
      return is_loopback(address) || std::ranges::find(own, address) != own.end();
    });
    elsewhere |= !here;
    if (ours && !here) {
      findings->push_back(
          {Level::kWarning, "TF_CONFIG",
           fmt::format("this task is {} at '{}' ({}), which is not an address of this "
                       "machine",
                       cluster.task.name(), host, found->second.front()),
           "run it on the machine that has the address, or correct \"task\""});
    }
  }
  judge_unreached(Level::kProblem, own_unknown, own_late, findings);
  judge_unreached(Level::kWarning, unknown, late, findings);
  if (!elsewhere || own_host.empty()) return;
  const auto found = machine.hosts.find(own_host);
  if (found == machine.hosts.end() || found->second.empty()) return;
  if (!std::ranges::all_of(found->second, is_loopback)) return;
  const std::string outside = outside_address(machine);
  findings->push_back(
      {Level::kWarning, "TF_CONFIG",
       fmt::format("'{}', the host of this task, is {} here, where other machines cannot reach it",
                   own_host, found->second.front()),
       outside.empty() ? "this machine needs a network interface besides loopback"
                       : fmt::format("write {} in the TF_CONFIG of every task", outside)});
}

// Programs refuse to start with these settings, by their own rules.
void judge_protection(const cluster::ResolvedCluster& cluster, std::vector<Finding>* findings) {
  if (!cluster.distributed() && cluster.num_ps == 0) return;
  using Check = void (*)(const cluster::ResolvedCluster&);
  const auto judge_one = [&](const char* name, Check check) {
    try {
      check(cluster);
    } catch (const Error& error) {
      findings->push_back({Level::kProblem, name, error.message(), error.hint()});
    }
  };
  judge_one("MUSTER_JOB_TOKEN", cluster::check_protected);
  judge_one("MUSTER_TLS_CERT", cluster::check_certificate_name);
}

void judge_tf_config(const DoctorFacts& facts, std::vector<Finding>* findings) {
  const std::string text = facts.environment.get_or("TF_CONFIG", "");
  cluster::ResolvedCluster cluster;
  try {
    cluster = cluster::resolve_cluster(facts.environment, {.worker_zero_may_be_chief = true});
  } catch (const Error& error) {
    findings->push_back(
        {Level::kProblem, "TF_CONFIG", error.message(),
         error.hint().empty() ? "see TF_CONFIG in docs/estimators.md" : error.hint()});
    return;
  }
  for (const std::string& note : cluster.notes) {
    findings->push_back({Level::kNote, "TF_CONFIG", note});
  }
  if (!cluster.origin.empty())
    findings->push_back({Level::kNote, "launcher", "started by " + cluster.origin});
  if (text.empty() && cluster.addresses.empty()) {
    findings->push_back({Level::kOk, "TF_CONFIG", "not set: a program trains by itself"});
    return;
  }
  findings->push_back(
      {Level::kOk, cluster.source.empty() ? "TF_CONFIG" : cluster.source, cluster.describe()});
  if (cluster.is_evaluator) return;  // it opens no connection
  judge_addresses(cluster, facts.machine, findings);
  judge_protection(cluster, findings);
}

void judge_threads(const DoctorFacts& facts, std::vector<Finding>* findings) {
  const int usable = facts.machine.cores.usable;
  for (const char* name : {"MUSTER_THREADS", "OMP_NUM_THREADS"}) {
    const auto text = facts.environment.get(name);
    if (!text || text->empty()) continue;
    const auto threads = parse_int(*text);
    if (!threads || *threads < 1) {
      // A wrong MUSTER_THREADS ends every program at its start; OpenMP continues with another
      // number.
      const bool ours = std::string_view(name) == "MUSTER_THREADS";
      findings->push_back({ours ? Level::kProblem : Level::kWarning, name,
                           fmt::format("'{}' is not a number of threads", *text),
                           fmt::format("export {}={}, or unset it", name, usable)});
    } else if (*threads > usable) {
      findings->push_back(
          {Level::kWarning, name,
           fmt::format("{} threads on {} core(s): they wait for each other", *threads, usable),
           fmt::format("export {}={}, or unset it", name, usable)});
    } else {
      findings->push_back({Level::kOk, name, *text});
    }
  }
}

}  // namespace

std::vector<Finding> judge_machine(const DoctorFacts& facts) {
  const MachineFacts& machine = facts.machine;
  return {judge_cores(machine.cores), judge_memory(machine), judge_files(machine.open_files),
          judge_interfaces(machine.interfaces), judge_host_name(machine)};
}

std::vector<Finding> judge_environment(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  judge_tf_config(facts, &findings);
  judge_threads(facts, &findings);
  if (const std::string word = facts.environment.get_or("MUSTER_TRANSPORT", ""); !word.empty()) {
    // These are the values of collectives/connect.h, which this command cannot include because it
    // links no LibTorch.
    const bool known = word == "auto" || word == "tcp" || word == "ring" || word == "gloo" ||
                       word == "shared_memory" || word == "nccl";
    findings.push_back(known ? Finding{Level::kOk, "MUSTER_TRANSPORT", word}
                             : Finding{Level::kProblem, "MUSTER_TRANSPORT",
                                       fmt::format("'{}' is not a transport", word),
                                       "use auto, tcp, shared_memory or nccl, or unset it"});
  }
  return findings;
}

}  // namespace muster::app
