// A cluster of n workers on this machine's loopback, as each of them sees it in TF_CONFIG.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/free_ports.h"

namespace muster::inline v0_1::testing {

class LocalCluster {
 public:
  // `chief`: rank 0 is a task of type chief, the others are workers. `servers`: parameter servers.
  explicit LocalCluster(int workers, bool chief = false, int servers = 0) : has_chief_(chief) {
    std::vector<std::string> addresses;
    for (int port : free_ports(workers + servers))
      addresses.push_back("127.0.0.1:" + std::to_string(port));
    if (servers > 0) {
      spec_["ps"] = std::vector<std::string>(addresses.begin() + workers, addresses.end());
      addresses.resize(static_cast<size_t>(workers));
    }
    if (chief) {
      spec_["chief"] = {addresses.front()};
      addresses.erase(addresses.begin());
    }
    if (!addresses.empty()) spec_["worker"] = addresses;
  }

  Environment environment(int rank) const {
    const bool is_chief = has_chief_ && rank == 0;
    return of_task(is_chief ? "chief" : "worker", has_chief_ && !is_chief ? rank - 1 : rank);
  }
  Environment server_environment(int index) const { return of_task("ps", index); }

 private:
  Environment of_task(const std::string& type, int index) const {
    const nlohmann::json config{{"cluster", spec_}, {"task", {{"type", type}, {"index", index}}}};
    return Environment({{"TF_CONFIG", config.dump()}});
  }

  nlohmann::json spec_ = nlohmann::json::object();
  bool has_chief_;
};

}  // namespace muster::inline v0_1::testing
