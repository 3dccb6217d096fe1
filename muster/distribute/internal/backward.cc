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

// A gradient that is too large for the type of the loss overflows like any other number.
Tensor first_gradient(const Tensor& loss, double value) {
  if (value == 1.0) return torch::ones_like(loss);
  const bool fits = loss.scalar_type() == kFloat64 || value <= std::numeric_limits<float>::max();
  return torch::full_like(loss, fits ? value : std::numeric_limits<double>::infinity());
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
  // Entries with the same loss, equally scaled, share one backward; a loss of its own only reaches
  // its own variables.
  parameters.check_entries(train_op);
  struct Run {
    Tensor loss{};
    double scale{};
    std::vector<Tensor> variables{};
  };
  std::vector<Run> losses;
  bool some_rest = false;
  // Its loss needs no list of variables.
  const bool only_one = train_op.entries.size() == 1;
  for (size_t e = 0; e < train_op.entries.size(); ++e) {
    some_rest |= train_op.entries[e].rests;
    if (train_op.entries[e].rests) continue;
    // An entry that trains nothing has nothing to compute.
    if (parameters.entry_parameters(e).empty() && parameters.entry_tables(e).empty()) continue;
    const Tensor& loss = train_op.entries[e].loss;
    const double scale = parameters.loss_scale(e);
    auto found = std::find_if(losses.begin(), losses.end(), [&](const Run& known) {
      return known.loss.is_same(loss) && known.scale == scale;
    });
    if (found == losses.end()) found = losses.insert(losses.end(), {loss, scale, {}});
    if (only_one) continue;
    for (int p : parameters.entry_parameters(e)) {
      found->variables.push_back(parameters.parameters()[static_cast<size_t>(p)].variable->value());
    }
    for (int t : parameters.entry_tables(e)) {
      for (const auto& use : parameters.tables().variable(t).row_uses())
        found->variables.push_back(use.rows);
    }
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto& [loss, scale, variables] = losses[i];
    if (!loss.requires_grad()) {
      throw invalid_argument(fmt::format("the loss {} does not depend on any variable that trains",
                                         muster::describe(loss)),
                             "compute it from the outputs of layers, without detach(), item() or a "
                             "NoGradGuard; argmax() and comparisons have no gradient either");
    }
    if (!losses_checked_) check_leaves(loss, table_, tells_);
    const Tensor gradient = first_gradient(loss, seed * scale);
    // With one loss every variable of the graph is wanted, which autograd finds quicker by itself,
    // unless what rests is in the graph as well.
    const bool all = losses.size() == 1 && !some_rest;
    // Entries whose tables this batch did not read; an empty list would mean all leaves.
    if (!all && variables.empty()) continue;
    const bool last = i + 1 == losses.size();
    torch::autograd::backward({loss}, {gradient}, /*retain_graph=*/!last, /*create_graph=*/false,
                              all ? std::vector<Tensor>() : variables);
  }
  for (const auto& parameter : parameters.parameters())
    check_dense(parameter.variable->name(), parameter.variable->value().grad());
  losses_checked_ = true;
}

}  // namespace muster::inline v0_1::distribute::internal
