#include <fmt/args.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/internal/json_number.h"
#include "muster/keras/internal/model_files.h"
#include "muster/keras/model.h"
#include "muster/train/failed_saves.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1::keras {

ModelCheckpoint::ModelCheckpoint(std::string path, ModelCheckpointOptions options)
    : path_(std::move(path)),
      options_(std::move(options)),
      monitor_("ModelCheckpoint", options_.monitor, options_.mode),
      failures_(std::make_unique<FailedSaves>(most_failed_saves(options_.max_failed_saves, path_),
                                              "ModelCheckpointOptions.max_failed_saves")) {
  if (path_.empty()) throw invalid_argument("ModelCheckpoint: the path is empty", "name one");
  if (options_.save_weights_only && !path_.ends_with(".safetensors")) {
    throw invalid_argument(
        fmt::format("ModelCheckpoint: the path '{}' does not end in .safetensors", path_),
        "save_weights_only writes such a file");
  }
  if (options_.save_freq && *options_.save_freq < 1) {
    throw invalid_argument(fmt::format("ModelCheckpoint: save_freq is {}; it must be at least 1",
                                       *options_.save_freq));
  }
  if (options_.save_freq && options_.save_best_only) {
    throw invalid_argument("ModelCheckpoint: both save_freq and save_best_only are set",
                           "the best value is known only after an epoch: do not set save_freq");
  }
  check_max_failed_saves(options_.max_failed_saves, "ModelCheckpointOptions.max_failed_saves");
  if (options_.initial_value_threshold) monitor_.set_best(*options_.initial_value_threshold);
}

// A save that a thread writes; and where the callback is if it fails.
struct ModelCheckpoint::Aside {
  internal::FileAside file{};
  std::optional<Monitor> before{};
  Unsaved unsaved{};
};

ModelCheckpoint::~ModelCheckpoint() { (void)end_save(); }

void ModelCheckpoint::on_train_begin(const FitInfo& info) {
  if (aside_ && aside_->file.step && !internal::agree_on_written(model(), end_save())) take_back();
  aside_.reset();
  if (options_.asynchronous.value_or(!info.files_may_be_read)) aside_ = std::make_unique<Aside>();
}

void ModelCheckpoint::on_train_batch_end(const BatchInfo& info) {
  if (options_.save_best_only) monitor_.learn(model());
  if (options_.save_freq && model().step() % *options_.save_freq == 0)
    (void)save(info.logs(), /*must=*/false, monitor_);
}

void ModelCheckpoint::on_epoch_end(int64_t epoch, Logs& logs) {
  epoch_ = epoch;
  if (options_.save_freq) return;
  if (!options_.save_best_only) {
    (void)save(logs, /*must=*/false, monitor_);
    return;
  }
  const std::optional<double> value = monitor_.value(logs);
  if (!value) return;
  monitor_.learn(model(), /*there=*/true);
  settle();  // one that failed is not the best
  if (!monitor_.is_better(*value)) return;
  if (model().is_chief()) {
    log::info(fmt::format("{} improved from {} to {}: saving the model", options_.monitor,
                          value_text(monitor_.best()), value_text(*value)));
  }
  const Monitor before = monitor_;
  monitor_.set_best(*value);
  // An epoch that could not be saved is not the best.
  if (!save(logs, /*must=*/false, before)) monitor_ = before;
}

void ModelCheckpoint::on_train_end(const Logs& /*logs*/) {
  settle();
  // A run that had nothing to train may not even know its weights.
  if (unsaved_ && model().built()) {
    const Unsaved last = *std::exchange(unsaved_, std::nullopt);
    // The weights of an epoch before the last are gone.
    if (!options_.save_best_only || last.epoch == epoch_) {
      (void)save(last.logs, /*must=*/true, monitor_);
      const auto value = options_.save_best_only ? monitor_.value(last.logs) : std::nullopt;
      if (value) monitor_.set_best(*value);
    }
  }
  aside_.reset();
}

