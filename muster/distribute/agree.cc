#include "muster/distribute/agree.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/replica.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using nlohmann::json;

// "400 on worker 0, worker 1; 300 on worker 2"
std::string who_has_what(const std::string& name, const std::vector<json>& all) {
  constexpr size_t kShown = 4;
  std::map<std::string, std::vector<std::string>> owners;
  for (const json& one : all) {
    const auto& settings = one.at("settings");
    const std::string value =
        settings.contains(name) ? settings.at(name).get<std::string>() : "unset";
    owners[value].push_back(one.at("task"));
  }
  std::vector<std::string> parts;
  for (auto& [value, tasks] : owners) {
    const size_t more = tasks.size() > kShown ? tasks.size() - kShown : 0;
    tasks.resize(tasks.size() - more);
    parts.push_back(fmt::format("{} on {}{}", value, join(tasks, ", "),
                                more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return fmt::format("{} is {}", name, join(parts, "; "));
}

json named(const Settings& settings) {
  json object = json::object();
  for (const auto& [name, value] : settings) object[name] = value;
  return object;
}

}  // namespace

void check_same(Group& group, const ReplicaPlace& place, const Settings& settings,
                const DifferenceText& text) {
  check_same([&](const std::string& name,
                 const std::string& mine) { return group.gather_text(name, mine); },
             place.name(), settings, text);
}

void check_same(Replica& replica, const Settings& settings) {
  const std::string text = named(settings).dump();
  const Tensor digest = torch::full({1}, static_cast<int64_t>(crc32c(bytes_of(text))), at::kLong);
  for (const Tensor& other : replica.exchange().gather(digest, 0)) {
    // All replicas see the same digests, so all come here.
    if (!other.equal(digest)) return check_same(replica.group(), replica.place(), settings);
  }
}

void check_same(const GatherText& gather, const std::string& task, const Settings& settings,
                const DifferenceText& text) {
  const json mine{{"task", task}, {"settings", named(settings)}};
  std::vector<json> all;
  bool same = true;
  for (const std::string& told : gather("settings", mine.dump())) {
    all.push_back(json::parse(told));
    same = same && all.back().at("settings") == mine.at("settings");
  }
  if (same) return;
  std::vector<std::string> differences;
  for (const auto& [name, value] : settings) {
    for (const json& one : all) {
      if (one.at("settings").value(name, "unset") == value) continue;
      differences.push_back(who_has_what(name, all));
      break;
    }
  }
  throw invalid_argument(text.said + ": " + join(differences, "; "), text.hint);
}

}  // namespace muster::inline v0_1::distribute
