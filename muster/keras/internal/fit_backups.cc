// Backups of fit(): where they go, what they hold, and which run they are of.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/checkpoint/manager.h"
#include "muster/checkpoint/read_tensors.h"
#include "muster/command/job_dir.h"
#include "muster/files/file_systems.h"
#include "muster/keras/internal/fit.h"
#include "muster/keras/internal/json_number.h"
#include "muster/loop/replica_context.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras::internal {

using distribute::ReplicaContext;
using nlohmann::json;

namespace {

// What every fit() of a program has in common.
bool is_of_program(const std::string& key) {
  return key == "the job's directory" || key == "the model's name" || key == "the seed" ||
         key == "the layers";
}

// A list of files may be long; a digest stands for what is cut off.
std::string shortened_data(const std::string& text) {
  constexpr size_t kMost = 2000;
  if (text.size() <= kMost) return text;
  return fmt::format("{}... (crc32c {:08x})", text.substr(0, kMost), crc32c(bytes_of(text)));
}

// Between a callback's name and those of its tensors; no name of a variable has it.
const char* const kOfCallback = "//";

}  // namespace

void Fit::make_own_backups() {
  const std::string job = command::job_dir();
  if (!job.empty()) {
    backups_ = std::make_shared<BackupAndRestore>(join_path(job, "backup-" + impl_.backup_name()));
    if (!model_.is_chief()) return;
    log::info(
        fmt::format("writing backups to {}, so that the same command can continue a stopped run; "
                    "for another folder give fit() a BackupAndRestore",
                    backups_->backup_dir()));
    return;
  }
  // The code that needs one reports it after the other checks.
  if (impl_.served() || !model_.is_chief()) return;
  log::info(
      "fit() writes no backups, because this job has no folder: a stopped run will start from the "
      "beginning; give fit() a BackupAndRestore(folder), or give the program --model_dir or "
      "--job-dir");
}

std::string Fit::key_of(const Callback& callback) const {
  const std::string name = callback.name();
  if (name.empty()) return name;
  int64_t number = 1;
  for (const auto& other : callbacks_) {
    if (other.get() == &callback) break;
    if (other->name() == name) ++number;
  }
  return number == 1 ? name : fmt::format("{} #{}", name, number);
}

json Fit::identity() const {
  json all{{"the job's directory", std::string(without_trailing_slashes(command::job_dir()))},
           {"the model's name", impl_.options.name},
           {"the seed", std::to_string(impl_.options.seed)},
           {"the optimizer", impl_.compiled->base.describe()},
           {"the losses and metrics", impl_.compiled->objective.describe()},
           {"accumulate_steps", std::to_string(impl_.compiled->options.accumulate_steps)},
           {"mixed_precision", impl_.compiled->options.mixed_precision},
           {"the data", shortened_data(data_)},
           {"steps_per_epoch",
            options_.steps_per_epoch ? std::to_string(*options_.steps_per_epoch) : "unset"},
           {"initial_epoch", std::to_string(options_.initial_epoch)},
           {"class_weight", fmt::format("[{}]", fmt::join(options_.class_weight, ", "))}};
  // Where the layers are known before they are called.
  if (const auto graph = model_.graph()) {
    std::string layers;
    for (const auto& node : graph->nodes) {
      layers += fmt::format("{} {} {};", node.op, node.name, node.parameters);
      for (const auto& shape : node.output_shapes)
        layers += fmt::format("[{}]", fmt::join(shape, ","));
    }
    all["the layers"] = std::move(layers);
  }
  return all;
}

distribute::Settings Fit::plan() const {
  const auto text = [](const std::optional<int64_t>& value) {
    return value ? std::to_string(*value) : "unset";
  };
  std::string backups = "none";
  if (backups_ != nullptr) {
    const auto steps = backups_->options().save_freq;
    backups = steps ? fmt::format("every {} steps", *steps) : "after each epoch";
  }
  distribute::Settings plan{{"epochs", std::to_string(options_.epochs)},
                            {"validation_data", options_.validation_data ? "set" : "unset"},
                            {"validation_steps", text(options_.validation_steps)},
                            {"validation_freq", std::to_string(options_.validation_freq)},
                            {"backups", backups}};
  const json run = identity();
  for (const char* name :
       {"the losses and metrics", "steps_per_epoch", "initial_epoch", "class_weight"})
    plan.emplace_back(name, run.at(name).get<std::string>());
  return plan;
}

