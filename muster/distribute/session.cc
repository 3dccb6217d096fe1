#include "muster/distribute/session.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <chrono>
#include <unordered_set>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/distribute/replica_values.h"
#include "muster/plan/data_shards.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

InputContext Session::input_context() const {
  const int pipeline = replica_id() / num_local_replicas();
  return {
      .num_input_pipelines = num_replicas_in_sync() / num_local_replicas(),
      .input_pipeline_id = pipeline,
      .num_replicas_in_sync = num_replicas_in_sync(),
      .seed = derive_key(seed_, {id_of("input_pipeline"), static_cast<uint64_t>(pipeline)}).key};
}

std::map<std::string, Tensor> Session::state() const {
  std::map<std::string, Tensor> named = parameters_->slots();
  for (const auto& variable : table_.variables())
    named[variable->name()] = variable->value().detach();
  return named;
}

void Session::take_replica_values(std::map<std::string, Tensor>& tensors) {
  replica_values_.clear();
  for (const Variable* variable : table_.on_read()) {
    const auto found = tensors.find(replicas_name(variable->name()));
    if (found == tensors.end() || found->second.dim() == 0 ||
        found->second.scalar_type() != variable->spec().dtype ||
        found->second.sizes().slice(1) != at::IntArrayRef(variable->spec().shape)) {
      continue;
    }
    if (found->second.size(0) == num_replicas_in_sync())
      replica_values_[variable->name()] = found->second;
    tensors.erase(found);
  }
}

void Session::check_reducible(ReduceOp op, const Tensor& value) {
  if (op != ReduceOp::kMean || value.is_floating_point()) return;
  throw invalid_argument("reduce(kMean) got " + muster::describe(value),
                         "convert it to float32 or float64 first");
}

data::AutoSharded Session::share_of(const Dataset& dataset) const {
  const InputContext context = input_context();
  if (dataset.hand_sharded()) {
    return {dataset, AutoShardPolicy::kOff,
            "the data set is sharded by hand; every worker reads what it gives"};
  }
  if (context.num_input_pipelines == 1) {
    return {dataset, AutoShardPolicy::kOff, "there is one worker"};
  }
  const int64_t n = context.num_input_pipelines, id = context.input_pipeline_id;
  const AutoShardPolicy policy = dataset.options().auto_shard_policy;
  if (policy == AutoShardPolicy::kAuto) {
    if (std::optional<data::AutoSharded> files = data::divide_files(dataset, n, id)) return *files;
  } else if (policy != AutoShardPolicy::kData) {
    return data::auto_shard(dataset, n, id, policy);
  }
  return {dataset, AutoShardPolicy::kData,
          policy == AutoShardPolicy::kData
              ? "rows are divided, as asked: each replica takes its part of every batch"
              : "rows are divided, since the pipeline does not begin with files: each replica "
                "takes its part of every batch"};
}

ReplicaInput Session::distribute(const Dataset& dataset, const DealOptions& options) {
  if (num_replicas_in_sync() == 1) return {deal(dataset, 1, 0, options), dataset.hand_sharded()};
  const data::AutoSharded share = share_of(dataset);
  const InputContext context = input_context();
  // What all workers do alike is said by one of them; and nothing again for each pass.
  const bool differs = share.applied == AutoShardPolicy::kFile;
  if (context.num_input_pipelines > 1 && share.why != told_of_input_ &&
      (differs ? local_replica() == 0 : is_chief())) {
    log::info(fmt::format("input: {}", share.why));
    told_of_input_ = share.why;
  }
  if (!share.dataset.hand_sharded()) {
    return {deal(dataset, num_replicas_in_sync(), replica_id(), options), false};
  }
  DealOptions mine = options;
  const bool global = options.global_batches || data::ends_with_global_batch(dataset);
  mine.global_batches = false;
  if (dataset.hand_sharded()) return {distribute_locally(dataset, mine), true};
  // Each worker draws an order of its own, of what all read or of its files.
  mine.pass =
      derive_key(options.pass, {id_of("worker"), static_cast<uint64_t>(context.input_pipeline_id)})
          .key;
  if (!global) return {distribute_locally(share.dataset, mine), true};
  // The batches are meant for all workers.
  const std::vector<int64_t> sizes =
      plan::batch_sizes_for_worker(data::batch_size_of(dataset), context.num_input_pipelines,
                                   num_local_replicas(), context.input_pipeline_id);
  return {distribute_locally(data::rebatch_for_worker(share.dataset, sizes), mine), true};
}

std::unique_ptr<Iterator> Session::distribute_locally(const Dataset& dataset,
                                                      const DealOptions& options) {
  return deal(dataset, num_local_replicas(), local_replica(), options);
}

std::unique_ptr<Iterator> Session::deal(const Dataset& dataset, int replicas, int replica,
                                        const DealOptions& options) const {
  const uint64_t seed =
      options.pass == 0 ? seed_ : derive_key(seed_, {id_of("pass"), options.pass}).key;
  return dataset.iterator({.seed = seed,
                           .sharding = {.num_replicas = replicas,
                                        .replica = replica,
                                        .global_batches = options.global_batches}});
}

