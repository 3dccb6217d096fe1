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
  // `chief`: rank 0 is a task of type chief, the others are workers.
  explicit LocalCluster(int workers, bool chief = false) : has_chief_(chief) {
    std::vector<std::string> addresses;
    for (int port : free_ports(workers)) addresses.push_back("127.0.0.1:" + std::to_string(port));
    if (chief) {
      spec_["chief"] = {addresses.front()};
      addresses.erase(addresses.begin());
    }
    spec_["worker"] = addresses;
  }

  Environment environment(int rank) const {
    const bool is_chief = has_chief_ && rank == 0;
    const nlohmann::json task{{"type", is_chief ? "chief" : "worker"},
                              {"index", has_chief_ && !is_chief ? rank - 1 : rank}};
    return Environment({{"TF_CONFIG", nlohmann::json{{"cluster", spec_}, {"task", task}}.dump()}});
  }

 private:
  nlohmann::json spec_ = nlohmann::json::object();
  bool has_chief_;
};

}  // namespace muster::inline v0_1::testing