std::vector<std::string> Fit::differences(const json& now, const json& note, bool same_fit) {
  const json then = note.value("begun_by", json::object());
  std::vector<std::string> differences;
  const auto text_in = [](const json& object, const std::string& key) {
    constexpr size_t kShown = 200;
    if (!object.contains(key)) return std::string("not recorded");
    const auto text = object.at(key).get<std::string>();
    if (text.empty()) return std::string("none");
    return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
  };
  for (const auto& [key, value] : now.items()) {
    if ((then.contains(key) && then.at(key) == value) || (!same_fit && !is_of_program(key)))
      continue;
    const std::string was = text_in(then, key), is = text_in(now, key);
    differences.push_back(was == is ? key + " differs"
                                    : fmt::format("{}: {}, and was {}", key, is, was));
  }
  return differences;
}

void Fit::check_begun_alike(const std::string& note, bool same_fit) const {
  const std::vector<std::string> differences =
      Fit::differences(identity(), json::parse(note), same_fit);
  if (differences.empty()) return;
  throw invalid_argument(fmt::format("fit: the backup in {} is of another run than this one: {}",
                                     backups_->backup_dir(), join(differences, "; ")),
                         fmt::format("to continue, call fit() as that run did; or give this run "
                                     "another folder (--model_dir, --job-dir or BackupAndRestore); "
                                     "or remove {}. To use only its weights: load_weights(\"{}\")",
                                     backups_->backup_dir(), backups_->backup_dir()));
}

Error Fit::no_backup(const std::string& found) {
  return invalid_argument(fmt::format("fit: {} in the backup_dir is not a backup of fit()", found),
                          "give BackupAndRestore its own folder");
}

bool Fit::find_backup() {
  if (backups_ == nullptr || impl_.has_trained()) return false;
  found_fit_ = from_chief([&]() -> json {
                 const auto loaded = CheckpointManager(backups_->backup_dir()).load_latest();
                 if (!loaded) return -1;
                 const auto note = loaded->checkpoint.notes.find(kFitNote);
                 if (note == loaded->checkpoint.notes.end()) throw no_backup(loaded->prefix);
                 const auto found = json::parse(note->second).at("fit").get<int64_t>();
                 // Of a later fit() its own call says whether the rest is the same.
                 if (found >= number_)
                   check_begun_alike(note->second, /*same_fit=*/found == number_);
                 return found;
               }).get<int64_t>();
  if (found_fit_ == number_) scope_.restore(backups_->backup_dir());
  return found_fit_ >= 0;
}

void Fit::begin_backups() {
  if (backups_ == nullptr || over_ || impl_.session().in_memory()) return;
  made_folders_ = from_chief([&]() -> json {
                    note_missing_folders();
                    try {
                      impl_.session().begin_saving(backups_->backup_dir());
                    } catch (const Error& error) {
                      throw error.with_context(fmt::format(
                          "fit: cannot write backups to backup_dir '{}'", backups_->backup_dir()));
                    }
                    return made_folders_;
                  }).get<std::vector<std::string>>();
}

json Fit::note_to_resume() const { return json::parse(restored_notes().at(kFitNote)); }

std::map<std::string, Tensor> Fit::tensors_to_resume() {
  const std::string beside = tensors_of_callbacks(tensors_at_);
  if (!scope_.is_chief() || !file_systems().exists(beside).value()) return {};
  return read_tensors(file_systems(), beside);
}

