#include "muster/distribute/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "muster/base/allocator.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/data/scaled_batches.h"
#include "muster/distribute/internal/late_loss.h"
#include "muster/tensor/async_scalar.h"
#include "muster/tensor/device_library.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

Replica::Replica(ReplicaParts parts)
    : table_(parts.seed, parts.place.device, parts.rows_elsewhere),
      parts_(std::move(parts)),
      state_(make_model_state(parts_.place, table_, *parts_.updater, *parts_.exchange)) {
  keep_freed_memory();
}

InputContext Replica::input_context() const {
  return {
      .num_input_pipelines = place().processes,
      .input_pipeline_id = place().process,
      .num_replicas_in_sync = place().replicas() * joined_devices(device()),
      .seed = derive_key(seed(), {id_of("input_pipeline"), static_cast<uint64_t>(place().process)})
                  .key};
}

data::DistributedInput Replica::distribute(const Dataset& given, bool for_this_process,
                                           const data::DistributeOptions& options) {
  const Dataset dataset = data::scaled_batches(given, joined_devices(device()));
  const data::ReplicaPlace here{.num_input_pipelines = place().processes,
                                .input_pipeline_id = place().process,
                                .num_local_replicas = place().locals,
                                .local_replica = place().local,
                                .in_sync = place().in_sync};
  if (for_this_process) return data::distribute_locally(dataset, here, seed(), options);
  data::DistributedInput input = data::distribute(dataset, here, seed(), options);
  // A message about a fact that all workers share is logged by one of them; and never twice.
  const bool differs =
      input.applied == AutoShardPolicy::kFile || input.applied == AutoShardPolicy::kHint;
  if (place().processes > 1 && (differs ? place().local == 0 : is_chief()) &&
      told_of_input_.insert(input.why).second) {
    // Rows are divided in most runs: that is for those who look for it.
    const bool usual = input.applied == AutoShardPolicy::kData &&
                       dataset.options().auto_shard_policy == AutoShardPolicy::kAuto;
    const std::string line = "input: " + input.why;
    usual ? log::debug(line) : log::info(line);
  }
  return input;
}

namespace {

bool same_rest(const optim::TrainOp& a, const optim::TrainOp& b) {
  return std::ranges::equal(a.entries, b.entries, [](const auto& one, const auto& other) {
    return one.rests == other.rests;
  });
}

}  // namespace

void Replica::accumulate(int64_t steps) {
  if (steps < 1) {
    throw invalid_argument(fmt::format("accumulate_steps is {}", steps),
                           "it is the number of batches that make one update: 1 or more");
  }
  accumulate_steps_ = steps;
}

void Replica::finish_build(const optim::TrainOp& train_op) {
  table_.seal();
  group().explained([&] {
    // One line for each variable, optimizer and option: all workers must agree on them.
    std::vector<std::string> lines = table_.signature();
    for (const auto& entry : train_op.entries) {
      lines.push_back("optimizer " + entry.optimizer.describe());
    }
    if (accumulate_steps_ > 1)
      lines.push_back(fmt::format("{} batches for an update", accumulate_steps_));
    for (std::string& line : parts_.updater->agreements()) lines.push_back(std::move(line));
    group().declare_model(lines);
    parts_.updater->build(table_, train_op);
  });
}

void Replica::extend_build(const optim::TrainOp& train_op) {
  const torch::NoGradGuard no_grad;
  table_.seal();
  std::map<std::string, Tensor> before;
  for (const auto& [name, slot] : parts_.updater->slots()) before[name] = slot.clone();
  // The layout before let go of those that nothing trained.
  for (const auto& variable : table_.variables()) {
    if (variable->spec().trainable && at::isFloatingType(variable->spec().dtype))
      variable->value().set_requires_grad(true);
  }
  group().explained([&] { parts_.updater->build(table_, train_op); });
  for (const auto& [name, slot] : parts_.updater->slots()) {
    const auto known = before.find(name);
    if (known != before.end()) Tensor(slot).copy_(known->second);
  }
  if (recorder_ != nullptr) parts_.updater->record_into(recorder_);
}

