#include "muster/keras/internal/elastic_fit.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/files/file_systems.h"
#include "muster/keras/internal/json_number.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras::internal {

using muster::internal::NextStep;
using nlohmann::json;

bool ElasticFit::begin(const Dataset& data) {
  place_ = {.epoch = options_.initial_epoch};
  if (!has_memory()) return Fit::begin(data);
  held_ = hold();
  take_memory();
  return true;
}

bool ElasticFit::has_memory() const {
  const auto& notes = scope_.restored_notes();
  const auto note = notes.find(kFitNote);
  // Of an earlier fit() it says nothing.
  return impl_.session().in_memory() && note != notes.end() &&
         json::parse(note->second).at("fit") == number_;
}

void ElasticFit::begin_epochs(const Dataset& data, bool resumed) {
  held_.reset();
  Fit::begin_epochs(data, resumed);
  impl_.session().note_place();
  workers_ = static_cast<size_t>(scope_.num_replicas_in_sync()) / scope_.num_local_replicas();
}

bool ElasticFit::train_epoch(int64_t epoch) {
  place_.epoch = epoch;
  return Fit::train_epoch(epoch);
}

BatchResult ElasticFit::next(int64_t epoch) {
  in_batch_ = true;
  BatchResult made = Fit::next(epoch);
  in_batch_ = false;
  return made;
}

void ElasticFit::note_update() {
  place_.step = step_;
  noted_step_ = scope_.step();
  if (impl_.compiled->options.accumulate_steps > 1) noted_tally_ = tally_;
  impl_.session().note_place();
}

void ElasticFit::begin_epoch_end() { held_ = hold(); }

void ElasticFit::note_epoch_end(int64_t epoch, bool last) {
  held_.reset();
  noted_tally_.reset();
  place_ = {.epoch = epoch + 1, .over = last};
  impl_.session().note_place();
}

bool ElasticFit::stop_if_told(int64_t epoch) {
  if (!scope_.should_stop()) return false;
  // While all are here: others may write parts of it.
  settle_backup();
  const NextStep next = impl_.session().agree_on_next();
  if (next == NextStep::kEnd) return Fit::stop_if_told(epoch);
  regroups_ = next == NextStep::kRegroup;
  return regroups_;
}

bool ElasticFit::goes_on_after(const Error& error) const {
  return impl_.session().goes_on_after(error);
}

ElasticFit::Held ElasticFit::hold() const {
  Held held{.history = history_, .rate_factor = impl_.compiled->rate_factor->load()};
  if (!scope_.is_chief()) return held;
  held.callbacks = states_of_callbacks();
  for (const auto& callback : callbacks_) {
    if (auto state = callback->settled_state())
      held.settled.emplace_back(key_of(*callback), std::move(state));
  }
  held.tensors = tensors_of_callbacks();
  return held;
}

void ElasticFit::settle(Held& held) {
  for (const auto& [key, wait] : std::exchange(held.settled, {})) {
    if (json state = wait(); !key.empty() && !state.is_null())
      held.callbacks[key] = std::move(state);
  }
}

std::string ElasticFit::note_of(const Held& held, int64_t step) const {
  Place at = place_;
  // The update was made here, and another replica of this process was lost in it.
  if (step > noted_step_ && noted_step_ >= 0) at.step = step_ + (in_batch_ ? 1 : 0);
  json better = json::object();
  for (const auto& [name, value] : impl_.better) better[name] = static_cast<int>(value);
  return json{{"fit", number_},
              {"epoch", at.epoch},
              {"step", at.step},
              {"over", at.over},
              {"rate_factor", held.rate_factor},
              {"history", {{"epoch", held.history.epoch}, {"history", held.history.history}}},
              {"better", better},
              {"batch", rows_},
              {"loss", tally_of_place().loss_sum()},
              {"rows", tally_of_place().rows()},
              {"begun_by", call_as_json()}}
      .dump();
}

json ElasticFit::call_as_json() const {
  json all = identity();
  for (const auto& [name, value] : plan()) all[name] = value;
  return all;
}

bool ElasticFit::regroup(const Dataset& data) {
  const bool together = std::exchange(regroups_, false);
  // A save of a callback too: its file is there, or is not, before others go on.
  end_backup_after_error();
  if (!held_) held_ = hold();
  settle(*held_);
  lost_ = !together;
  const bool chief = scope_.is_chief();
  try {
    impl_.session().regroup(
        call(number_),
        [&](int64_t step) {
          return std::map<std::string, std::string>{{kFitNote, note_of(*held_, step)}};
        },
        together);
  } catch (...) {
    if (chief && backups_ != nullptr) save_memory();
    throw;
  }
  batch_ = {};
  distributed_.reset();
  in_batch_ = false;
  impl_.note_other_replicas();
  if (!has_memory()) return begin_anew(data);
  take_memory();
  return true;
}

