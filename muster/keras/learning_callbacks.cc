// Callbacks that change how a model learns, or end it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/model.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1::keras {
namespace {

using nlohmann::json;

void check_not_negative(const char* whose, const char* field, double value) {
  if (value >= 0) return;
  throw invalid_argument(fmt::format("{}: {} is {}; it must be 0 or more", whose, field, value));
}

// JSON has no infinity: null means that there is no value yet.
json finite_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
void restore_best(Monitor& monitor, const json& best) {
  if (!best.is_null()) monitor.set_best(best.get<double>());
}

}  // namespace

EarlyStopping::EarlyStopping(EarlyStoppingOptions options)
    : options_(std::move(options)),
      monitor_("EarlyStopping", options_.monitor, options_.mode, options_.min_delta) {
  check_not_negative("EarlyStopping", "min_delta", options_.min_delta);
  check_not_negative("EarlyStopping", "patience", static_cast<double>(options_.patience));
  check_not_negative("EarlyStopping", "start_from_epoch",
                     static_cast<double>(options_.start_from_epoch));
}

void EarlyStopping::on_train_begin(const FitInfo& /*info*/) {
  monitor_ = Monitor("EarlyStopping", options_.monitor, options_.mode, options_.min_delta);
  wait_ = 0;
  stopped_epoch_ = best_epoch_ = -1;
  best_weights_.clear();
}

void EarlyStopping::on_train_batch_end(const BatchInfo& /*info*/) { monitor_.learn(model()); }

void EarlyStopping::on_epoch_end(int64_t epoch, Logs& logs) {
  const std::optional<double> value = monitor_.value(logs);
  if (!value || epoch < options_.start_from_epoch) return;
  monitor_.learn(model(), /*there=*/true);
  // As in Keras, weights are kept before a baseline is beaten, too.
  const bool better = monitor_.is_better(*value);
  if (options_.restore_best_weights && (better || best_epoch_ < 0)) {
    const auto weights = model().get_weights();
    if (model().is_chief()) best_weights_ = {weights.begin(), weights.end()};
  }
  ++wait_;
  if (better || best_epoch_ < 0) best_epoch_ = epoch;
  if (better) {
    monitor_.set_best(*value);
    if (!options_.baseline || monitor_.is_better_than(*value, *options_.baseline)) wait_ = 0;
    return;
  }
  if (wait_ < options_.patience || epoch == 0) return;
  stopped_epoch_ = epoch;
  model().stop_training();
}

void EarlyStopping::on_train_end(const Logs& /*logs*/) {
  if (stopped_epoch_ >= 0 && model().is_chief()) {
    log::info(fmt::format("stopped after epoch {}: {} was best in epoch {}, {}", stopped_epoch_ + 1,
                          options_.monitor, best_epoch_ + 1, value_text(monitor_.best())));
  }
  if (options_.restore_best_weights && best_epoch_ >= 0) model().set_weights(best_weights_);
  best_weights_.clear();
}

json EarlyStopping::state() const {
  return {{"wait", wait_}, {"best", finite_or_null(monitor_.best())}, {"best_epoch", best_epoch_}};
}

void EarlyStopping::restore(const json& state) {
  wait_ = state.at("wait").get<int64_t>();
  best_epoch_ = state.at("best_epoch").get<int64_t>();
  restore_best(monitor_, state.at("best"));
}

ReduceLROnPlateau::ReduceLROnPlateau(ReduceLROnPlateauOptions options)
    : options_(std::move(options)),
      monitor_("ReduceLROnPlateau", options_.monitor, options_.mode, options_.min_delta) {
  if (!(options_.factor > 0 && options_.factor < 1)) {
    throw invalid_argument(fmt::format(
        "ReduceLROnPlateau: factor is {}; it must be above 0 and below 1", options_.factor));
  }
  check_not_negative("ReduceLROnPlateau", "min_delta", options_.min_delta);
  check_not_negative("ReduceLROnPlateau", "patience", static_cast<double>(options_.patience));
  check_not_negative("ReduceLROnPlateau", "cooldown", static_cast<double>(options_.cooldown));
  check_not_negative("ReduceLROnPlateau", "min_lr", options_.min_lr);
}

void ReduceLROnPlateau::on_train_begin(const FitInfo& /*info*/) {
  monitor_ = Monitor("ReduceLROnPlateau", options_.monitor, options_.mode, options_.min_delta);
  wait_ = cooldown_ = 0;
}

void ReduceLROnPlateau::on_train_batch_end(const BatchInfo& /*info*/) { monitor_.learn(model()); }

void ReduceLROnPlateau::on_epoch_end(int64_t epoch, Logs& logs) {
  logs["learning_rate"] = model().learning_rate();
  const std::optional<double> value = monitor_.value(logs);
  if (!value) return;
  monitor_.learn(model(), /*there=*/true);
  if (cooldown_ > 0) {
    --cooldown_;
    wait_ = 0;
  }
  if (monitor_.is_better(*value)) {
    monitor_.set_best(*value);
    wait_ = 0;
    return;
  }
  if (cooldown_ > 0 || ++wait_ < options_.patience) return;
  const double old = model().learning_rate();
  if (old <= options_.min_lr) return;
  const double rate = std::max(old * options_.factor, options_.min_lr);
  model().set_learning_rate(rate);
  if (model().is_chief()) {
    log::info(
        fmt::format("epoch {}: {} has not improved for {} epochs: the learning rate changes from "
                    "{:.3g} to {:.3g}",
                    epoch + 1, options_.monitor, wait_, old, rate));
  }
  cooldown_ = options_.cooldown;
  wait_ = 0;
}

json ReduceLROnPlateau::state() const {
  return {{"wait", wait_}, {"cooldown", cooldown_}, {"best", finite_or_null(monitor_.best())}};
}

void ReduceLROnPlateau::restore(const json& state) {
  wait_ = state.at("wait").get<int64_t>();
  cooldown_ = state.at("cooldown").get<int64_t>();
  restore_best(monitor_, state.at("best"));
}

LearningRateScheduler::LearningRateScheduler(Schedule schedule) : schedule_(std::move(schedule)) {
  if (schedule_) return;
  throw invalid_argument("LearningRateScheduler: there is no function",
                         "give it one of (epoch, learning_rate)");
}

void LearningRateScheduler::on_train_begin(const FitInfo& /*info*/) { epoch_ = -1; }

void LearningRateScheduler::on_epoch_begin(int64_t epoch) {
  // A run that continues in the middle of an epoch has its rate.
  if (std::exchange(epoch_, epoch) == epoch) return;
  model().set_learning_rate(schedule_(epoch, model().learning_rate()));
}

void LearningRateScheduler::on_epoch_end(int64_t /*epoch*/, Logs& logs) {
  logs["learning_rate"] = model().learning_rate();
}

json LearningRateScheduler::state() const { return {{"epoch", epoch_}}; }

void LearningRateScheduler::restore(const json& state) {
  epoch_ = state.at("epoch").get<int64_t>();
}

void TerminateOnNaN::on_train_batch_end(const BatchInfo& info) {
  if (std::isfinite(info.loss)) return;
  throw Error(ErrorKind::kNonFinite,
              fmt::format("TerminateOnNaN: the loss of batch {} is {}", info.batch, info.loss),
              "lower the learning rate, or clip gradients");
}

}  // namespace muster::inline v0_1::keras