void Fit::resume() {
  const json note = note_to_resume();
  first_epoch_ = note.at("epoch").get<int64_t>();
  step_ = note.at("step").get<int64_t>();
  const int64_t told_epoch = first_epoch_;
  take_place(note);
  if (first_epoch_ >= options_.epochs && step_ > 0) {
    throw invalid_argument(
        fmt::format("fit: the backup in {} is in epoch {}, but epochs is {}",
                    backups_->backup_dir(), first_epoch_ + 1, options_.epochs),
        "continue with at least as many epochs as the stopped run; or remove the backup");
  }
  over_ = note.value("over", false);
  // An epoch that is continued at its end makes no step in which the model would be built.
  rows_ = note.value("batch", std::string());
  if (!rows_.empty()) impl_.build_to_train(to_batch(zero_rows(rows_)));
  saved_ = note.value("saved", impl_.step());
  made_folders_ = note.value("made_folders", made_folders_);
  impl_.compiled->rate_factor->store(note.at("rate_factor").get<double>());
  history_.epoch = note.at("history").at("epoch").get<std::vector<int64_t>>();
  for (const auto& [name, values] : note.at("history").at("history").items()) {
    for (const json& value : values) history_.history[name].push_back(json_number(value));
  }
  if (note.contains("tally") && first_epoch_ == told_epoch) {
    const bool first = impl_.strategy().run({.training = false}, [] {
      return ReplicaContext::current().replica_id();
    })[0] == 0;
    tally_.restore(note.at("tally"), first);
  }
  tell([&](Callback& callback) {
    const std::string key = key_of(callback);
    if (key.empty() || !note.at("callbacks").contains(key)) return;
    callback.restore(note.at("callbacks").at(key));
  });
  tensors_at_ = note.value("tensors_at", impl_.step());
  if (const auto tensors = tensors_to_resume(); !tensors.empty()) {
    tell([&](Callback& callback) {
      std::map<std::string, Tensor> own;
      const std::string prefix = key_of(callback) + kOfCallback;
      for (const auto& [name, tensor] : tensors) {
        if (prefix != kOfCallback && name.starts_with(prefix))
          own[name.substr(prefix.size())] = tensor;
      }
      if (!own.empty()) callback.restore_tensors(own);
    });
  }
  if (!scope_.is_chief() || over_) return;
  if (first_epoch_ >= options_.epochs) {
    log::info(fmt::format("fit has nothing to train: {} is a backup after epoch {}, epochs is {}",
                          backups_->backup_dir(), first_epoch_, options_.epochs));
  } else {
    const std::string place = step_ == 0        ? ""
                              : step_ == steps_ ? "the end of "
                                                : fmt::format("step {} of ", step_ + 1);
    log::info(
        fmt::format("fit continues at {}epoch {} of {}", place, first_epoch_ + 1, options_.epochs));
  }
}

std::string Fit::tensors_of_callbacks(int64_t step) const {
  return join_path(backups_->backup_dir(), fmt::format("callbacks-{}.safetensors", step));
}

std::string Fit::note(int64_t epoch, int64_t step) const {
  json note{{"fit", number_},
            {"epoch", epoch},
            {"step", step},
            {"began", epoch_began()},
            {"rate_factor", impl_.compiled->rate_factor->load()},
            {"history", {{"epoch", history_.epoch}, {"history", history_.history}}},
            {"tensors_at", tensors_at_},
            {"begun_by", identity()},
            {"made_folders", made_folders_},
            {"batch", rows_},
            {"callbacks", states_of_callbacks()}};
  if (step > 0) note["tally"] = tally_.save(impl_.strategy());
  return note.dump();
}

json Fit::states_of_callbacks() const {
  json states = json::object();
  for (const auto& callback : callbacks_) {
    const std::string key = key_of(*callback);
    if (json state = callback->state(); !key.empty() && !state.is_null())
      states[key] = std::move(state);
  }
  return states;
}

std::map<std::string, Tensor> Fit::tensors_of_callbacks() const {
  std::map<std::string, Tensor> tensors;
  for (const auto& callback : callbacks_) {
    for (const auto& [name, tensor] : callback->tensors())
      tensors[key_of(*callback) + kOfCallback + name] = tensor.detach().clone();
  }
  return tensors;
}

// What it returns is called before the backup is written, so that one that is there has all it
// needs. Callbacks may change their tensors meanwhile.
BeforeSave Fit::before_backup() const {
  if (!model_.is_chief()) return nullptr;
  std::map<std::string, Tensor> tensors = tensors_of_callbacks();
  std::vector<std::pair<std::string, std::function<json()>>> settled;  // by key_of()
  for (const auto& callback : callbacks_) {
    if (auto state = callback->settled_state())
      settled.emplace_back(key_of(*callback), std::move(state));
  }
  if (tensors.empty() && settled.empty()) return nullptr;
  return [tensors = std::move(tensors), settled = std::move(settled),
          folder = backups_->backup_dir(), path = tensors_of_callbacks(tensors_at_)](auto& notes) {
    for (const auto& [key, wait] : settled) {
      json note = json::parse(notes.at(kFitNote));
      const json state = wait();
      if (key.empty() || state.is_null()) continue;
      note["callbacks"][key] = state;
      notes[kFitNote] = note.dump();
    }
    if (tensors.empty()) return;
    FileSystem& files = file_systems();
    files.make_directories(folder).value();
    write_checkpoint(files, path, {.tensors = tensors});
  };
}

