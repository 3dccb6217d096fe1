// Reads and writes the text of TF_CONFIG.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/tf_config_corrections.h"
#include "muster/cluster/internal/tf_config_mistake.h"
#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {
namespace {

using nlohmann::json;

std::string shortened(const json& value) {
  constexpr size_t kShown = 120;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

// A place in the text, as people write it and as a JSON pointer.
struct Place {
  std::string path;
  json::json_pointer pointer;

  Place key(const std::string& name) const {
    return {path.empty() ? name : path + "." + name, pointer / name};
  }
  Place element(size_t index) const {
    return {fmt::format("{}[{}]", path, index), pointer / index};
  }
};

// A wrong part of the text, and its possible replacement.
struct Misfit {
  std::string message;
  std::string advice;
  Place place;
  std::optional<json> instead;  // null takes the key away
};

[[noreturn]] void fail(const Place& place, const json& value, std::string_view problem,
                       std::string_view advice, std::optional<json> instead = {}) {
  throw Misfit{
      fmt::format("TF_CONFIG: {} is {}: {}", place.path.empty() ? "the whole text" : place.path,
                  shortened(value), problem),
      std::string(advice), place, std::move(instead)};
}

int parse_index(const Place& place, const json& value) {
  constexpr int kMost = std::numeric_limits<int>::max();
  std::optional<int64_t> number;
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
    fail(place, value, "must be a whole number", "write the index as a number", 0);
  }
  return static_cast<int>(*number);
}

void add_address(ClusterSpec& cluster, const Place& place, const Task& task, const json& value) {
  if (!value.is_string()) {
    const json port = value.is_number_unsigned() ? value : json(2222);
    fail(place, value, "must be a text of the form host:port", "write every address as host:port",
         "localhost:" + port.dump());
  }
  if (trim(value.get_ref<const std::string&>()).empty()) {
    fail(place, value, fmt::format("the address of {} is empty", task.name()),
         "give every task an address", fmt::format("{}{}:2222", task.type, task.index));
  }
  cluster.add(task, value.get<std::string>());
}

void add_job(ClusterSpec& cluster, const Place& place, const std::string& job, const json& tasks) {
  if (job.empty()) fail(place, tasks, "a job needs a name", "name the job");
  cluster.add_job(job);
  if (tasks.is_array()) {
    for (size_t i = 0; i < tasks.size(); ++i)
      add_address(cluster, place.element(i), {job, static_cast<int>(i)}, tasks[i]);
    return;
  }
  if (tasks.is_string()) {
    json list = json::array();
    for (const std::string& address : split(tasks.get_ref<const std::string&>(), ','))
      list.push_back(std::string(trim(address)));
    fail(place, tasks, "must be a list of addresses, or an object from index to address",
         "put the addresses into brackets", std::move(list));
  }
  if (!tasks.is_object()) {
    fail(place, tasks, "must be a list of addresses, or an object from index to address",
         "list the addresses of the job", json::array({job + "0:2222"}));
  }
  for (const auto& [index, address] : tasks.items()) {
    const Place here = place.key(index);
    std::optional<int64_t> number = parse_int(index);
    if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
      fail(here, address, fmt::format("\"{}\" is not a task index", index),
           "use indices 0, 1, 2 ... as keys");
    }
    const Task task{job, static_cast<int>(*number)};
    if (cluster.has_task(task))
      fail(here, address, fmt::format("index {} occurs twice", *number), "use every index once",
           nullptr);
    add_address(cluster, here, task, address);
  }
}

ClusterSpec parse_cluster(const Place& place, const json& value) {
  if (!value.is_object()) {
    std::optional<json> instead;
    if (value.is_array() || value.is_string()) instead = json{{"worker", value}};
    fail(place, value, "must be an object of jobs", "map each job to the list of its addresses",
         std::move(instead));
  }
  ClusterSpec cluster;
  for (const auto& [job, tasks] : value.items()) add_job(cluster, place.key(job), job, tasks);
  return cluster;
}

