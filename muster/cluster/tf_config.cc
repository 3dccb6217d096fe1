#include "muster/cluster/tf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster {
namespace {

using nlohmann::json;

TfConfig example_config() {
  return {.cluster = {{"chief", {"host0:2222"}}, {"worker", {"host1:2222", "host2:2222"}}},
          .task_type = "worker",
          .task_index = 0};
}

// Every error shows a whole TF_CONFIG that would be right; made from the user's own where one can
// be guessed.
std::string hint_with(const TfConfig& corrected, std::string_view advice) {
  return fmt::format("{}, for example TF_CONFIG='{}'", advice, to_json_text(corrected));
}

// `path` such as cluster.worker[1].
[[noreturn]] void fail(std::string_view path, const json& value, std::string_view problem,
                       std::string_view advice = "correct it") {
  constexpr size_t kShown = 120;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  throw invalid_argument(fmt::format("TF_CONFIG: {} is {}: {}", path, text, problem),
                         hint_with(example_config(), advice));
}

int parse_index(const std::string& path, const json& value) {
  std::optional<int64_t> number;
  constexpr int kMost = std::numeric_limits<int>::max();
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() <= kMost) number = value.get<int64_t>();
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const double given = value.get<double>();
    if (std::abs(given) <= kMost && given == std::trunc(given))
      number = static_cast<int64_t>(given);
  } else if (value.is_string()) {
    number = parse_int(trim(value.get_ref<const std::string&>()));
  }
  if (!number || *number > kMost || *number < std::numeric_limits<int>::min()) {
    fail(path, value, "must be a whole number", "write the index as a number");
  }
  return static_cast<int>(*number);
}

void add_address(ClusterSpec& cluster, const std::string& path, const Task& task,
                 const json& value) {
  if (!value.is_string())
    fail(path, value, "must be a text of the form host:port", "write every address as host:port");
  if (trim(value.get_ref<const std::string&>()).empty()) {
    fail(path, value, fmt::format("the address of {} is empty", task.name()),
         "give every task an address");
  }
  cluster.add(task, value.get<std::string>());
}

ClusterSpec parse_cluster(const std::string& path, const json& value) {
  if (!value.is_object()) {
    fail(path, value, "must be an object of jobs", "map each job to the list of its addresses");
  }
  ClusterSpec cluster;
  for (const auto& [job, tasks] : value.items()) {
    const std::string here = path + "." + job;
    if (job.empty()) fail(here, tasks, "a job needs a name", "name the job");
    cluster.add_job(job);
    if (tasks.is_array()) {
      for (size_t i = 0; i < tasks.size(); ++i) {
        add_address(cluster, fmt::format("{}[{}]", here, i), {job, static_cast<int>(i)}, tasks[i]);
      }
    } else if (tasks.is_object()) {
      for (const auto& [index, address] : tasks.items()) {
        const std::string place = here + "." + index;
        std::optional<int64_t> number = parse_int(index);
        if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
          fail(place, address, fmt::format("\"{}\" is no task index", index),
               "use indices 0, 1, 2 ... as keys");
        }
        const Task task{job, static_cast<int>(*number)};
        if (cluster.has_task(task))
          fail(place, address, fmt::format("index {} occurs twice", *number));
        add_address(cluster, place, task, address);
      }
    } else {
      fail(here, tasks, "must be a list of addresses, or an object from index to address",
           "list the addresses of the job");
    }
  }
  return cluster;
}

std::optional<std::string> optional_text(const json& object, const std::string& key,
                                         const std::string& path) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::nullopt;
  if (!it->is_string()) fail(path, *it, "must be a text", "write it in quotes");
  return it->get<std::string>();
}

// The job that leads: how one would write a cluster that has none.
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

std::string quoted_cluster(const TfConfig& config, const std::string& job = {}) {
  json all = json::parse(to_json_text(config))["cluster"];
  return (job.empty() ? all : all[job]).dump();
}

TfConfig parse_object(const json& root);

// A key nobody knows may be a word of somebody else's; one that is nearly "cluster" would leave
// each task to train by itself.
void check_spelling(const json& root, const std::string& path,
                    const std::vector<std::string>& known) {
  const json& object = path.empty() ? root : root.at(path);
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto meant = nearest(key, known);
    if (!meant || object.contains(*meant)) continue;
    json corrected = root;
    json& place = path.empty() ? corrected : corrected[path];
    place[*meant] = value;
    place.erase(key);
    throw invalid_argument(
        fmt::format("TF_CONFIG: there is no key \"{}{}\"", path.empty() ? "" : path + ".", key),
        hint_with(parse_object(corrected), fmt::format("did you mean \"{}\"", *meant)));
  }
}