void ElasticFit::save_memory() const {
  const std::shared_ptr<const Checkpoint> state = impl_.session().memory();
  if (!state || state->global_step == saved_) return;
  try {
    const auto told = state->notes.find(kFitNote);
    if (told == state->notes.end()) return;
    json note = json::parse(told->second);
    note.update(chiefs_note(note, {tally_of_place().save_here().dump()}));
    note.erase("saved");
    note["tensors_at"] = state->global_step;
    if (!held_->tensors.empty()) {
      FileSystem& files = file_systems();
      files.make_directories(backups_->backup_dir()).value();
      write_checkpoint(files, tensors_of_callbacks(state->global_step),
                       {.tensors = held_->tensors});
    }
    const std::string prefix =
        impl_.session().save_memory(backups_->backup_dir(), {{kFitNote, note.dump()}});
    log::info(fmt::format("saved {} from memory, because a worker was lost", prefix));
  } catch (...) {
    log::warning(
        fmt::format("the steps since the last backup are lost: {}", current_error().message()));
  }
}

void ElasticFit::take_memory() {
  json note = json::parse(scope_.restored_notes().at(kFitNote));
  const distribute::Session& session = impl_.session();
  const std::vector<std::string> sums = session.gather_text([&] {
    const auto different = differences(call_as_json(), note, /*same_fit=*/true);
    if (!different.empty()) {
      throw invalid_argument(
          fmt::format("fit: this worker joins an elastic run that was called in another way: {}",
                      join(different, "; ")),
          "start every worker with the same program and the same flags");
    }
    // A worker that joins has counted nothing.
    return workers_ == 0 ? std::string() : tally_of_place().save_here().dump();
  });
  const std::vector<std::string> chiefs = session.gather_text(
      [&] { return scope_.is_chief() ? chiefs_note(note, sums).dump() : std::string(); });
  note.update(json::parse(chiefs.front()));
  memory_ = std::move(note);
  if (!impl_.has_trained()) impl_.prepare_to_train();
  for (const auto& [name, value] : memory_.at("better").items())
    impl_.better[name] = static_cast<Better>(value.get<int>());
  found_fit_ = number_;
  reset();
  place_ = {.epoch = memory_.at("epoch").get<int64_t>(),
            .step = memory_.at("step").get<int64_t>(),
            .over = memory_.at("over").get<bool>()};
  noted_step_ = scope_.step();
}

json ElasticFit::chiefs_note(const json& note, const std::vector<std::string>& sums) const {
  std::vector<json> of_processes;
  for (const std::string& text : sums) {
    if (!text.empty()) of_processes.push_back(json::parse(text));
  }
  const auto step = note.at("step").get<int64_t>();
  const bool has_metrics = !impl_.compiled->objective.metric_names().empty();
  if (lost_ && has_metrics && step > 0 && of_processes.size() < workers_) {
    log::warning(fmt::format(
        "the metrics of epoch {} are without the examples that a lost worker had counted; its loss "
        "is that of all examples",
        note.at("epoch").get<int64_t>() + 1));
  }
  json chiefs{{"callbacks", held_->callbacks},
              {"tensors_at", tensors_at_},
              {"saved", saved_},
              {"made_folders", made_folders_}};
  if (step > 0) {
    chiefs["tally"] = tally_of_place().save_all(of_processes, json_number(note.at("loss")),
                                                note.at("rows").get<int64_t>());
  }
  return chiefs;
}

void ElasticFit::reset() {
  first_epoch_ = options_.initial_epoch;
  history_ = {};
  tally_ = Tally(impl_.compiled->objective.metric_names());
  noted_tally_.reset();
  step_ = waiting_ = 0;
  fresh_ = over_ = false;
  begun_.reset();
}

bool ElasticFit::begin_anew(const Dataset& data) {
  memory_ = nullptr;
  found_fit_ = saved_ = tensors_at_ = noted_step_ = -1;
  reset();
  if (number_ == 0) impl_.forget_training();
  return begin(data);
}

json ElasticFit::note_to_resume() const {
  return memory_.is_null() ? Fit::note_to_resume() : memory_;
}

std::map<std::string, Tensor> ElasticFit::tensors_to_resume() {
  return memory_.is_null() ? Fit::tensors_to_resume() : held_->tensors;
}

}  // namespace muster::inline v0_1::keras::internal
