#include "muster/cluster/internal/tf_config_corrections.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "muster/base/nearest.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster {
namespace {

constexpr int kPort = 2222;

struct HostPort {
  std::string host{};
  std::string port{};
};

// Whether the text between the brackets of an address is one of IPv6; it may name its interface.
bool is_ipv6(const std::string& text) {
  in6_addr parsed{};
  return inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), &parsed) == 1;
}

// Splits an address; returns nothing when it is not of the form host:port. The port may be any
// text.
std::optional<HostPort> split_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const std::string host = address.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (address.find_first_of(" \t\r\n/\"'") != std::string::npos) return std::nullopt;
  if (bracketed && !is_ipv6(host.substr(1, host.size() - 2))) return std::nullopt;
  if (!bracketed && host.find_first_of(":[]") != std::string::npos) return std::nullopt;
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
  } else if (split_address("[" + text + "]:1")) {
    host = "[" + text + "]";  // IPv6 without its brackets
  } else if (const std::string first = text.substr(0, text.find(':'));
             split_address(first + ":1")) {
    host = first;
    port = port_of(text.substr(text.rfind(':') + 1)).value_or(kPort);
  } else {
    host = fmt::format("host{}", bad.task.index);  // a job's name may hold anything
  }
  while (taken.contains(fmt::format("{}:{}", host, port))) port = port < 65535 ? port + 1 : 1024;
  return fmt::format("{}:{}", host, port);
}

// Returns the first index that no worker has.
int free_worker(const ClusterSpec& cluster) {
  int index = 0;
  while (cluster.has_task({"worker", index})) ++index;
  return index;
}

std::set<std::string> addresses_of(const ClusterSpec& cluster) {
  std::set<std::string> all;
  for (const auto& [job, tasks] : cluster.as_map()) {
    for (const auto& [index, address] : tasks) all.insert(address);
  }
  return all;
}

}  // namespace

TfConfig example_config() {
  return {.cluster = {{"chief", {"host0:2222"}}, {"worker", {"host1:2222", "host2:2222"}}},
          .task_type = "worker",
          .task_index = 0};
}

std::string hint_with(const TfConfig& corrected, std::string_view advice) {
  std::string text;
  // It is in single quotes, to be pasted into a shell.
  for (const char letter : to_json_text(corrected))
    letter == '\'' ? text += "\\u0027" : text += letter;
  return fmt::format("{}, for example TF_CONFIG='{}'", advice, text);
}

TfConfig moved(const TfConfig& config, const std::function<Task(const Task&)>& place) {
  TfConfig fixed = config;
  fixed.cluster = ClusterSpec();
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    for (const auto& [index, address] : tasks) {
      const Task from{job, index}, to = place(from);
      if (!fixed.cluster.has_task(to)) fixed.cluster.add(to, address);
      if (config.task_type == job && config.task_index == index) {
        fixed.task_type = to.type;
        fixed.task_index = to.index;
      }
    }
  }
  return fixed;
}

TfConfig with_address(const TfConfig& config, const Task& task, const std::string& address) {
  TfConfig fixed = config;
  fixed.cluster = ClusterSpec();
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    fixed.cluster.add_job(job);
    for (const auto& [index, old] : tasks) {
      const Task here{job, index};
      fixed.cluster.add(here, here == task ? address : old);
    }
  }
  return fixed;
}

TfConfig with_chief(const TfConfig& config) {
  TfConfig fixed = config;
  if (config.cluster.num_tasks("worker") == 0) {
    fixed = moved(config, [](const Task& task) { return task; });
    fixed.cluster.add({"chief", 0}, "host0:2222");
  } else {
    int next = -1;
    fixed = moved(config, [&](const Task& task) {
      if (task.type != "worker") return task;
      ++next;
      return next == 0 ? Task{"chief", 0} : Task{"worker", next - 1};
    });
  }
  const bool known = fixed.task_type == "evaluator" ||
                     (fixed.task_type && fixed.task_index &&
                      fixed.cluster.has_task({*fixed.task_type, *fixed.task_index}));
  return known ? fixed : with_task(fixed, "chief", 0);
}

TfConfig with_task(const TfConfig& config, std::string type, int index) {
  TfConfig fixed = config;
  fixed.task_type = std::move(type);
  fixed.task_index = index;
  return fixed;
}

TfConfig with_one(const TfConfig& config, const std::string& chief) {
  bool first = true;
  return with_workers(
      config, [&](const Task& task) { return task.type == chief && !std::exchange(first, false); });
}

TfConfig with_workers(const TfConfig& config, const std::function<bool(const Task&)>& which) {
  ClusterSpec numbered = config.cluster;
  return moved(config, [&](const Task& task) {
    if (!which(task)) return task;
    const Task worker{"worker", free_worker(numbered)};
    numbered.add(worker, "");
    return worker;
  });
}

TfConfig with_known_task(const TfConfig& config, const std::string& chief) {
  const std::string type = config.task_type.value_or("");
  const int index = config.task_index.value_or(0);
  const auto meant = nearest(type, config.cluster.jobs());
  if (meant && config.cluster.has_task({*meant, index})) return with_task(config, *meant, index);
  return with_task(config, chief, 0);
}

TfConfig with_ports(const TfConfig& config) {
  TfConfig fixed = config;
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    for (const auto& [index, address] : tasks) {
      const auto parts = split_address(address);
      if (!parts || port_of(parts->port) != 0) continue;
      const BadAddress bad{{job, index}, parts->host, "", ""};
      fixed = with_address(fixed, bad.task, better_address(bad, addresses_of(fixed.cluster)));
    }
  }
  return fixed;
}

bool has_port_zero(const std::string& address) {
  const auto parts = split_address(address);
  return parts && port_of(parts->port) == 0;
}

std::optional<BadAddress> find_bad_address(const ClusterSpec& cluster) {
  std::map<std::string, Task> seen;
  for (const auto& [job, tasks] : cluster.as_map()) {
    for (const auto& [index, address] : tasks) {
      const Task task{job, index};
      const auto bad = [&task, &address = address](std::string problem, std::string advice) {
        return BadAddress{task, address, std::move(problem), std::move(advice)};
      };
      const auto parts = split_address(address);
      if (!parts) {
        return bad("is not of the form host:port", address.find("://") == std::string::npos
                                                       ? "write every address as host:port"
                                                       : "leave the \"...://\" away");
      }
      if (!port_of(parts->port)) {
        return bad(fmt::format("port \"{}\" is not a number from 1 to 65535", parts->port),
                   "give every task a different port");
      }
      if (auto [it, fresh] = seen.emplace(address, task); !fresh) {
        return bad(
            fmt::format("cluster.{}[{}] has the same address", it->second.type, it->second.index),
            "give every task a different address");
      }
    }
  }
  return std::nullopt;
}

TfConfig made_usable(const TfConfig& config) {
  TfConfig fixed = config;
  while (const auto bad = find_bad_address(fixed.cluster)) {
    fixed = with_address(fixed, bad->task, better_address(*bad, addresses_of(fixed.cluster)));
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