TfConfig parse_object(const json& root) {
  TfConfig config;
  if (!root.is_object())
    fail("the whole text", root, "must be a JSON object", "write one JSON object");
  check_spelling(root, "",
                 {"cluster", "sparseCluster", "task", "environment", "rpc_layer", "session_master",
                  "eval_session_master", "model_dir", "service"});

  for (std::string key : {"cluster", "sparseCluster"}) {
    auto it = root.find(key);
    if (it == root.end() || it->is_null()) continue;
    ClusterSpec cluster = parse_cluster(key, *it);
    if (cluster.empty()) continue;
    if (!config.cluster.empty()) {
      fail(key, *it, "there is a cluster already in \"cluster\"", "keep only one of the two");
    }
    config.cluster = std::move(cluster);
  }
  if (auto task = root.find("task"); task != root.end() && !task->is_null()) {
    if (!task->is_object())
      fail("task", *task, "must be an object", "give the task a type and an index");
    check_spelling(root, "task", {"type", "index"});
    config.task_type = optional_text(*task, "type", "task.type");
    if (auto index = task->find("index"); index != task->end() && !index->is_null()) {
      config.task_index = parse_index("task.index", *index);
    }
  }
  config.environment = optional_text(root, "environment", "environment").value_or("");
  config.rpc_layer = optional_text(root, "rpc_layer", "rpc_layer");
  config.session_master = optional_text(root, "session_master", "session_master");
  config.eval_session_master = optional_text(root, "eval_session_master", "eval_session_master");
  config.model_dir = optional_text(root, "model_dir", "model_dir");
  if (auto service = root.find("service"); service != root.end() && !service->is_null()) {
    config.service = service->dump();
  }
  return config;
}

}  // namespace

TfConfig parse_tf_config(std::string_view text) {
  if (trim(text).empty()) return {};
  Result<json> parsed = parse_json(text, "TF_CONFIG");
  if (!parsed.ok()) {
    const Error& error = parsed.error();
    throw invalid_argument(error.message(), hint_with(example_config(), "write one JSON object"));
  }
  return parse_object(parsed.value());
}

