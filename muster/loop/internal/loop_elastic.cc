// An elastic loop, whose workers change between two calls of its program: the state of one that is
// left goes on with the next group of workers.
#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/distribute/elastic_run.h"
#include "muster/loop/internal/loop.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::distribute {

using muster::internal::NextStep;
using nlohmann::json;

bool Loop::has_newcomers() const {
  return start_.elastic && first().is_chief() && start_.elastic->has_newcomers();
}

bool Loop::goes_on_after(const Error& error) const {
  return start_.elastic && start_.elastic->goes_on_after(error);
}

void Loop::note_place() {
  const auto data = data_.empty() ? nullptr : data_.front().lock();
  if (!data) return;
  place_ = data->place();
  placed_step_ = step_;
}

NextStep Loop::agree_on_next() {
  NextStep next = NextStep::kStep;
  each("Model::fit()", [&](Replica& replica, size_t local) {
    const bool signal = stop_signal() != 0;
    const muster::internal::StepWish mine{
        .signal = signal, .end = !signal && cancelled_(), .newcomers = has_newcomers()};
    const ReplicaPlace& place = replica.place();
    const NextStep follows = muster::internal::next_step(
        replica.group().gather_text("elastic", mine.text()), place.locals, place.process,
        [this](int leaving) { return start_.elastic->can_spare(leaving); });
    if (local == 0) next = follows;
    if (follows != NextStep::kLeave) return;
    throw Error(ErrorKind::kCancelled,
                fmt::format("stopped by {} at step {}", stop_signal_name(), step_),
                "the other workers of this elastic run continue without this one");
  });
  if (next != NextStep::kEnd) stop_ = false;
  return next;
}

std::vector<std::string> Loop::gather_text(const std::function<std::string()>& text) {
  std::vector<std::string> all;
  each("Model::fit()", [&](Replica& replica, size_t local) {
    const auto texts = replica.group().gather_text("elastic fit", local == 0 ? text() : "");
    if (local == 0) all = texts;
  });
  return all;
}

void Loop::remember(const Session::NotesOf& notes, const std::map<std::string, Tensor>& tensors) {
  const Engine& engine = first_engine();
  const auto data = data_.empty() ? nullptr : data_.front().lock();
  json inputs = json::array();
  if (data) inputs.push_back(data->save(placed_step_ == engine.step() ? place_ : data->place()));
  muster::internal::RunMemory& memory = memories_.front();
  memory.epoch = start_.elastic->epoch();
  memory.whole = true;
  memory.state = muster::internal::remember(engine, tensors, {{"loop", inputs}}, /*epoch=*/0,
                                            notes(engine.step()));
}

void Loop::regroup(const std::string& call, const Session::NotesOf& notes, bool together) {
  meeting_ = call;
  try {
    if (together) remember_together(notes);
  } catch (const Error& error) {
    if (!goes_on_after(error)) throw;
    together = false;
  }
  // Without a step in this group it has what it brought to it.
  if (!together && built()) {
    for (auto& memory : memories_) memory = {.chief = memory.chief};
    remember(notes, replicas_.front()->replica->state().tensors());
  }
  join_group();
}

void Loop::remember_together(const Session::NotesOf& notes) {
  std::map<std::string, Tensor> tensors;
  each("Model::fit()", [&](Replica& replica, size_t local) {
    auto gathered = replica.state().gather_for_checkpoint(/*later=*/false);
    if (local == 0) tensors = std::move(gathered);
  });
  each("Model::fit()", [&](Replica&, size_t local) { replicas_[local]->engine.finish(); });
  for (auto& memory : memories_) memory = {.chief = memory.chief};
  if (first().is_chief()) remember(notes, tensors);
}

std::shared_ptr<const Checkpoint> Loop::memory() const {
  if (memories_.empty() || !memories_.front().whole) return nullptr;
  return memories_.front().state;
}

std::string Loop::save_memory(const std::string& model_dir,
                              const std::map<std::string, std::string>& notes) {
  Checkpoint state = *memory();
  state.notes = notes;
  return writer(model_dir, {.keep_checkpoint_max = 1}).save(std::move(state));
}

void Loop::join_group() {
  for (;;) {
    try {
      return form_group();
    } catch (const Error& error) {
      doing_ = error;
      if (!goes_on_after(error)) {
        if (shown_) shown_->end(&error);
        throw;
      }
      log::warning(fmt::format("{}; {}", error.message(), start_.elastic->describe_next()));
    }
  }
}

void Loop::form_group() {
  for (const auto& known : data_) {
    if (const auto progress = known.lock()) progress->end();
  }
  data_.clear();
  restored_data_ = nullptr;
  threads_.reset();
  replicas_.clear();
  doing_ = Ready();
  start_replicas();
  threads_ = std::make_unique<ReplicaThreads>(replicas_.size());
  fix_model();
  // The members are alike in what they know of earlier calls.
  known_functions_.clear();
  failed_saves_.clear();
  settled_ = true;
  stop_ = false;
  placed_step_ = -1;
  tries_group_ = true;
  memories_.resize(replicas_.size());
  each(kJoining, [&](Replica& replica, size_t local) {
    check_settings(replica);
    check_meeting(replica);
    const bool found =
        muster::internal::continue_from_memory(replicas_[local]->engine, memories_[local]);
    if (local == 0) in_memory_ = found;
  });
  const Engine& engine = first_engine();
  step_ = engine.step();
  restored_ = restored_ || in_memory_;
  restored_data_ = engine.restored_inputs().value("loop", json::array());
  if (!first().is_chief()) return;
  const int workers = first().place().processes;
  log::event("group",
             {{"epoch", start_.elastic->epoch()}, {"workers", workers}, {"global_step", step_}},
             fmt::format("elastic: {} of {} workers train from step {} on: {}", workers,
                         start_.cluster.num_workers, step_, start_.elastic->describe_group()));
}

void Loop::check_meeting(Replica& replica) const {
  const std::vector<std::string> all = replica.group().gather_text("meeting", meeting_);
  if (all.front() == meeting_) return;
  throw invalid_argument(
      fmt::format("not supported: a worker that joins an elastic run with {}, where the others are "
                  "in {}",
                  meeting_, all.front()),
      "workers join in the first fit() of a program: train all epochs in one call; or start all "
      "workers again, with a BackupAndRestore callback");
}

}  // namespace muster::inline v0_1::distribute
