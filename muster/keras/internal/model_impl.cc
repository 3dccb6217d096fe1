#include "muster/keras/internal/model_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/cluster/elastic.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/keras/internal/structure.h"
#include "muster/keras/internal/tally.h"
#include "muster/layers/step_context.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/tensor/device_library.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/added_losses.h"

namespace muster::inline v0_1::keras {

using distribute::PerReplica;
using distribute::ReplicaContext;

namespace {

// The names of the outputs of a layer that does not name them.
std::vector<std::string> names_or(const std::vector<std::string>& given) {
  return given.empty() ? std::vector<std::string>{"output_1"} : given;
}

// Zero rows in the form of an Input; an axis of any size has one place.
Tensor no_rows(const SymbolicTensor& input) {
  Shape shape = input.shape();
  for (int64_t& size : shape) size = std::max<int64_t>(size, 1);
  shape[0] = 0;
  return torch::zeros(shape, input.dtype());
}

}  // namespace

Model::Impl::Impl(std::optional<Layer> of_layer, Model::Function of_function,
                  ModelOptions of_options)
    : options(std::move(of_options)),
      layer(of_layer),
      original(std::move(of_layer)),
      function(std::move(of_function)),
      strategy_(options.strategy) {
  if (strategy_ == nullptr) strategy_ = distribute::entered_strategy();
  if (strategy_ == nullptr) strategy_ = distribute::one_device();
  given_ = strategy_;
  if (strategy_->needs_servers()) {
    const cluster::ResolvedCluster cluster = cluster::resolve_cluster(
        options.environment ? *options.environment : Environment::process());
    served_ = !cluster.addresses.empty();
    chief_ = !served_ || (cluster.is_chief && cluster.task.type != "ps");
    strategy_ = distribute::one_device();
  }
  if (layer) {
    if (const auto graph = Functional::of(*layer)) {
      input_names = graph->input_names();
      output_names = graph->output_names();
      options.inputs = graph->inputs();
      return;
    }
  }
  if (function && !options.inputs.empty()) {
    throw invalid_argument("Model: the inputs of a function are given",
                           "a function takes the features of a batch as they are; build() is "
                           "called with the first batch");
  }
  input_names = {"input_1"};
  if (options.inputs.size() > 1) {
    throw invalid_argument(
        fmt::format("Model: {} inputs are given for a layer that takes one tensor",
                    options.inputs.size()),
        "make a Functional of several inputs, or give the Model a function");
  }
  output_names = names_or(options.output_names);
}

const distribute::Session& Model::Impl::session() {
  if (session_ == nullptr) {
    distribute::ScopeOptions scope = scope_options();
    if (served_ || elastic()) scope.environment = Environment();
    session_ = std::make_unique<distribute::Session>(strategy_, scope);
  }
  return *session_;
}

distribute::ScopeOptions Model::Impl::scope_options() {
  distribute::ScopeOptions scope{.seed = options.seed, .environment = options.environment};
  if (compiled) scope.accumulate_steps = compiled->options.accumulate_steps;
  accumulate_steps_ = scope.accumulate_steps;
  return scope;
}

const std::shared_ptr<distribute::ElasticRun>& Model::Impl::elastic_run() {
  if (knows_run_ || session_ != nullptr) return elastic_;
  knows_run_ = true;
  // The workers of a scope that the program has entered are together already.
  if (served_ || !strategy_->multi_worker() || distribute::entered_strategy() == strategy_)
    return elastic_;
  const Environment environment =
      options.environment ? *options.environment : Environment::process();
  const cluster::ResolvedCluster cluster =
      cluster::resolve_cluster(environment, {.worker_zero_may_be_chief = true});
  elastic_ = distribute::ElasticRun::of(cluster, *strategy_,
                                        cluster::min_workers(environment, cluster.source));
  if (elastic_) chief_ = cluster.is_chief;
  return elastic_;
}

void Model::Impl::join_workers(const std::string& call) {
  if (!elastic() || joined_) return;
  distribute::ElasticSession elastic{.run = elastic_, .call = call};
  if (built) elastic.state = state();
  session_.reset();
  built = false;
  session_ = std::make_unique<distribute::Session>(strategy_, scope_options(), elastic);
  joined_ = true;
}

bool Model::Impl::is_chief() {
  if (served_ || (elastic() && !joined_)) return chief_;
  return scope().is_chief();
}

void Model::Impl::require_joined(const char* verb) {
  if (!elastic() || joined_) return;
  throw invalid_argument(
      fmt::format("not supported: {} before fit() in an elastic run, whose workers come together "
                  "in fit()",
                  verb),
      "call it after fit(); or train without a minimum of workers");
}

const Model::Impl::Compiled& Model::Impl::compiled_for(const char* verb) const {
  if (compiled) return *compiled;
  throw invalid_argument(fmt::format("{}: the model \"{}\" was not compiled", verb, options.name),
                         "call compile({.optimizer = \"adam\", .loss = \"mse\"}) first");
}

std::vector<Tensor> Model::Impl::outputs_of(const Features& features) const {
  StepContext& context = StepContext::of(*CallContext::current());
  context.set_frozen(
      frozen ? std::function<bool(const std::string&)>(
                   [&layers = *frozen](const std::string& name) { return layers(name); })
             : nullptr);
  return function ? function(features, context).tensors
                  : (*layer)(internal::inputs_of(features, input_names), context).tensors;
}

void Model::Impl::build(const std::optional<Element>& features) {
  if (built) return;
  Element rows;
  if (features) {
    rows = features->slice(0, 0);
  } else if (no_rows_) {
    rows = *no_rows_;
  } else if (!options.inputs.empty()) {
    std::vector<std::pair<std::string, Element>> entries;
    for (size_t i = 0; i < options.inputs.size(); ++i)
      entries.emplace_back(input_names[i], no_rows(options.inputs[i]));
    rows = Element::dict(std::move(entries));
  } else {
    return;
  }
  const distribute::Scope here = scope();
  const Features none(rows);
  no_rows_ = std::move(rows);
  strategy_->run({.training = false}, [&] { (void)outputs_of(none); });
  built = true;
}

void Model::Impl::note_rows(const Features& features) {
  if (!no_rows_) no_rows_ = features.element().slice(0, 0);
}

std::vector<SymbolicTensor> Model::Impl::known_inputs() const {
  if (!options.inputs.empty() || !layer || !no_rows_) return options.inputs;
  const Tensor rows = internal::inputs_of(Features(*no_rows_), input_names).tensors.front();
  return {Input({rows.sizes().begin() + 1, rows.sizes().end()},
                {.dtype = rows.scalar_type(), .name = input_names.front()})};
}

void Model::Impl::require_built(const char* verb) {
  build(std::nullopt);
  if (built) return;
  throw invalid_argument(
      fmt::format("{}: the model \"{}\" has no weights yet, because its inputs are unknown", verb,
                  options.name),
      "call build({shape of the features without the batch}) before, make the model of a "
      "Functional, or give it ModelOptions::inputs");
}

void Model::Impl::require_frozen_layers(const internal::FrozenLayers& frozen) {
  std::vector<std::string> layers;
  for (const std::string& variable : scope().variable_names()) {
    const std::string layer = internal::layer_of(variable);
    if (layers.empty() || layers.back() != layer) layers.push_back(layer);
  }
  if (const auto missed = frozen.unmatched(layers); !missed.empty())
    throw unknown_name("freeze: the model", "layer", missed.front(), layers);
}

const std::string& Model::Impl::backup_name() {
  static std::mutex mutex;
  static auto* const numbers = new std::map<std::string, int64_t>;
  if (!backup_name_) {
    const std::lock_guard lock(mutex);
    const int64_t number = ++(*numbers)[options.name];
    backup_name_ = number == 1 ? options.name : fmt::format("{}_{}", options.name, number);
  }
  return *backup_name_;
}

optim::Optimizer Model::Impl::training_optimizer() const {
  return frozen ? frozen->leave_out(compiled->optimizer) : compiled->optimizer;
}

void Model::Impl::prepare_to_train() {
  const int64_t accumulate_steps = compiled->options.accumulate_steps;
  const bool again = trained_ ? changed_ : built && accumulate_steps != accumulate_steps_;
  if (again) {
    const distribute::Scope here = scope();
    Checkpoint state = this->state();
    std::map<std::string, Tensor> weights;
    for (const std::string& name : here.variable_names()) weights[name] = state.tensors.at(name);
    if (drop_slots_) state.tensors = std::move(weights);
    begin_again(state);
  }
  trained_ = true;
  changed_ = drop_slots_ = false;
  slots_.clear();
}

Checkpoint Model::Impl::state(const CopyOfState& copy) {
  if (copy) {
    (void)scope();  // which brings the weights
    return session().state([&](std::map<std::string, Tensor> all) {
      all.insert(slots_.begin(), slots_.end());
      return copy(all);
    });
  }
  Checkpoint state = scope().state();
  for (const auto& [name, slot] : slots_) state.tensors.try_emplace(name, slot);
  return state;
}

void Model::Impl::bring_weights() {
  if (!elsewhere || !elsewhere->changed) return;
  elsewhere->changed = false;  // first, since beginning again asks for the scope
  begin_again(elsewhere->state());
}

void Model::Impl::refuse_while_served(const char* verb) const {
  if (!elsewhere) return;
  throw invalid_argument(
      fmt::format("not supported: {} while fit() trains on parameter servers", verb),
      "do it before or after fit(); the learning rate may be a schedule of the optimizer");
}

void Model::Impl::begin_again(const Checkpoint& state) {
  slots_ = state.tensors;
  accumulate_steps_ = compiled ? compiled->options.accumulate_steps : 1;
  session().begin_again(state, accumulate_steps_);
  built = trained_ = false;
  build(std::nullopt);
}

BatchResult Model::Impl::train(const PerReplica<Batch>& batch,
                               const std::vector<double>& class_weight) {
  const distribute::Scope here = scope();
  note_rows(batch[0].features);
  const optim::Optimizer optimizer = training_optimizer();
  const int64_t before = here.step();
  const auto metrics = strategy_->run(
      {.loss_reduction = compiled->objective.reduction()},
      [&](const Batch& mine) {
        internal::Measured measured =
            compiled->objective.measure(mine, outputs_of(mine.features), class_weight);
        optimizer.minimize(measured.loss);
        return std::move(measured.metrics);
      },
      batch);
  // Where freeze() was called before there were layers to look for.
  if (!built && frozen) require_frozen_layers(*frozen);
  built = true;
  BatchResult result{.updated = here.step() > before};
  if (result.updated) {
    result.loss = here.last_step().loss;
    result.rows = here.last_step().rows;
  }
  for (const auto& of_replica : metrics) result.metrics.push_back(of_replica);
  return result;
}

void Model::Impl::build_to_train(const Batch& no_rows) {
  const distribute::Scope here = scope();
  note_rows(no_rows.features);
  const optim::Optimizer optimizer = training_optimizer();
  session().build(
      [&] {
        optimizer.minimize(
            compiled->objective.measure(no_rows, outputs_of(no_rows.features), {}).loss);
      },
      no_rows);
  built = true;
}

BatchResult Model::Impl::test(const PerReplica<Batch>& batch) {
  note_rows(batch[0].features);
  const bool mean = compiled->objective.reduction() == ReduceOp::kMean;
  struct Tested {
    Tensor sums{};  // float64 [2]: the loss, times the rows if it is a mean; and the rows
    std::vector<Metric> metrics{};
  };
  const auto tested = strategy_->run(
      {.training = false},
      [&](const Batch& mine) {
        internal::Measured measured =
            compiled->objective.measure(mine, outputs_of(mine.features), {});
        const double rows = static_cast<double>(mine.rows());
        Tensor loss = measured.loss.detach().to(at::kCPU, at::kDouble);
        // Without examples a loss is not a number.
        loss = rows == 0 ? torch::zeros({}, at::kDouble) : mean ? loss * rows : loss;
        const Tensor added =
            sum_of_added(CallContext::current()->take_losses(), ReduceOp::kMean, mine.rows());
        if (added.defined() && rows > 0)
          loss = loss + added.detach().to(at::kCPU, at::kDouble) * (mean ? rows : 1);
        Tensor sums = torch::stack({loss, torch::full({}, rows, at::kDouble)});
        sums = ReplicaContext::current().all_reduce(distribute::ReduceOp::kSum, sums);
        const Tensor penalty = ReplicaContext::current().regularization_loss().to(at::kCPU);
        sums[0] += penalty * (mean ? sums[1] : torch::ones({}, at::kDouble));
        return Tested{sums, std::move(measured.metrics)};
      },
      batch);
  built = true;
  const Tensor& sums = tested[0].sums;
  BatchResult result{.rows = static_cast<int64_t>(sums[1].item<double>())};
  result.loss = sums[0].item<double>() / (mean ? std::max<double>(1, sums[1].item<double>()) : 1);
  for (const Tested& of_replica : tested) result.metrics.push_back(of_replica.metrics);
  return result;
}

std::deque<std::vector<Tensor>> Model::Impl::predict(const PerReplica<Batch>& batch) const {
  const auto outputs = strategy_->run(
      {.training = false},
      [&](const Batch& mine) {
        std::vector<Tensor> given;
        for (const Tensor& output : outputs_of(mine.features)) given.push_back(output.detach());
        return given;
      },
      batch);
  std::deque<std::vector<Tensor>> all;
  for (const auto& of_replica : outputs) all.push_back(of_replica);
  return all;
}

Logs Model::Impl::evaluate(const Dataset& data, const EvaluateOptions& given) {
  const distribute::Scope here = scope();
  for (const auto& callback : given.callbacks) callback->on_test_begin();
  internal::Tally tally(compiled->objective.metric_names());
  auto distributed = strategy_->distribute(data);
  int64_t batches = 0;
  for (auto batch = distributed.begin(); batch != distributed.end(); ++batch) {
    const BatchResult tested = test(*batch);
    tally.add(tested.loss, tested.rows, tested.metrics);
    for (const auto& callback : given.callbacks) {
      callback->on_test_batch_end(
          {.batch = batches, .rows = tested.rows, .loss = tested.loss, .logs = [&] {
             return tally.here();
           }});
    }
    if (++batches == given.steps) break;
  }
  if (tally.rows() == 0) {
    throw invalid_argument("evaluate: the data set gave no examples: " + data.describe(),
                           "check the data directory and the transformations; take(0), skip() or "
                           "a filter may have removed everything");
  }
  const Logs logs = tally.over_all(*strategy_);
  for (const auto& callback : given.callbacks) callback->on_test_end(logs);
  return logs;
}

bool Model::Impl::all_replicas_are_here(const distribute::Scope& scope) const {
  const auto local = static_cast<int>(scope.num_local_replicas());
  return local * joined_devices(strategy_->device()) == scope.num_replicas_in_sync();
}

void Model::Impl::assign_from_chief(const std::map<std::string, Tensor>& values) {
  refuse_while_served("to give the model other weights");
  const distribute::Scope here = scope();
  // All processes are in this one.
  if (all_replicas_are_here(here)) return here.assign(values);
  const std::vector<VariableSpec> specs = here.variable_specs();
  const auto sum_of = [&](const Tensor& chiefs) {
    return strategy_->run({.training = false}, [&] {
      const ReplicaContext& replica = ReplicaContext::current();
      return replica.all_reduce(distribute::ReduceOp::kSum,
                                replica.replica_id() == 0
                                    ? chiefs.to(replica.device())
                                    : torch::zeros_like(chiefs).to(replica.device()));
    })[0];
  };
  Tensor has = torch::zeros({static_cast<int64_t>(specs.size())}, at::kLong);
  for (size_t v = 0; v < specs.size(); ++v)
    has[static_cast<int64_t>(v)] = static_cast<int64_t>(values.contains(specs[v].name));
  has = sum_of(has);
  std::map<std::string, Tensor> shared;
  for (size_t v = 0; v < specs.size(); ++v) {
    if (has[static_cast<int64_t>(v)].item<int64_t>() == 0) continue;
    const auto own = values.find(specs[v].name);
    const bool fits = own != values.end() && own->second.sizes() == at::IntArrayRef(specs[v].shape);
    if (here.is_chief() && !fits) return here.assign(values);  // which reports the fault
    shared[specs[v].name] = sum_of(fits ? own->second.to(specs[v].dtype)
                                        : torch::zeros(specs[v].shape, specs[v].dtype));
  }
  here.assign(shared);
}

PerReplica<Batch> Model::Impl::divided(const Batch& batch) {
  const distribute::Scope here = scope();
  const auto replicas = static_cast<int64_t>(here.num_local_replicas());
  const int64_t rows = batch.rows();
  const auto part = [&](const ElementView& view, int64_t begin, int64_t end) {
    return view.defined() ? view.element().slice(begin, end) : Element();
  };
  std::deque<Batch> parts;
  for (int64_t r = 0; r < replicas; ++r) {
    // The first replicas get the remaining rows, as in a data set.
    const int64_t share = rows / replicas, more = rows % replicas;
    const int64_t begin = r * share + std::min(r, more), end = begin + share + (r < more ? 1 : 0);
    parts.push_back({Features(part(batch.features, begin, end)),
                     Labels(part(batch.labels, begin, end)),
                     ElementView(part(batch.weights, begin, end))});
  }
  return PerReplica<Batch>(std::move(parts));
}

void Model::Impl::check_ends(const Dataset& data, const std::optional<int64_t>& steps,
                             const char* what, const char* field) {
  if (steps && *steps < 1) {
    throw invalid_argument(fmt::format("{}: {} is {}; it must be at least 1", what, field, *steps));
  }
  if (steps || data.cardinality() != kInfinite) return;
  throw invalid_argument(
      fmt::format("{}: the data set never ends: {}", what, data.describe()),
      fmt::format("set the number of batches: .{} = 100; or remove repeat()", field));
}

}  // namespace muster::inline v0_1::keras
