// The definitions of a program for its workers: functions, and the data sets they read. Thread
// safety: values.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/calls/cluster_coordinator.h"
#include "muster/data/dataset.h"
#include "muster/data/iterator.h"

namespace muster::inline v0_1::distribute {

struct RemoteFunctions {
  struct Function {
    std::string name{};
    RemoteFunction call{};
    FunctionOptions options{};
  };
  struct Data {
    std::string name{};
    std::function<Dataset(const InputContext&)> make = {};
    std::optional<Dataset> divided = {};  // in place of `make`: all data, of which each has a part
  };
  std::vector<Function> functions{};
  std::vector<Data> data{};

  // The function that trains; nullptr without one.
  const Function* training() const {
    for (const Function& function : functions) {
      if (function.options.training) return &function;
    }
    return nullptr;
  }
  // nullptr for a name that was not defined.
  const Function* find(const std::string& name) const {
    for (const Function& function : functions) {
      if (function.name == name) return &function;
    }
    return nullptr;
  }
  const Data& data_of(const Function& function) const {
    return data[static_cast<size_t>(function.options.data->index())];
  }
  // The settings that all tasks must share, a line for each.
  std::vector<std::string> describe() const;
  // The data set as worker `worker` of `workers` reads it; `seed` is the run's.
  std::unique_ptr<Iterator> open(const Data& data, int worker, int workers, uint64_t seed) const;
};

}  // namespace muster::inline v0_1::distribute
