// Checkpoints of loops written by hand, and the data sets whose position they hold.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/foreign_error.h"
#include "muster/base/local_path.h"
#include "muster/base/log.h"
#include "muster/base/uri.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/elastic_run.h"
#include "muster/files/file_systems.h"
#include "muster/loop/internal/data_progress.h"
#include "muster/loop/internal/loop.h"
#include "muster/loop/internal/served_positions.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

namespace {

// Where another process makes another call, this says so at once; the call itself would wait for
// it.
void meet_others(Replica& replica, const std::string& verb, const Settings& settings) {
  try {
    check_same(replica, settings);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    // Others get no more than the message.
    throw error.with_detail("Scope::" + verb + "(), which every process calls, met another call");
  }
}

}  // namespace

std::string Loop::key_of(const std::string& model_dir) {
  if (is_remote(model_dir)) return std::string(without_trailing_slashes(model_dir));
  namespace fs = std::filesystem;
  const fs::path path = fs::weakly_canonical(fs::absolute(local_path(model_dir).value()));
  return path.has_filename() ? path.string() : path.parent_path().string();
}

DistributedDataset Loop::distribute(const Dataset& dataset, bool for_this_process) {
  auto progress = std::make_shared<DistributedDataset::Progress>();
  std::erase_if(data_, [](const auto& known) { return known.expired(); });
  const size_t number = data_.size();
  data_.push_back(progress);
  // Each position belongs to one data set: one that is distributed later in its place begins again.
  if (number < restored_data_.size() && !restored_data_[number].is_null())
    progress->restore(std::exchange(restored_data_[number], nullptr));
  return DistributedDataset(shared_from_this(),
                            elastic() && !for_this_process ? divide_rows(dataset) : dataset,
                            for_this_process, std::move(progress));
}

void Loop::give_back(const DistributedDataset::Progress& from, json state) {
  std::erase_if(data_, [](const auto& known) { return known.expired(); });
  for (size_t d = 0; d < data_.size() && d < restored_data_.size(); ++d) {
    if (data_[d].lock().get() == &from) restored_data_[d] = std::move(state);
  }
}

CheckpointWriter& Loop::writer(const std::string& model_dir,
                               const CheckpointManagerOptions& options) {
  const std::string key = key_of(model_dir);
  if (const auto known = writers_.find(key); known != writers_.end()) {
    known->second.set_options(options);
    return known->second;
  }
  CheckpointWriter& writer =
      writers_.try_emplace(key, model_dir, options, cancelled_).first->second;
  const auto seen = seen_.find(key);
  if (seen == seen_.end()) return writer;
  // Reading takes no lock, so that checkpoints can be evaluated while others train. A program that
  // saves must not overwrite the steps of another one that trained in between.
  for (const std::string& prefix : writer.all()) {
    if (seen->second.contains(std::string(base_name(prefix)))) continue;
    writers_.erase(key);
    throw Error(ErrorKind::kUnavailable,
                fmt::format("another program saved {} in model_dir '{}' since restore() looked "
                            "there; nothing was saved at step {}",
                            base_name(prefix), model_dir, step_),
                "start again: restore() continues from there; or give this run its own model_dir");
  }
  return writer;
}

Saved Loop::save(const std::string& model_dir, const SaveOptions& options,
                 const BeforeSave& beside) {
  (void)first();
  if (!built()) {
    throw invalid_argument("save() was called before anything was trained",
                           "save after a run() that called minimize()");
  }
  if (const int64_t waiting = first().accumulated(); waiting > 0) {
    throw invalid_argument(
        fmt::format("save() was called where {} of {} batches wait for their update", waiting,
                    first().accumulate_steps()),
        "save when step() has changed, or call apply_accumulated() before");
  }
  check_max_failed_saves(options.max_failed_saves, "SaveOptions.max_failed_saves");
  const std::string key = key_of(model_dir);
  const bool is_first = !failed_saves_.contains(key), must = is_first || should_stop();
  const bool patient = options.max_failed_saves > 0 && !must;
  const bool aside = options.asynchronous && !must;
  FailedSaves& failures =
      failed_saves_.try_emplace(key, 0, "SaveOptions.max_failed_saves").first->second;
  int64_t epoch = 0;  // of the first data set
  for (const auto& known : data_) {
    const auto progress = known.lock();
    if (!progress) continue;
    epoch = progress->completed;
    break;
  }
  // Before anything that waits for the others' texts, as positions do.
  each("Scope::save()", [&](Replica& replica, size_t) {
    meet_others(replica, "save",
                {{"the step to save", std::to_string(step_)},
                 {"the first save to its model_dir", is_first ? "yes" : "no"},
                 {"SaveOptions.max_failed_saves", std::to_string(options.max_failed_saves)},
                 {"SaveOptions.asynchronous", options.asynchronous ? "set" : "unset"}});
  });
  (void)settle_save();
  failures.set_limit(options.max_failed_saves);
  const json positions = inputs_to_save();
  Saved made;
  each("Scope::save()", [&](Replica& replica, size_t local) {
    const Saved mine = replicas_[local]->engine.save(
        {.inputs = [&] { return positions; },
         .epoch = epoch,
         .notes = [&] { return options.notes; },
         .beside = beside,
         .writer = [&]() -> CheckpointWriter& {
           return writer(model_dir, {.keep_checkpoint_max = options.keep_checkpoint_max});
         },
         .saved =
             [this](const std::string& written) {
               if (summary_hook_ != nullptr)
                 summary_hook_->after_save(checkpoint_step(written), written);
             },
         .model_dir = model_dir,
         .way = {.may_fail = patient ? &failures : nullptr,
                 .aside = aside ? &replicas_[local]->pending : nullptr,
                 .prepares = options.asynchronous && !aside && !should_stop()}});
    if (local == 0) made = mine;
    replica.group().report(Phase::kEvaluating, step_);
  });
  // Others have gone on until the save.
  step_ = replicas_.front()->engine.step();
  if (aside) {
    pending_step_ = step_;
  } else if (made.saved) {
    saved_step_ = step_;
  }
  return made;
}