StepResult Replica::train_step(const StepInput& input) {
  const auto& entries = input.train_op->entries;
  if (!entries.empty() && std::ranges::all_of(entries, &optim::TrainOp::Entry::rests)) {
    throw invalid_argument("no optimizer of the train_op makes a step: all of them rest",
                           "call minimize() of one of them, or make no step");
  }
  const Turn turn{.first = accumulated_.batches == 0,
                  .last = accumulated_.batches + 1 == accumulate_steps_};
  if (turn.first) {
    accumulated_ = {.reduction = input.reduction, .report_non_finite = report_non_finite_};
  } else if (input.reduction != accumulated_.reduction) {
    throw invalid_argument(
        fmt::format("batch {} of {} of an update adds losses, and another one averages them",
                    accumulated_.batches + 1, accumulate_steps_),
        "keep the loss reduction for all batches of an update");
  }
  if (!turn.first && !same_rest(*input.train_op, waiting_)) {
    throw invalid_argument(
        fmt::format("in batch {} of {} of an update other optimizers rest than in those before",
                    accumulated_.batches + 1, accumulate_steps_),
        "switch optimizers only after an update: every accumulate_steps batches");
  }
  const bool counts = input.rows > 0;
  const double weight = counts ? input.weight : 0;
  // The loss of zero rows is not a number, but its gradients are exactly 0.
  const AsyncScalar late(counts ? input.loss : torch::zeros({}));
  const bool alone = place().replicas() == 1;
  if (!alone) group().explained([&] { state_->check_versions(); });
  // Meanwhile a device makes the gradients; the CPU need not make gradients of a loss that is no
  // number.
  const auto go_back = [&] {
    times_ = {};
    const TimePoint start = std::chrono::steady_clock::now();
    parts_.updater->add(*input.train_op, accumulated_.mean() ? weight : (counts ? 1.0 : 0.0), turn);
    const TimePoint end = std::chrono::steady_clock::now();
    times_.backward = end - start;
    if (recorder_ != nullptr) recorder_->add(SpanRecorder::kSteps, "backward", start, end);
  };
  const bool early = counts && !input.loss.is_cpu() && alone && accumulate_steps_ == 1;
  if (early) go_back();
  // Among several replicas, a bad loss of the last batch is reported together with those of the
  // others. The run ends with the error, and gradients with the run.
  const bool must_be_finite = !report_non_finite_ && (alone || !turn.last);
  const auto read = [&] {
    const double loss = late.value();
    if (std::isfinite(loss) || !must_be_finite) return loss;
    throw Error(ErrorKind::kNonFinite,
                accumulate_steps_ == 1
                    ? fmt::format("the loss is {}", loss)
                    : fmt::format("the loss of batch {} of {} is {}", accumulated_.batches + 1,
                                  accumulate_steps_, loss));
  };
  auto* const recording = early && must_be_finite && weight > 0
                              ? dynamic_cast<internal::LateLoss*>(parts_.updater.get())
                              : nullptr;
  const bool later =
      recording != nullptr && recording->read_later(*input.train_op, input.loss, read);
  const double loss = later ? 0 : read();
  ++accumulated_.batches;
  accumulated_.weight += weight;
  accumulated_.loss += accumulated_.mean() ? loss * weight : loss;
  accumulated_.last_loss = loss;
  accumulated_.rows += input.rows;
  accumulated_.has_data |= input.has_data;
  accumulated_.stop |= input.stop;
  accumulated_.save |= input.save;
  accumulated_.profile_steps = std::max(accumulated_.profile_steps, input.profile_steps);
  if (!early) go_back();
  if (turn.last) return update(*input.train_op);
  waiting_ = *input.train_op;
  for (auto& entry : waiting_.entries) entry.loss.reset();  // and with it the graph
  return {.updated = false};
}

StepResult Replica::apply_accumulated() {
  if (accumulated_.batches == 0) return {.updated = false};
  times_ = {};
  return update(std::exchange(waiting_, {}));
}

StepResult Replica::update(const optim::TrainOp& train_op) {
  const TimePoint start = recorder_ != nullptr ? std::chrono::steady_clock::now() : TimePoint();
  const Updated updated = parts_.updater->update(train_op, std::exchange(accumulated_, {}));
  times_.reduction = Seconds(updated.reduction);
  times_.update = Seconds(updated.update);
  if (recorder_ != nullptr) note_update(start);
  state_->note_versions();
  run_recorded(place().device);
  return updated.result;
}

void Replica::record_into(SpanRecorder* recorder) {
  recorder_ = recorder;
  parts_.updater->record_into(recorder);
}

// The update follows the reduction at once.
void Replica::note_update(TimePoint start) {
  const TimePoint reduced = start + from_seconds(times_.reduction);
  if (times_.reduction.count() > 0)
    recorder_->add(SpanRecorder::kSteps, "reduction", start, reduced);
  recorder_->add(SpanRecorder::kSteps, "update", reduced, reduced + from_seconds(times_.update));
}

void Replica::finish() {
  group().finish();
  // Here, where the replicas of a process are threads and say goodbye to each other at once.
  parts_.communicator.reset();
}

}  // namespace muster::inline v0_1::distribute