// Tensors that require gradients may also be no variables, or variables of another scope. Nothing
// trains those here, and the replicas would share them.
void Session::check_depends_on_variables(const Tensor& loss) const {
  std::unordered_set<const at::TensorImpl*> own;
  for (const auto& variable : table_.variables()) {
    own.insert(variable->value().unsafeGetTensorImpl());
    for (const auto& use : variable->row_uses()) own.insert(use.rows.unsafeGetTensorImpl());
  }
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  std::vector<std::string> others;
  visit(torch::autograd::impl::gradient_edge(loss).function.get());
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      if (own.contains(leaf->variable.unsafeGetTensorImpl())) return;
      others.push_back(muster::describe(leaf->variable));
    }
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  throw invalid_argument(
      fmt::format("the loss {} depends on no variable of this strategy's scope, but on {}",
                  muster::describe(loss),
                  others.empty() ? "no tensor that requires a gradient" : join(others, ", ")),
      "tensors made elsewhere do not train: use layers, or ask for variables where the loss is "
      "made, with ModelContext::variable() or ReplicaContext::current().variable()");
}

void Session::accumulate(int64_t steps) {
  if (steps < 1) {
    throw invalid_argument(fmt::format("accumulate_steps is {}", steps),
                           "it is the number of batches that make one update: 1 or more");
  }
  accumulate_steps_ = steps;
}

StepResult Session::train_step(const StepInput& input) {
  const Turn turn{.first = group_.batches == 0, .last = group_.batches + 1 == accumulate_steps_};
  if (turn.first) {
    group_ = {.reduction = input.reduction};
  } else if (input.reduction != group_.reduction) {
    throw invalid_argument(
        fmt::format("batch {} of {} of an update adds losses, and another one averages them",
                    group_.batches + 1, accumulate_steps_),
        "keep the loss reduction for all batches of an update");
  }
  const bool counts = input.rows > 0;
  const double weight = counts ? input.weight : 0;
  // The loss of zero rows is not a number, but its gradients are exactly 0.
  const double loss = counts ? input.loss.item<double>() : 0;
  check_step(input, loss, turn);
  ++group_.batches;
  group_.weight += weight;
  group_.loss += group_.mean() ? loss * weight : loss;
  group_.last_loss = loss;
  group_.rows += input.rows;
  group_.has_data |= input.has_data;
  group_.stop |= input.stop;
  group_.save |= input.save;
  times_ = {};
  const auto start = std::chrono::steady_clock::now();
  add_gradients(*input.train_op, group_.mean() ? weight : (counts ? 1.0 : 0.0), turn);
  times_.backward = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (turn.last) return update(*input.train_op, std::exchange(group_, {}));
  waiting_ = *input.train_op;
  for (auto& entry : waiting_.entries) entry.loss.reset();  // and with it the graph
  return {.updated = false};
}

StepResult Session::apply_accumulated() {
  if (group_.batches == 0) return {.updated = false};
  times_ = {};
  return update(std::exchange(waiting_, {}), std::exchange(group_, {}));
}

void Session::run_backward(const optim::TrainOp& train_op, const FlatParameters& parameters,
                           double seed) {
  // Entries with the same loss share one backward; a loss of its own only reaches its own
  // variables.
  parameters.check_entries(train_op);
  std::vector<std::pair<Tensor, std::vector<Tensor>>> losses;
  for (size_t e = 0; e < train_op.entries.size(); ++e) {
    // An entry that trains nothing has nothing to compute.
    if (parameters.entry_parameters(e).empty() && parameters.entry_tables(e).empty()) continue;
    const Tensor& loss = train_op.entries[e].loss;
    auto found = std::find_if(losses.begin(), losses.end(),
                              [&](const auto& known) { return known.first.is_same(loss); });
    if (found == losses.end()) found = losses.insert(losses.end(), {loss, {}});
    for (int p : parameters.entry_parameters(e)) {
      found->second.push_back(parameters.parameters()[static_cast<size_t>(p)].variable->value());
    }
    for (int t : parameters.entry_tables(e)) {
      for (const auto& use : parameters.tables().variable(t).row_uses())
        found->second.push_back(use.rows);
    }
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto& [loss, variables] = losses[i];
    if (!loss.requires_grad()) {
      throw invalid_argument(fmt::format("the loss {} does not depend on any variable that trains",
                                         muster::describe(loss)),
                             "compute it from the outputs of layers, without detach() or item()");
    }
    if (!losses_checked_) check_depends_on_variables(loss);
    const Tensor gradient = seed == 1.0 ? torch::ones_like(loss) : torch::full_like(loss, seed);
    // Entries whose tables this batch did not read; an empty list would mean all leaves.
    if (losses.size() > 1 && variables.empty()) continue;
    const bool last = i + 1 == losses.size();
    // With one loss every variable of the graph is wanted, which autograd finds quicker by itself.
    torch::autograd::backward({loss}, {gradient}, /*retain_graph=*/!last, /*create_graph=*/false,
                              losses.size() == 1 ? std::vector<Tensor>() : variables);
  }
  losses_checked_ = true;
}

}  // namespace muster::inline v0_1::distribute
