#include "apps/sim/served_counts.h"

#include <fmt/format.h>

#include "apps/sim/simulation.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::sim {
namespace {

std::string name_of_counts(int server) { return fmt::format("counts_{}", server); }

}  // namespace

optim::TrainOp ServedCounts::build(VariableStore& variables, int workers, int servers) {
  // Servers get variables in turn.
  for (int server = 0; server < servers; ++server) {
    variables.get_or_create({.name = name_of_counts(server),
                             .shape = {workers, kRows},
                             .initializer = [](const Shape& shape, DType dtype, RandomKey) {
                               return torch::zeros(shape, at::dtype(dtype));
                             }});
  }
  return {.entries = {{.optimizer = optim::sgd({.learning_rate = 1.0}), .filter = {}}}};
}

ServedCounts::ServedCounts(int workers, int servers)
    : workers_(workers), train_op_(build(table_, workers, servers)) {
  table_.seal();
  parameters_ = std::make_unique<distribute::FlatParameters>(
      table_, train_op_, [](int64_t bytes) { return torch::zeros({bytes}, at::kByte); });
}

std::vector<std::string> ServedCounts::lines() const {
  std::vector<std::string> lines = table_.signature();
  lines.push_back("optimizer " + train_op_.entries.front().optimizer.describe());
  return lines;
}

distribute::FlatParameters::Prepared ServedCounts::gradients(int worker, int64_t row) const {
  require(row < kRows, fmt::format("no worker uses more than {} examples", kRows));
  const Tensor gradient = torch::zeros({workers_, kRows});
  gradient.data_ptr<float>()[worker * kRows + row] = -1;  // the update subtracts it
  distribute::FlatParameters::Prepared prepared;
  prepared.gradients.assign(parameters_->parameters().size(), gradient);
  return prepared;
}

std::vector<Tensor> ServedCounts::counts() const {
  std::vector<Tensor> all;
  for (const auto& variable : table_.variables()) all.push_back(variable->value().detach());
  return all;
}

Tensor ServedCounts::counts(const std::map<std::string, Tensor>& checkpoint, int servers) {
  const Tensor& first = checkpoint.at(name_of_counts(0));
  for (int server = 1; server < servers; ++server) {
    require(first.equal(checkpoint.at(name_of_counts(server))),
            "all servers of a checkpoint have the same steps");
  }
  return first;
}

}  // namespace muster::sim