bool Loop::settle_save() {
  if (!is_saving()) return settled_;
  each("Scope::save()", [&](Replica& replica, size_t local) {
    replica.group().report(Phase::kSaving, step_);
    const auto mine =
        replicas_[local]->pending.settle(replica, fmt::format("the loop, after step {},", step_));
    if (local == 0) settled_ = mine.value_or(true);
    replica.group().report(Phase::kEvaluating, step_);
  });
  if (settled_) saved_step_ = pending_step_;
  return settled_;
}

bool Loop::is_saving() const { return !replicas_.empty() && replicas_.front()->pending.any(); }

bool Loop::await_save() noexcept {
  if (!is_saving()) return false;
  bool saved = false;
  try {
    for (const auto& member : replicas_) saved |= !member->pending.await().empty();
  } catch (...) {
    log::warning(current_error().message());
  }
  return saved;
}

void Loop::end_saving(const std::string& model_dir) {
  (void)settle_save();
  writers_.erase(key_of(model_dir));
  seen_.erase(key_of(model_dir));
}

json Loop::positions_of_data() const {
  json data = json::array();
  for (const auto& known : data_) {
    if (const auto progress = known.lock()) data.push_back(progress->save());
  }
  return data;
}

void Loop::take_positions(const std::string& position) {
  restored_data_ = data_of(position);
  std::erase_if(data_, [](const auto& known) { return known.expired(); });
  for (size_t d = 0; d < data_.size() && d < restored_data_.size(); ++d)
    data_[d].lock()->restore(std::exchange(restored_data_[d], nullptr));
}

json Loop::inputs_to_save() const { return {{"loop", positions_of_data()}}; }

void Loop::take_restored_inputs() {
  take_positions(to_position(first_engine().restored_inputs().value("loop", json::array())));
}

bool Loop::restore(const std::string& model_dir) {
  if (built()) {
    throw invalid_argument(fmt::format("restore() was called after {} steps", step_),
                           "restore before the first run() that trains");
  }
  bool found = false;
  each("Scope::restore()", [&](Replica& replica, size_t local) {
    meet_others(replica, "restore", {{"restore()", "called"}});
    const CheckpointManager checkpoints(model_dir);
    if (replica.is_chief()) {
      std::set<std::string>& seen = seen_[key_of(model_dir)];
      seen.clear();
      for (const std::string& prefix : checkpoints.all()) seen.emplace(base_name(prefix));
    }
    const bool mine = replicas_[local]->engine.find_checkpoint(checkpoints);
    if (local == 0) found = mine;
  });
  if (!found) return false;
  const Engine& engine = first_engine();
  step_ = engine.step();
  take_restored_inputs();
  if (first().is_chief()) {
    log::event("restored", {{"checkpoint", engine.restored_from()}, {"global_step", step_}},
               fmt::format("restored {}: continuing after step {}", engine.restored_from(), step_));
  }
  restored_ = true;
  for (const auto& member : replicas_) member->restored = 0;
  return true;
}

void Loop::warm_start(const WarmStartSettings& settings) {
  if (built()) {
    throw invalid_argument(fmt::format("warm_start() was called after {} steps", step_),
                           "call it before the first run() that trains");
  }
  if (warm_start_) {
    throw invalid_argument(fmt::format("warm_start() was called with '{}', and before with '{}'",
                                       settings.ckpt_to_initialize_from, *warm_start_),
                           "call it once; a run begins with the weights of one checkpoint");
  }
  settings.validate();
  warm_start_ = settings.ckpt_to_initialize_from;
  for (const auto& member : replicas_) member->engine.warm_start(settings, file_systems());
}

bool Loop::restore_variables(Member& member) {
  torch::NoGradGuard no_grad;
  const auto& variables = member.replica->variables().variables();
  std::vector<Tensor> values;
  for (; member.restored < variables.size(); ++member.restored) {
    const Tensor value = variables[member.restored]->value().detach();
    if (member.replica->is_chief()) {
      const std::string& name = variables[member.restored]->name();
      const Tensor found = member.engine.found(name);
      if (found.defined() && found.sizes() == value.sizes() &&
          found.scalar_type() == value.scalar_type()) {
        Tensor(value).copy_(found);
      } else if (!member.engine.continues_in_part()) {
        throw invalid_argument(
            fmt::format("{} holds {} for the variable {}", member.engine.restored_from(),
                        found.defined() ? describe(found) : "nothing",
                        variables[member.restored]->spec().describe()),
            "evaluate with the model that was trained, or without restore()");
      }
    }
    values.push_back(variables[member.restored]->value());
  }
  if (values.empty()) return false;
  member.replica->exchange().broadcast(values);
  return true;
}

}  // namespace muster::inline v0_1::distribute
