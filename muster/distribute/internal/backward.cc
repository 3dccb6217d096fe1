#include "muster/distribute/internal/backward.h"

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/distribute/internal/loss_leaves.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute::internal {
namespace {

// Tensors that require gradients may also be no variables, or variables of another scope: those of
// a module that was not registered, say. Nothing trains them here.
void check_leaves(const Tensor& loss, const VariableTable& table, bool tells) {
  const LossLeaves leaves = leaves_of(loss, table);
  if (!leaves.variables) {
    throw invalid_argument(
        fmt::format("the loss {} depends on no variable of this strategy's scope, but on {}",
                    muster::describe(loss),
                    leaves.others.empty() ? "no tensor that requires a gradient"
                                          : join(leaves.others, ", ")),
        kTensorsMadeElsewhere);
  }
  if (leaves.others.empty() || !tells) return;
  log::warning(
      fmt::format("the loss also depends on {}, which require a gradient but are not variables, so "
                  "they will not train; {}",
                  join(leaves.others, ", "), kTensorsMadeElsewhere));
}

// A gradient that is too large for the type of the loss overflows like any other number. Autograd
// makes the gradient 1 by itself.
Tensor first_gradient(const Tensor& loss, double value) {
  if (value == 1.0) return {};
  const bool fits = loss.scalar_type() == kFloat64 || value <= std::numeric_limits<float>::max();
  return torch::full_like(loss, fits ? value : std::numeric_limits<double>::infinity());
}

// An entry that trains nothing has nothing to compute.
bool trains(const FlatParameters& parameters, size_t entry) {
  return !parameters.entry_parameters(entry).empty() || !parameters.entry_tables(entry).empty();
}

}  // namespace

void check_dense(const std::string& name, const Tensor& gradient) {
  if (!gradient.defined() || gradient.layout() == at::kStrided) return;
  throw invalid_argument(
      fmt::format("not supported: the gradient of the variable {} is {}, not dense", name,
                  c10::str(gradient.layout())),
      "leave sparse(true) out of LibTorch's embedding; of Muster's Embedding(rows, width) only the "
      "rows that a step used travel and are updated");
}

void Backward::run(const optim::TrainOp& train_op, const FlatParameters& parameters, double seed) {
  parameters.check_entries(train_op);
  const auto& entries = train_op.entries;
  if (entries.size() > 1) {
    run_several(train_op, parameters, seed);
  } else if (!entries.empty() && !entries[0].rests && trains(parameters, 0)) {
    // Every variable of the graph is wanted, which autograd finds quicker by itself.
    run_one(entries[0].loss, seed * parameters.loss_scale(0), {}, /*last=*/true);
  }
  for (const auto& parameter : parameters.parameters())
    check_dense(parameter.variable->name(), parameter.variable->value().grad());
  losses_checked_ = true;
}

void Backward::run_several(const optim::TrainOp& train_op, const FlatParameters& parameters,
                           double seed) {
  // Entries with the same loss, equally scaled, share one backward; a loss of its own only reaches
  // its own variables.
  struct Run {
    Tensor loss{};
    double scale{};
    std::vector<Tensor> variables{};
  };
  std::vector<Run> losses;
  bool some_rest = false;
  for (size_t e = 0; e < train_op.entries.size(); ++e) {
    some_rest |= train_op.entries[e].rests;
    if (train_op.entries[e].rests || !trains(parameters, e)) continue;
    const Tensor& loss = train_op.entries[e].loss;
    const double scale = parameters.loss_scale(e);
    auto found = std::find_if(losses.begin(), losses.end(), [&](const Run& known) {
      return known.loss.is_same(loss) && known.scale == scale;
    });
    if (found == losses.end()) found = losses.insert(losses.end(), {loss, scale, {}});
    for (int p : parameters.entry_parameters(e)) {
      found->variables.push_back(parameters.parameters()[static_cast<size_t>(p)].variable->value());
    }
    for (int t : parameters.entry_tables(e)) {
      for (const auto& use : parameters.tables().variable(t).row_uses())
        found->variables.push_back(use.rows);
    }
  }
  // With one loss every variable of the graph is wanted, unless what rests is in the graph as well.
  const bool all = losses.size() == 1 && !some_rest;
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto& [loss, scale, variables] = losses[i];
    // Entries whose tables this batch did not read; an empty list would mean all leaves.
    if (!all && variables.empty()) {
      check_loss(loss);
      continue;
    }
    run_one(loss, seed * scale, all ? std::vector<Tensor>() : variables, i + 1 == losses.size());
  }
}

void Backward::check_loss(const Tensor& loss) const {
  if (!loss.requires_grad()) {
    throw invalid_argument(fmt::format("the loss {} does not depend on any variable that trains",
                                       muster::describe(loss)),
                           "compute it from the outputs of layers, without detach(), item() or a "
                           "NoGradGuard; argmax() and comparisons have no gradient either");
  }
  if (!losses_checked_) check_leaves(loss, table_, tells_);
}

void Backward::run_one(const Tensor& loss, double value, const std::vector<Tensor>& variables,
                       bool last) const {
  check_loss(loss);
  torch::autograd::backward({loss}, {first_gradient(loss, value)}, /*retain_graph=*/!last,
                            /*create_graph=*/false, variables);
}

}  // namespace muster::inline v0_1::distribute::internal