std::string to_json_text(const TfConfig& config, bool pretty) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    const bool dense =
        tasks.empty() ||
        (tasks.begin()->first == 0 && tasks.rbegin()->first + 1 == static_cast<int>(tasks.size()));
    auto& out = root["cluster"][job];
    out = dense ? nlohmann::ordered_json::array() : nlohmann::ordered_json::object();
    for (const auto& [index, address] : tasks) {
      if (dense) {
        out.push_back(address);
      } else {
        out[std::to_string(index)] = address;
      }
    }
  }
  if (config.task_type) root["task"]["type"] = *config.task_type;
  if (config.task_index) root["task"]["index"] = *config.task_index;
  if (!config.environment.empty()) root["environment"] = config.environment;
  if (config.rpc_layer) root["rpc_layer"] = *config.rpc_layer;
  if (config.session_master) root["session_master"] = *config.session_master;
  if (config.eval_session_master) root["eval_session_master"] = *config.eval_session_master;
  if (config.model_dir) root["model_dir"] = *config.model_dir;
  if (!config.service.empty()) root["service"] = nlohmann::ordered_json::parse(config.service);
  return root.dump(pretty ? 2 : -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void check_addresses(const TfConfig& config) {
  std::map<std::string, std::string> seen;  // address -> path
  for (const auto& [job, tasks] : config.cluster.as_map()) {
    for (const auto& [index, address] : tasks) {
      const std::string path = fmt::format("cluster.{}[{}]", job, index);
      const size_t colon = address.rfind(':');
      const std::string host = colon == std::string::npos ? address : address.substr(0, colon);
      const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
      const bool clean = address.find_first_of(" \t\r\n/\"'") == std::string::npos;
      if (colon == std::string::npos || host.empty() || !clean ||
          (!bracketed && host.find(':') != std::string::npos)) {
        fail(path, address, "is not of the form host:port",
             address.find("://") == std::string::npos ? "write every address as host:port"
                                                      : "leave the \"...://\" away");
      }
      std::optional<int64_t> port = parse_int(address.substr(colon + 1));
      if (!port || *port < 0 || *port > 65535) {
        fail(path, address,
             fmt::format("port \"{}\" is not a number from 0 to 65535", address.substr(colon + 1)),
             "give every task a port of its own");
      }
      if (auto [it, fresh] = seen.emplace(address, path); !fresh) {
        fail(path, address, fmt::format("{} has the same address", it->second),
             "give every task an address of its own");
      }
    }
  }
}

RunConfigCluster read_run_config(const TfConfig& config,
                                 const std::optional<std::string>& model_dir, bool worker_leads) {
  RunConfigCluster result{.cluster = config.cluster, .service = config.service};
  // 1. model_dir, 2. service
  const std::string leave_out = "leave model_dir out of TF_CONFIG, or out of the program";
  if (model_dir && model_dir->empty())
    throw invalid_argument("model_dir is empty", "name a folder");
  if (config.model_dir && config.model_dir->empty())
    fail("model_dir", "", "must not be empty", leave_out);
  if (model_dir && config.model_dir && *model_dir != *config.model_dir) {
    fail("model_dir", *config.model_dir, fmt::format("the program says \"{}\"", *model_dir),
         leave_out);
  }
  result.model_dir = model_dir ? model_dir : config.model_dir;
  if (!config.service.empty() && config.service.front() != '{') {
    fail("service", json::parse(config.service), "must be an object", "write {...}");
  }

  const std::string type = config.task_type.value_or("");
  // 3. local
  if (config.cluster.empty()) {
    result.task_type = config.task_type.value_or("worker");
    result.task_id = config.task_index.value_or(0);
    const TfConfig fixed{.task_type = "worker", .task_index = 0};
    if (result.task_type != "worker") {
      throw invalid_argument(
          fmt::format(
              "TF_CONFIG: task.type is \"{}\", but there is no cluster: it must be \"worker\"",
              result.task_type),
          hint_with(
              with_task(example_config(), result.task_type == "chief" ? "chief" : "worker", 0),
              "add the cluster, or leave TF_CONFIG unset to run alone"));
    }
    if (result.task_id != 0) {
      throw invalid_argument(
          fmt::format("TF_CONFIG: task.index is {}, but there is no cluster: it must be 0",
                      result.task_id),
          hint_with(fixed, "add the cluster, or use index 0"));
    }
    result.master = config.session_master.value_or("");
    result.evaluation_master = config.eval_session_master.value_or("");
    return result;
  }

  // 4. the older name of the chief
  const bool legacy = config.cluster.has_job("master");
  const std::string chief = legacy ? "master" : worker_leads ? "worker" : "chief";
  if (legacy && config.cluster.has_job("chief")) {
    TfConfig fixed = config;
    fixed.cluster = ClusterSpec();
    for (const auto& [job, tasks] : config.cluster.as_map()) {
      if (job == "master") continue;
      for (const auto& [index, address] : tasks) fixed.cluster.add({job, index}, address);
    }
    if (type == "master") fixed.task_type = "chief";
    throw invalid_argument(
        fmt::format(
            "TF_CONFIG: cluster.master is {} and cluster.chief is {}: both name the one chief",
            quoted_cluster(config, "master"), quoted_cluster(config, "chief")),
        hint_with(fixed, "keep cluster.chief only"));
  }
  if (legacy && type == "evaluator") {
    TfConfig fixed = config;
    fixed.cluster = ClusterSpec();
    for (const auto& [job, tasks] : config.cluster.as_map()) {
      for (const auto& [index, address] : tasks)
        fixed.cluster.add({job == "master" ? "chief" : job, index}, address);
    }
    throw invalid_argument(
        "TF_CONFIG: task.type is \"evaluator\": a cluster with cluster.master has none",
        hint_with(fixed, "call the master \"chief\""));
  }

  // 5. one chief, and this task is in the cluster
  if (!config.cluster.has_job(chief) || config.cluster.num_tasks(chief) == 0) {
    throw invalid_argument(fmt::format("TF_CONFIG: cluster is {}: it must have one \"chief\" task",
                                       quoted_cluster(config)),
                           hint_with(with_chief(config), "make one task the chief"));
  }
  if (!worker_leads && config.cluster.num_tasks(chief) > 1) {
    throw invalid_argument(fmt::format("TF_CONFIG: cluster.{} is {}: there must be exactly one",
                                       chief, quoted_cluster(config, chief)),
                           hint_with(with_one(config, chief), "let the others be workers"));
  }
  if (type.empty()) {
    throw invalid_argument(
        "TF_CONFIG: task.type is missing: with a cluster, every task must know its own",
        hint_with(with_task(config, chief, config.task_index.value_or(0)),
                  fmt::format("set task.type to one of {}", join_quoted(config.cluster.jobs()))));
  }
  if (!config.task_index) {
    throw invalid_argument(
        "TF_CONFIG: task.index is missing: with a cluster, every task must know its own",
        hint_with(with_task(config, type, 0), "set task.index"));
  }
  const int index = *config.task_index;
  if (index < 0) {
    throw invalid_argument(
        fmt::format("TF_CONFIG: task.index is {}: it must not be negative", index),
        hint_with(with_task(config, type, 0), "count from 0"));
  }
  result.task_type = type;
  result.task_id = index;
  if (type == "evaluator") {  // 7, 8
    result.cluster = ClusterSpec();
    result.evaluation_master = config.eval_session_master.value_or("");
    result.is_chief = false;
    result.num_worker_replicas = 0;
    result.global_id_in_cluster = std::nullopt;
    return result;
  }
  if (!config.cluster.has_job(type)) {
    throw invalid_argument(
        fmt::format("TF_CONFIG: task.type is \"{}\": cluster has only {}", type,
                    join_quoted(config.cluster.jobs())),
        hint_with(with_task(config, chief, 0), "use a type that is in the cluster"));
  }
  if (!config.cluster.has_task({type, index})) {
    const ClusterSpec::Tasks& tasks = config.cluster.tasks(type);
    throw invalid_argument(
        fmt::format("TF_CONFIG: task.index is {}: cluster.{} is {}, which has no such index", index,
                    type, quoted_cluster(config, type)),
        hint_with(tasks.empty() ? with_task(config, chief, 0)
                                : with_task(config, type, tasks.rbegin()->first),
                  "use the place of this task in the list"));
  }
  // 6, 9, 10
  const bool alone = config.cluster.num_tasks() == 1;
  if (config.session_master) {
    result.master = *config.session_master;
  } else if (!alone) {
    result.master = "grpc://" + config.cluster.address({type, index});
  }
  result.is_chief =
      type == chief && (!worker_leads || index == config.cluster.tasks(chief).begin()->first);
  result.num_ps_replicas = num_ps(config.cluster);
  result.num_worker_replicas = num_workers(config.cluster);
  result.global_id_in_cluster = global_id(config.cluster, {type, index});
  return result;
}

// --- the resolver of tf.distribute ---

TfConfigResolver::TfConfigResolver(TfConfig config, Overrides overrides)
    : config_(std::move(config)), overrides_(std::move(overrides)) {}

std::optional<std::string> TfConfigResolver::task_type() const {
  return overrides_.task_type ? overrides_.task_type : config_.task_type;
}

std::optional<int> TfConfigResolver::task_id() const {
  return overrides_.task_id ? overrides_.task_id : config_.task_index;
}

std::optional<std::string> TfConfigResolver::rpc_layer() const {
  return overrides_.rpc_layer ? overrides_.rpc_layer : config_.rpc_layer;
}

std::string TfConfigResolver::master(const Overrides& of) const {
  if (config_.session_master) return *config_.session_master;
  if (config_.cluster.num_tasks() == 0) return "";
  if (config_.cluster.jobs().size() == 1 && config_.cluster.num_tasks() == 1) return "";
  const std::optional<std::string> type = of.task_type ? of.task_type : task_type();
  const std::optional<int> id = of.task_id ? of.task_id : task_id();
  if (!type || !id) {
    const TfConfig fixed = with_task(config_, config_.cluster.jobs().front(), 0);
    throw invalid_argument(fmt::format("TF_CONFIG: task.{} is missing: whose address is asked for?",
                                       type ? "index" : "type"),
                           hint_with(fixed, "set both"));
  }
  const std::string& address = config_.cluster.address({*type, *id});
  const std::string layer = (of.rpc_layer ? of.rpc_layer : rpc_layer()).value_or("");
  return layer.empty() ? address : layer + "://" + address;
}

}  // namespace muster::inline v0_1::cluster
