#include "muster/train/internal/elastic_member.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/log.h"
#include "muster/train/internal/run_input.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::internal {

ElasticMember::ElasticMember(const distribute::StartOptions& start, Engine& engine, RunSaves& saves,
                             Attempt& attempt)
    : run_(*start.elastic),
      num_workers_(start.cluster.num_workers),
      engine_(engine),
      saves_(saves),
      attempt_(attempt) {}

bool ElasticMember::continue_from_memory() {
  in_memory_ = internal::continue_from_memory(engine_, attempt_.memory);
  return in_memory_;
}

Dataset ElasticMember::divide_rows(const Dataset& dataset) {
  DatasetOptions how = dataset.options();
  if (how.auto_shard_policy != AutoShardPolicy::kAuto) return dataset;
  how.auto_shard_policy = AutoShardPolicy::kData;
  return dataset.with_options(how);
}

void ElasticMember::check_divided(const distribute::ReplicaInput& input) {
  if (!input.by_process()) return;
  throw invalid_argument(
      "not supported: an elastic run with data that each worker reads by itself (an input "
      "function with an InputContext, a shard(), AutoShardPolicy::kFile, kOff or kHint): when a "
      "worker is lost, the examples it had left are unknown",
      "let Muster divide the rows: an input function without InputContext that describes all "
      "data, with AutoShardPolicy::kData or kAuto; or train without a minimum of workers");
}

void ElasticMember::begin_group() {
  in_step_with_group_ = true;
  in_memory_ ? saves_.begin(attempt_.memory.saves) : saves_.begin(engine_.step());
  if (attempt_.first_step < 0) attempt_.first_step = engine_.step();
  const distribute::Replica& replica = engine_.replica();
  if (!replica.is_chief()) return;
  log::event(
      "group",
      {{"epoch", run_.epoch()},
       {"workers", replica.place().processes},
       {"global_step", engine_.step()}},
      fmt::format("elastic: {} of {} workers train from step {} on: {}", replica.place().processes,
                  num_workers_, engine_.step(), run_.describe_group()));
}

void ElasticMember::note_position(distribute::ReplicaInput& input, int64_t examples_of_step) {
  position_step_ = -1;
  position_ = positions_of(input, examples_of_step);
  position_step_ = engine_.step();
}

bool ElasticMember::goes_on_after(const Error& error) const {
  return stop_signal() == 0 && run_.goes_on_after(error);
}

void ElasticMember::remember_loss(distribute::ReplicaInput* input, int64_t examples_of_step,
                                  int64_t last_step) {
  // Without a state of its own it keeps what it had before this group.
  if (!in_step_with_group_ || input == nullptr) return;
  const bool noted = position_step_ == engine_.step();
  remember_state(engine_.replica().state().tensors(),
                 noted ? position_ : positions_of(*input, examples_of_step), last_step);
}

void ElasticMember::remember_together(distribute::ReplicaInput& input, int64_t examples_of_step,
                                      int64_t last_step) {
  const auto gathered = engine_.replica().state().gather_for_checkpoint();
  attempt_.memory = {};
  attempt_.regroups = true;
  if (!engine_.replica().is_chief()) return;
  remember_state(gathered, positions_of(input, examples_of_step), last_step);
}

void ElasticMember::remember_state(const std::map<std::string, Tensor>& tensors,
                                   const nlohmann::json& position, int64_t last_step) {
  RunMemory& memory = attempt_.memory;
  memory.epoch = run_.epoch();
  memory.saves = saves_.marks();
  memory.last_step = last_step;
  memory.state = remember(engine_, tensors, position);
}

}  // namespace muster::inline v0_1::internal
