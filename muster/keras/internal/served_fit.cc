#include "muster/keras/internal/served_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::keras::internal {

using nlohmann::json;

bool ServedFit::begin(const Dataset& data) {
  const int64_t batches = data.cardinality();
  Model::Impl::check_ends(data, options_.steps_per_epoch, "fit", "steps_per_epoch");
  if (!options_.steps_per_epoch && batches < 0) {
    throw invalid_argument(
        "not supported: fit() on parameter servers without steps_per_epoch, of data that does not "
        "know how many batches it has: " +
            data.describe(),
        "say how many steps of all workers are an epoch: .steps_per_epoch = 100");
  }
  if (backups_ == nullptr) {
    throw invalid_argument(
        "fit: on parameter servers the run needs a folder for its backups, but none was given",
        "give it a BackupAndRestore(folder) among its callbacks; or let the program have "
        "--model_dir "
        "or --job-dir (run_main()), below which backups go by themselves");
  }
  if (options_.steps_per_epoch && batches >= 0) batches_ = batches;
  place_.epoch = first_epoch_;
  servers_.emplace(impl_, data,
                   ServedStepsOptions{.class_weight = options_.class_weight,
                                      .backup_dir = backups_->backup_dir(),
                                      .notes =
                                          [this] {
                                            return std::map<std::string, std::string>{
                                                {kFitNote, note(place_.epoch, place_.step)}};
                                          },
                                      .beside = [this] { return before_backup(); }});
  if (servers_->serve()) {
    if (impl_.bystander()) return false;
    // The weights that the program continues with are nowhere any more.
    throw Error(ErrorKind::kUnavailable,
                "fit() has ended in this job's run, and the servers with its weights have stopped",
                "start the whole run again, with a backup_dir, or a job, of another name");
  }
  const auto& notes = servers_->restored_notes();
  if (const auto found = notes.find(kFitNote); found != notes.end()) {
    check_begun_alike(found->second);
    found_fit_ = number_;
  } else if (!notes.empty()) {
    throw no_backup(backups_->backup_dir());
  }
  return true;
}

int64_t ServedFit::left_of(int64_t epoch) const {
  const int64_t before = (epoch - options_.initial_epoch) * steps_;
  return std::min(steps_, batches_ - before) - step_;
}

bool ServedFit::train_epoch(int64_t epoch) {
  place_ = {.epoch = epoch, .step = step_, .began = step_ > 0 ? place_.began : servers_->step()};
  tell([&](Callback& callback) { callback.on_epoch_begin(epoch); });
  while (left_of(epoch) > 0) train_batch(epoch);
  (void)servers_->step();  // a step whose worker was lost may have counted twice
  return step_ == steps_;
}

void ServedFit::end_steps() {
  // The servers write it.
  settle_backup();
  (void)impl_.scope();  // which brings the weights
  servers_.reset();
  impl_.elsewhere.reset();
}

void ServedFit::begin_epochs(const Dataset& /*data*/, bool resumed) {
  // A run that is killed in the first epoch continues from here.
  if (!resumed) backup(first_epoch_, 0);
}

BatchResult ServedFit::next(int64_t epoch) {
  BatchResult made = servers_->next(left_of(epoch));
  place_.step = step_ + 1;
  return made;
}

void ServedFit::take_place(const json& note) {
  auto began = note.at("began").get<int64_t>();
  const int64_t told = first_epoch_;
  int64_t made = servers_->step() - began;
  // Epochs whose backups failed are in the weights anyway. The last one is not passed over:
  // its end is still to come.
  for (; made > steps_ && first_epoch_ + 1 < options_.epochs; made -= steps_) {
    ++first_epoch_;
    began += steps_;
  }
  place_.began = began;
  step_ = std::clamp<int64_t>(made, 0, steps_);
  if (first_epoch_ == told) return;
  const bool several = first_epoch_ > told + 1;
  log::warning(fmt::format(
      "the backup in {} is older than the state of the servers: {} {} made since, and {} not "
      "trained again. The results of {} are in no History, and no callback has seen {} end",
      backups_->backup_dir(),
      several ? fmt::format("epochs {} to {}", told + 1, first_epoch_)
              : fmt::format("epoch {}", told + 1),
      several ? "were" : "was", several ? "are" : "is", several ? "they" : "it",
      several ? "them" : "it"));
}

std::optional<bool> ServedFit::save(int64_t epoch, int64_t step, int64_t may_fail, bool must) {
  place_ = {.epoch = epoch, .step = step, .began = step > 0 ? place_.began : impl_.step()};
  return servers_->save(may_fail, backups_->options().asynchronous && !must);
}

bool ServedFit::settle_save() { return servers_->settle_save(); }

bool ServedFit::await_save() noexcept { return servers_->await_save(); }

}  // namespace muster::inline v0_1::keras::internal
