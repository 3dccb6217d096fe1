#include "apps/sim/trained_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "apps/sim/simulation.h"
#include "muster/tensor/libtorch.h"

namespace muster::sim {

Checkpoint TrainedState::checkpoint() const {
  Checkpoint made{.global_step = step, .inputs = fmt::format("{{\"next\":{}}}", example)};
  made.tensors["weights"] = torch::tensor({static_cast<int64_t>(weights)});
  made.tensors["steps"] = torch::full({64}, step, at::kFloat);
  return made;
}

TrainedState state_of(const Checkpoint& read) {
  TrainedState right;
  while (right.step < read.global_step) right.train();
  const std::string where = fmt::format("the checkpoint of step {} ", read.global_step);
  const auto tensor = [&](const char* name) {
    const auto found = read.tensors.find(name);
    require(found != read.tensors.end(), where + "has all tensors");
    return found->second;
  };
  require(tensor("steps").equal(torch::full({64}, read.global_step, at::kFloat)),
          where + "is whole: its tensors are of its step");
  require(nlohmann::json::parse(read.inputs)["next"] == right.example,
          where + "continues at the next example");
  require(tensor("weights").item<int64_t>() == static_cast<int64_t>(right.weights),
          where + "has used each example once");
  return right;
}

}  // namespace muster::sim
