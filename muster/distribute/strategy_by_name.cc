#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/register_strategy.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

// "cuda:0,cuda:2" as a list.
std::vector<std::string> split_at_commas(const std::string& names) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    parts.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::function<StrategyPtr()>> makers;
};

Registry& registry() {
  static auto* const all = new Registry();
  return *all;
}

// A strategy that another part of Muster makes under that name; nothing if none does.
StrategyPtr registered(const std::string& name) {
  std::function<StrategyPtr()> make;
  {
    const std::lock_guard lock(registry().mutex);
    const auto found = registry().makers.find(name);
    if (found == registry().makers.end()) return nullptr;
    make = found->second;
  }
  return make();
}

}  // namespace

void register_strategy(const std::string& name, std::function<StrategyPtr()> make) {
  const std::lock_guard lock(registry().mutex);
  registry().makers[name] = std::move(make);
}

StrategyPtr strategy_by_name(const std::string& name) {
  if (name == "one_device") return one_device();
  if (name == "multi_worker") return multi_worker_mirrored();
  if (name == "mirrored") return mirrored();
  if (StrategyPtr other = registered(name)) return other;
  if (name == "parameter_server") {
    throw invalid_argument(
        "the strategy parameter_server is of Muster's servers, with which this program is not "
        "linked",
        "link the part: find_package(muster COMPONENTS servers) and target_link_libraries(... "
        "muster::servers); for an example of Muster's own: ./dev build NAME, as ./dev build mnist");
  }
  if (name == "tpu") {
    throw invalid_argument(
        "the strategy tpu is of Muster's part tpu, with which this program is not linked",
        "link the part: find_package(muster COMPONENTS tpu) and target_link_libraries(... "
        "muster::tpu); for an example of Muster's own: ./dev build mnist");
  }
  const size_t colon = name.find(':');
  if (colon != std::string::npos) {
    const std::string of = name.substr(colon + 1);
    std::vector<std::string> devices = split_at_commas(of);
    const auto replicas = parse_int(of);
    if (replicas) devices.clear();
    const bool counted = replicas && *replicas >= 1 && *replicas <= 1024;
    if (counted || (!devices.empty() && std::ranges::all_of(devices, names_device))) {
      const int count = counted ? static_cast<int>(*replicas) : 1;
      if (name.starts_with("one_device:") && devices.size() == 1) return one_device(of);
      if (name.starts_with("mirrored:")) return mirrored({.replicas = count, .devices = devices});
      if (name.starts_with("multi_worker:"))
        return multi_worker_mirrored({.local_replicas = count, .devices = devices});
    }
  }
  throw invalid_argument(
      fmt::format("there is no strategy '{}'", name),
      "use one_device, mirrored (every GPU, or one replica on the CPU), mirrored:4 (or another "
      "number from 1 "
      "to 1024), multi_worker, multi_worker:4 (replicas in each worker), parameter_server or tpu; "
      "on "
      "GPUs "
      "one_device:cuda, mirrored:cuda (all of them), multi_worker:cuda");
}

}  // namespace muster::inline v0_1::distribute