std::optional<std::string> optional_text(const json& object, const Place& parent,
                                         const std::string& key) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::nullopt;
  if (!it->is_string()) {
    fail(parent.key(key), *it, "must be a text", "write it in quotes",
         it->is_primitive() ? json(it->dump()) : json());
  }
  return it->get<std::string>();
}

// An unknown key may belong to another program, but with a misspelled "cluster" each task would
// train by itself.
void check_spelling(const json& object, const Place& place, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto meant = nearest(key, known);
    if (!meant || object.contains(*meant)) continue;
    json corrected = object;
    corrected[*meant] = value;
    corrected.erase(key);
    throw Misfit{fmt::format("TF_CONFIG: there is no key \"{}\"", place.key(key).path),
                 fmt::format("did you mean \"{}\"", *meant), place, corrected};
  }
}

TfConfig parse_object(const json& root) {
  TfConfig config;
  const Place top;
  if (!root.is_object()) fail(top, root, "must be a JSON object", "write one JSON object");
  check_spelling(root, top,
                 {"cluster", "sparseCluster", "task", "environment", "rpc_layer", "session_master",
                  "eval_session_master", "model_dir", "service"});

  for (std::string key : {"cluster", "sparseCluster"}) {
    auto it = root.find(key);
    if (it == root.end() || it->is_null()) continue;
    ClusterSpec cluster = parse_cluster(top.key(key), *it);
    if (cluster.empty()) continue;
    if (!config.cluster.empty()) {
      fail(top.key(key), *it, "there is a cluster already in \"cluster\"",
           "keep only one of the two", nullptr);
    }
    config.cluster = std::move(cluster);
  }
  if (auto task = root.find("task"); task != root.end() && !task->is_null()) {
    const Place place = top.key("task");
    if (!task->is_object()) {
      fail(place, *task, "must be an object", "give the task a type and an index",
           json{{"type", task->is_string() ? *task : json("worker")}, {"index", 0}});
    }
    check_spelling(*task, place, {"type", "index"});
    // TensorFlow makes a text of a number here.
    const auto type = task->find("type");
    config.task_type = type != task->end() && type->is_number()
                           ? type->dump()
                           : optional_text(*task, place, "type");
    if (auto index = task->find("index"); index != task->end() && !index->is_null())
      config.task_index = parse_index(place.key("index"), *index);
  }
  config.environment = optional_text(root, top, "environment").value_or("");
  config.rpc_layer = optional_text(root, top, "rpc_layer");
  config.session_master = optional_text(root, top, "session_master");
  config.eval_session_master = optional_text(root, top, "eval_session_master");
  config.model_dir = optional_text(root, top, "model_dir");
  if (auto service = root.find("service"); service != root.end() && !service->is_null())
    config.service = service->dump();
  return config;
}

// Returns the user's own text with correct values in each place, or the example if none are known.
TfConfig corrected(json root, Misfit misfit) {
  constexpr int kMostMistakes = 256;
  for (int i = 0; i < kMostMistakes && misfit.instead; ++i) {
    if (misfit.instead->is_null()) {
      const std::string key = misfit.place.pointer.back();
      root[misfit.place.pointer.parent_pointer()].erase(key);
    } else {
      root[misfit.place.pointer] = *misfit.instead;
    }
    try {
      return made_usable(parse_object(root));
    } catch (const Misfit& next) {
      misfit = next;
    }
  }
  return example_config();
}

}  // namespace

TfConfig parse_text(std::string_view text) {
  if (trim(text).empty()) return {};
  Result<json> parsed = parse_json(text, "TF_CONFIG");
  if (!parsed.ok())
    throw TfConfigMistake{parsed.error().message(), "write one JSON object", example_config()};
  try {
    return parse_object(parsed.value());
  } catch (const Misfit& misfit) {
    throw TfConfigMistake{misfit.message, misfit.advice, corrected(parsed.value(), misfit)};
  }
}

TfConfig parse_tf_config(std::string_view text) {
  try {
    return parse_text(text);
  } catch (const TfConfigMistake& mistake) {
    throw to_error(mistake, accept_for_some_program);
  }
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

}  // namespace muster::inline v0_1::cluster
