#include "muster/calls/internal/remote_replica.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/loop/recorded_step.h"
#include "muster/optim/recording.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1::distribute {
namespace {

RandomKey key_of(uint64_t seed, int replica, int64_t step) {
  return derive_key(seed, {id_of("remote function"), static_cast<uint64_t>(step),
                           static_cast<uint64_t>(replica)});
}

// Zero rows of a batch of the form; nothing without one.
std::optional<Batch> no_rows(const std::string& form) {
  if (form.empty()) return std::nullopt;
  return to_batch(zero_rows(form));
}

const Batch* pointer_to(const std::optional<Batch>& batch) { return batch ? &*batch : nullptr; }

void check_trains(const RemoteFunctions::Function& training, const optim::TrainOp& train_op) {
  if (train_op.defined()) return;
  throw invalid_argument(
      fmt::format("the function \"{}\" was defined as the one that trains, and called no "
                  "Optimizer::minimize()",
                  training.name),
      "call minimize() in it, whatever the batch holds: it is called on zero rows first");
}

}  // namespace

const Batch& RemoteCall::batch() const {
  if (batch_ != nullptr) return *batch_;
  throw invalid_argument("the function asks for a batch, and was defined without a data set",
                         "set FunctionOptions::data to what create_per_worker_dataset() gave");
}

const Tensor& RemoteCall::variable(const VariableSpec& spec) const {
  return variables_.get_or_create(spec).value();
}

RandomKey RemoteCall::random_key(const std::string& name) const { return key_.derive(id_of(name)); }

RemoteReplica::RemoteReplica(std::unique_ptr<Replica> replica)
    : replica_(std::move(replica)),
      engine_(*replica_, /*accumulate_steps=*/1),
      pace_(Pace::of(*replica_)),
      calls_(replica_->variables(), replica_->seed()) {
  // A call with numbers that are not finite is an error of that call.
  engine_.report_non_finite();
}

std::vector<Tensor> RemoteReplica::invoke(const RemoteFunctions::Function& function,
                                          VariableStore& variables, CallContext& calls,
                                          RandomKey key, int64_t step, const Batch* batch,
                                          const std::vector<Tensor>& arguments) {
  const StepContext::Current layers(calls);
  return function.call(RemoteCall(variables, key, step, batch, arguments));
}

optim::TrainOp RemoteReplica::describe(const RemoteFunctions::Function& training,
                                       VariableStore& variables, uint64_t seed,
                                       const std::string& form) {
  const torch::NoGradGuard no_grad;
  StepContext calls(variables, seed);
  calls.begin_step(/*training=*/true, /*step=*/0, /*replica=*/0);
  const std::optional<Batch> batch = no_rows(form);
  const optim::Recording recording;
  (void)invoke(training, variables, calls, key_of(seed, 0, 0), 0, pointer_to(batch),
               training.options.arguments);
  optim::TrainOp described = recording.train_op();
  check_trains(training, described);
  return described;
}

void RemoteReplica::build(const RemoteFunctions::Function& training, const std::string& form,
                          const Checkpoint* initial) {
  if (initial != nullptr && engine_.restored_from().empty())
    engine_.continue_from(*initial, "the state it was given");
  replica_->group().report(Phase::kBuilding, engine_.step());
  pace_->tell_form([&] { return form; });
  const std::optional<Batch> batch = no_rows(form);
  optim::TrainOp described;
  {
    const torch::NoGradGuard no_grad;
    calls_.begin_step(/*training=*/true, /*step=*/0, replica_->replica_id());
    const optim::Recording recording;
    (void)invoke(training, replica_->variables(), calls_, key_of(replica_->seed(), 0, 0), 0,
                 pointer_to(batch), training.options.arguments);
    described = recording.train_op();
    (void)calls_.take_losses();
  }
  check_trains(training, described);
  for (const Variable* variable : replica_->variables().on_read()) {
    if (!pace_->others_go_on() || variable->spec().aggregation != VariableAggregation::kConcat)
      continue;
    throw invalid_argument(
        fmt::format("not supported: the variable {}, which keeps something of each example for the "
                    "next batch, with a ClusterCoordinator: any worker may make the next call",
                    variable->name()),
        "leave .stateful out, or train an Estimator");
  }
  engine_.build(described);
  pace_->begin(engine_, /*input=*/nullptr,
               {.restart_input = true, .last_step = [](int64_t) { return std::nullopt; }});
}

RemoteReplica::Made RemoteReplica::call(const RemoteFunctions::Function& function,
                                        const Batch* batch, const std::vector<Tensor>& arguments) {
  const bool training = function.options.training;
  replica_->group().report(training ? Phase::kTraining : Phase::kEvaluating, engine_.step());
  if (training && !pace_->begin_step(engine_.step(), /*last_step=*/-1)) return {.over = true};
  if (!training) pace_->read_weights();
  const int64_t step = engine_.step(), examples = batch != nullptr ? batch->rows() : 1;
  Made made;
  optim::TrainOp described;
  try {
    const torch::AutoGradMode gradients(training);
    calls_.begin_step(training, step, number());
    const optim::Recording recording;
    // The losses of a call that threw.
    (void)calls_.take_losses();
    for (const auto& variable : replica_->variables().variables()) variable->take_row_uses();
    made.results = invoke(function, replica_->variables(), calls_,
                          key_of(replica_->seed(), number(), step), step, batch, arguments);
    described = recording.train_op();
    for (Tensor& result : made.results)
      result = result.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
    if (training) check_trains(function, described);
    if (!training && described.defined()) {
      throw invalid_argument("minimize() was called in a function that does not train",
                             "define it with .training = true");
    }
  } catch (...) {
    try {
      rethrow_with_place("the function \"" + function.name + "\"",
                         fmt::format("after step {}{}", step, on_replica(replica_->place())),
                         [](const std::string&) { return std::string(); });
    } catch (...) {
      return {.error = current_error()};
    }
  }
  if (!training) return made;
  const StepResult step_made =
      train_recorded(engine_, calls_, std::move(described),
                     {.reduction = function.options.loss_reduction, .examples = examples});
  if (!step_made.finite) {
    return {.error = Error(ErrorKind::kNonFinite,
                           fmt::format("the loss or a gradient of \"{}\" is not finite after step "
                                       "{}{}; nothing was updated",
                                       function.name, step, on_replica(replica_->place())),
                           "look at the data, lower the learning rate or clip gradients")};
  }
  if (function.options.returns_step_loss)
    made.results.push_back(torch::full({}, step_made.loss, at::kDouble));
  if (pace_->others_go_on()) made.state = own_state();
  return made;
}

int RemoteReplica::number() const {
  const ReplicaPlace& place = replica_->place();
  return place.in_chief_process ? 0 : place.process - 1;
}

std::vector<Tensor> RemoteReplica::own_state() const {
  std::vector<Tensor> state;
  for (const Variable* variable : replica_->variables().on_read())
    state.push_back(variable->value().detach().clone().contiguous());
  return state;
}

void RemoteReplica::take_state(const std::vector<Tensor>& state) {
  const auto& own = replica_->variables().on_read();
  if (state.empty()) return;
  if (state.size() != own.size())
    throw internal_error("a state of other variables than this model's came");
  const torch::NoGradGuard no_grad;
  for (size_t v = 0; v < own.size(); ++v) Tensor(own[v]->value().detach()).copy_(state[v]);
}

}  // namespace muster::inline v0_1::distribute
