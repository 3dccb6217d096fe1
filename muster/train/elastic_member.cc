#include "muster/train/internal/elastic_member.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/train/internal/run_input.h"
#include "muster/train/internal/run_settings.h"

namespace muster::inline v0_1::internal {

ElasticMember::ElasticMember(const distribute::StartOptions& start, Engine& engine, RunSaves& saves,
                             NonFiniteSteps& non_finite, Attempt& attempt)
    : run_(*start.elastic),
      num_workers_(start.cluster.num_workers),
      engine_(engine),
      saves_(saves),
      non_finite_(non_finite),
      attempt_(attempt) {}

bool ElasticMember::continue_from_memory() {
  attempt_.memory.in_flight = saves_.in_flight();
  in_memory_ = internal::continue_from_memory(engine_, attempt_.memory);
  return in_memory_;
}

void ElasticMember::begin_group() {
  attempt_.in_step = true;
  begun_at_ = engine_.step();
  if (in_memory_) {
    saves_.begin(attempt_.memory.saves);
    saves_.expect(attempt_.memory.in_flight);
    non_finite_.continue_from(attempt_.memory.skipped_steps, attempt_.memory.roll_backs);
  } else {
    saves_.begin(engine_.step());
  }
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

std::shared_ptr<ExampleAudit> ElasticMember::continue_audit(distribute::ReplicaInput& input) {
  if (attempt_.audit) attempt_.audit->continue_at(engine_.step(), input.batches().position());
  return attempt_.audit;
}

void ElasticMember::note_position(distribute::ReplicaInput& input, int64_t examples_of_step) {
  // A step has shown that they fit.
  if (engine_.step() == begun_at_ + 1) run_.keep_newcomers();
  position_step_ = -1;
  position_ = positions_of(input, examples_of_step);
  position_step_ = engine_.step();
}

bool ElasticMember::goes_on_after(const Error& error) const { return run_.goes_on_after(error); }

void ElasticMember::remember_loss(distribute::ReplicaInput* input, int64_t examples_of_step,
                                  int64_t last_step) {
  // Without a state of its own it keeps what it had before this group.
  if (!attempt_.in_step || input == nullptr) return;
  const bool noted = position_step_ == engine_.step();
  remember_state(engine_.replica().state().tensors(),
                 noted ? position_ : positions_of(*input, examples_of_step),
                 input->batches().position().epoch, last_step);
  attempt_.in_step = false;
}

void ElasticMember::remember_together(distribute::ReplicaInput& input, int64_t examples_of_step,
                                      int64_t last_step) {
  const auto gathered = engine_.replica().state().gather_for_checkpoint(/*later=*/false);
  attempt_.memory = {.chief = attempt_.memory.chief};
  attempt_.regroups = true;
  if (!engine_.replica().is_chief()) return;
  remember_state(gathered, positions_of(input, examples_of_step), input.batches().position().epoch,
                 last_step);
}

void ElasticMember::remember_state(const std::map<std::string, Tensor>& tensors,
                                   const nlohmann::json& position, int64_t epoch,
                                   int64_t last_step) {
  RunMemory& memory = attempt_.memory;
  memory.epoch = run_.epoch();
  memory.saves = saves_.marks();
  memory.last_step = last_step;
  memory.skipped_steps = non_finite_.skipped();
  memory.roll_backs = non_finite_.roll_backs();
  memory.state = remember(engine_, tensors, position, epoch);
}

void save_memory(const TrainerOptions& options, const RunMemory& memory) {
  const bool saves = options.save_checkpoints_steps || options.save_checkpoints_secs;
  if (!saves || !memory.state || memory.saves.saved_step == memory.state->global_step) return;
  const RunSavesOptions how = saves_of(options);
  try {
    CheckpointWriter writer(how.model_dir, how.manager);
    const std::string prefix = writer.save(*memory.state);
    log::info(fmt::format("saved {} from memory, because a worker was lost", prefix));
  } catch (...) {
    log::warning(
        fmt::format("the steps since the last checkpoint are lost: {}", current_error().message()));
  }
}

}  // namespace muster::inline v0_1::internal