void ModelCheckpoint::settle() {
  if (!aside_ || !aside_->file.step) return;
  const bool saved =
      internal::settle_file(model(), aside_->file, *failures_,
                            fmt::format("ModelCheckpoint('{}') at step {}", path_, model().step()));
  if (!saved) take_back();
}

void ModelCheckpoint::take_back() {
  monitor_ = *aside_->before;
  unsaved_ = aside_->unsaved;
}

bool ModelCheckpoint::end_save() {
  if (!aside_ || !aside_->file.written.valid()) return true;
  try {
    (void)aside_->file.written.get();
  } catch (...) {  // the destructor calls it
    const Error error = current_error();
    // fit() itself has logged an error that would have ended it.
    if (failures_->patient()) {
      log::warning(fmt::format("ModelCheckpoint('{}'): {}; fit() ended before it could retry; {}",
                               path_, error.message(), error.hint()));
    }
    return false;
  }
  return true;
}

bool ModelCheckpoint::save(const Logs& logs, bool must, const Monitor& before) {
  settle();
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  arguments.push_back(fmt::arg("epoch", epoch_ + 1));
  std::vector<std::string> names{"epoch"};
  for (const auto& [name, value] : logs) {
    arguments.push_back(fmt::arg(name.c_str(), value));
    names.push_back(name);
  }
  std::string path;
  try {
    path = fmt::vformat(path_, arguments);
  } catch (const fmt::format_error& error) {
    throw invalid_argument(
        fmt::format("ModelCheckpoint: the path '{}' cannot be filled in: {}", path_, error.what()),
        "there are " + join_quoted(names) + ", with formats such as {epoch:02d} and {loss:.3f}");
  }
  const auto write = options_.save_weights_only ? internal::save_weights : internal::save_model;
  // The first one shows that it can be written.
  must = must || !has_saved_;
  const bool saved = write(model(), path,
                           {.failures = failures_.get(),
                            .must = must,
                            .aside = aside_ ? &aside_->file : nullptr,
                            .waits = must || !aside_});
  has_saved_ = true;
  unsaved_.reset();
  if (!saved) unsaved_ = {epoch_, logs};
  if (aside_ && aside_->file.step) {
    aside_->before = before;
    aside_->unsaved = {epoch_, logs};
  }
  return saved;
}

nlohmann::json ModelCheckpoint::state() const { return state_of(monitor_, unsaved_); }

nlohmann::json ModelCheckpoint::state_of(const Monitor& monitor,
                                         const std::optional<Unsaved>& unsaved) {
  nlohmann::json state;
  // JSON has no infinity: nothing was saved yet.
  if (std::isfinite(monitor.best())) state["best"] = monitor.best();
  if (unsaved) state["unsaved"] = {{"epoch", unsaved->epoch}, {"logs", unsaved->logs}};
  return state;
}

std::function<nlohmann::json()> ModelCheckpoint::settled_state() const {
  if (!aside_ || !aside_->file.written.valid()) return nullptr;
  return [written = aside_->file.written, saved = state(),
          failed = state_of(*aside_->before, aside_->unsaved), may_fail = failures_->patient()] {
    try {
      (void)written.get();
    } catch (const Error&) {
      if (!may_fail) throw;
      return failed;
    }
    return saved;
  };
}

void ModelCheckpoint::restore(const nlohmann::json& state) {
  if (state.contains("best")) monitor_.set_best(state.at("best").get<double>());
  unsaved_.reset();
  if (!state.contains("unsaved")) return;
  epoch_ = state.at("unsaved").at("epoch").get<int64_t>();
  unsaved_ = {epoch_, {}};
  for (const auto& [name, value] : state.at("unsaved").at("logs").items())
    unsaved_->logs[name] = internal::json_number(value);
}

}  // namespace muster::inline v0_1::keras