void Fit::await_callbacks() const {
  for (const auto& callback : callbacks_) {
    if (const auto wait = callback->settled_state()) (void)wait();
  }
}

void Fit::backup(int64_t epoch, int64_t step, bool must) {
  settle_backup();
  if (saved_ == impl_.step() && step > 0) return;
  const int64_t may_fail =
      must || saved_ < 0
          ? 0
          : most_failed_saves(backups_->options().max_failed_saves, backups_->backup_dir());
  if (saved_ < 0) note_missing_folders();
  begun_ = {.step = impl_.step(), .tensors_before = std::exchange(tensors_at_, impl_.step())};
  if (const auto saved = save(epoch, step, may_fail, must)) note_backup(*saved);
}

void Fit::note_backup(bool saved) {
  const Begun begun = *std::exchange(begun_, std::nullopt);
  // The backup before is the good one where this one failed, and so are its tensors; unless this
  // one is there anyway, where only an answer got lost.
  const int64_t gone =
      saved ? begun.tensors_before : std::exchange(tensors_at_, begun.tensors_before);
  if (scope_.is_chief() && gone >= 0 && gone != tensors_at_ &&
      (saved || !backup_may_be_there(gone)))
    (void)file_systems().remove(tensors_of_callbacks(gone));
  if (saved) saved_ = begun.step;
}

void Fit::settle_backup() {
  if (begun_) note_backup(settle_save());
}

void Fit::end_backup_after_error() {
  if (begun_) note_backup(await_save());
}

bool Fit::settle_save() { return impl_.session().settle_save(); }

bool Fit::await_save() noexcept { return impl_.session().await_save(); }

std::optional<bool> Fit::save(int64_t epoch, int64_t step, int64_t may_fail, bool must) {
  return impl_.session().save(backups_->backup_dir(),
                              {.keep_checkpoint_max = 1,
                               .notes = {{kFitNote, note(epoch, step)}},
                               .max_failed_saves = may_fail,
                               .asynchronous = backups_->options().asynchronous && !must},
                              before_backup());
}

const std::map<std::string, std::string>& Fit::restored_notes() const {
  return scope_.restored_notes();
}

void Fit::end_saving() { scope_.end_saving(backups_->backup_dir()); }

bool Fit::backup_may_be_there(int64_t step) const {
  try {
    const auto latest = CheckpointManager(backups_->backup_dir()).latest();
    return latest && latest->ends_with(fmt::format("-{}", step));
  } catch (const Error&) {
    return true;
  }
}

void Fit::note_missing_folders() {
  const std::string& folder = backups_->backup_dir();
  if (!scope_.is_chief() || is_remote(folder) || !made_folders_.empty()) return;
  FileSystem& files = file_systems();
  for (std::string around = directory_of(folder); !around.empty() && around != ".";) {
    const Result<bool> there = files.exists(around);
    if (!there.ok() || there.value()) break;
    made_folders_.insert(made_folders_.begin(), around);
    const std::string next = directory_of(around);
    if (next == around) break;
    around = next;
  }
}

void Fit::end_backups() {
  if (backups_ == nullptr) return;
  end_saving();
  if (!backups_->options().delete_checkpoint || !scope_.is_chief()) return;
  FileSystem& files = file_systems();
  const Result<bool> there = files.exists(backups_->backup_dir());
  if (there.ok() && !there.value()) return;
  if (const Status removed = files.remove_tree(backups_->backup_dir()); !removed.ok()) {
    log::warning(
        fmt::format("cannot remove the backup of a finished fit(): {}", removed.error().message()));
    return;
  }
  // Nor do the folders stay that were made for it, where nothing else came into them.
  for (auto around = made_folders_.rbegin(); around != made_folders_.rend(); ++around) {
    const auto inside = files.list_directory(*around);
    if (!inside.ok() || !inside.value().empty()) break;
    if (!files.remove_tree(*around).ok()) break;
  }
}

}  // namespace muster::inline v0_1::keras::internal
