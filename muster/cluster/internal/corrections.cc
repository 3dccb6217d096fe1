#include "muster/cluster/internal/corrections.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster {
namespace {

constexpr int kPort = 2222;

struct HostPort {
  std::string host;
  std::string port;
};

// Splits an address; returns nothing when it is not of the form host:port. The port may be any
// text.
std::optional<HostPort> split_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const std::string host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (address.find_first_of(" \t\r\n/\"'") != std::string::npos) return std::nullopt;
  if (!bracketed && host.find(':') != std::string::npos) return std::nullopt;
  return HostPort{host, address.substr(colon + 1)};
}

std::optional<int> port_of(const std::string& text) {
  const std::optional<int64_t> port = parse_int(text);
  if (!port || *port < 0 || *port > 65535) return std::nullopt;
  return static_cast<int>(*port);
}

std::string better_address(const BadAddress& bad, const std::set<std::string>& taken) {
  std::string text = bad.address;
  if (const size_t scheme = text.find("://"); scheme != std::string::npos)
    text = text.substr(scheme + 3);
  text = std::string(trim(text.substr(0, text.find('/'))));
  std::string host = text;
  int port = kPort;
  if (const auto parts = split_address(text)) {
    host = parts->host;
    port = port_of(parts->port).value_or(kPort);
  } else if (split_address("[" + text + "]:1") && text.find(':') != text.rfind(':')) {
    host = "[" + text + "]";  // IPv6 without its brackets
  } else if (!split_address(text + ":1")) {
    host = fmt::format("host{}", bad.task.index);  // a job's name may hold anything
  }
  while (taken.contains(fmt::format("{}:{}", host, port))) port = port < 65535 ? port + 1 : 1024;
  return fmt::format("{}:{}", host, port);
}

std::set<std::string> addresses_of(const ClusterSpec& cluster) {
  std::set<std::string> all;
  for (const auto& [job, tasks] : cluster.as_map()) {
    for (const auto& [index, address] : tasks) all.insert(address);
  }
  return all;
}

ClusterSpec with_address(const ClusterSpec& cluster, const Task& task, const std::string& address) {
  ClusterSpec changed;
  for (const auto& [job, tasks] : cluster.as_map()) {
    changed.add_job(job);
    for (const auto& [index, old] : tasks) {
      const Task here{job, index};
      changed.add(here, here == task ? address : old);
    }
  }
  return changed;
}

}  // namespace

TfConfig example_config() {
  return {.cluster = {{"chief", {"host0:2222"}}, {"worker", {"host1:2222", "host2:2222"}}},
          .task_type = "worker",
          .task_index = 0};
}

std::string hint_with(const TfConfig& corrected, std::string_view advice) {
  return fmt::format("{}, for example TF_CONFIG='{}'", advice, to_json_text(corrected));
}

TfConfig with_chief(const TfConfig& config) {
  TfConfig fixed = config;
  ClusterSpec cluster;
  const ClusterSpec::Tasks workers =
      config.cluster.has_job("worker") ? config.cluster.tasks("worker") : ClusterSpec::Tasks();
  cluster.add({"chief", 0}, workers.empty() ? "host0:2222" : workers.begin()->second);
  int next = 0;
  for (const auto& [index, address] : workers) {
    if (address != cluster.address({"chief", 0})) cluster.add({"worker", next++}, address);
  }
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    if (job == "worker" || job == "chief") continue;
    for (const auto& [index, address] : tasks) cluster.add({job, index}, address);
  }
  fixed.cluster = cluster;
  if (!workers.empty() && config.task_type.value_or("worker") == "worker") {
    const bool first = config.task_index.value_or(0) == workers.begin()->first;
    fixed.task_type = first ? "chief" : "worker";
    fixed.task_index = first ? 0 : std::max(0, config.task_index.value_or(1) - 1);
  } else if (!config.task_type || !config.task_index) {
    fixed.task_type = "chief";
    fixed.task_index = 0;
  }
  return fixed;
}

TfConfig with_task(const TfConfig& config, std::string type, int index) {
  TfConfig fixed = config;
  fixed.task_type = std::move(type);
  fixed.task_index = index;
  return fixed;
}

TfConfig with_one(const TfConfig& config, const std::string& chief) {
  TfConfig fixed = config;
  ClusterSpec cluster;
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    for (const auto& [index, address] : tasks) {
      if (job != chief) cluster.add({job, index}, address);
    }
  }
  int next = config.cluster.has_job("worker") && config.cluster.num_tasks("worker") > 0
                 ? config.cluster.tasks("worker").rbegin()->first + 1
                 : 0;
  bool first = true;
  for (const auto& [index, address] : config.cluster.tasks(chief)) {
    cluster.add(first ? Task{chief, 0} : Task{"worker", next++}, address);
    first = false;
  }
  fixed.cluster = cluster;
  if (fixed.task_type == chief) fixed.task_index = 0;
  return fixed;
}

std::optional<BadAddress> find_bad_address(const ClusterSpec& cluster) {
  std::map<std::string, Task> seen;
  for (const auto& [job, tasks] : cluster.as_map()) {
    for (const auto& [index, address] : tasks) {
      const Task task{job, index};
      const auto bad = [&](std::string problem, std::string advice) {
        return BadAddress{task, address, std::move(problem), std::move(advice)};
      };
      const auto parts = split_address(address);
      if (!parts) {
        return bad("is not of the form host:port", address.find("://") == std::string::npos
                                                       ? "write every address as host:port"
                                                       : "leave the \"...://\" away");
      }
      if (!port_of(parts->port)) {
        return bad(fmt::format("port \"{}\" is not a number from 0 to 65535", parts->port),
                   "give every task a port of its own");
      }
      if (auto [it, fresh] = seen.emplace(address, task); !fresh) {
        return bad(
            fmt::format("cluster.{}[{}] has the same address", it->second.type, it->second.index),
            "give every task an address of its own");
      }
    }
  }
  return std::nullopt;
}

TfConfig made_usable(const TfConfig& config) {
  TfConfig fixed = config;
  while (const auto bad = find_bad_address(fixed.cluster)) {
    fixed.cluster =
        with_address(fixed.cluster, bad->task, better_address(*bad, addresses_of(fixed.cluster)));
  }
  const auto first_of = [&](const std::string& job) -> std::optional<Task> {
    if (fixed.cluster.num_tasks(job) == 0) return std::nullopt;
    return Task{job, fixed.cluster.tasks(job).begin()->first};
  };
  if (fixed.cluster.empty()) {
    if (fixed.task_type && *fixed.task_type != "worker") return example_config();
    if (fixed.task_type || fixed.task_index) return with_task(fixed, "worker", 0);
    return fixed;
  }
  std::optional<Task> leader = first_of("chief");
  if (!leader) leader = first_of("master");
  if (!leader) leader = first_of("worker");
  if (!leader) return example_config();
  if (fixed.task_type == "evaluator" && fixed.task_index) return fixed;
  if (!fixed.task_type || fixed.cluster.num_tasks(*fixed.task_type) == 0)
    return with_task(fixed, leader->type, leader->index);
  if (!fixed.task_index || !fixed.cluster.has_task({*fixed.task_type, *fixed.task_index}))
    return with_task(fixed, *fixed.task_type, first_of(*fixed.task_type)->index);
  return fixed;
}

}  // namespace muster::inline v0_1::cluster
