#include "muster/calls/internal/coordinator_saves.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "muster/base/log.h"
#include "muster/base/uri.h"
#include "muster/checkpoint/checkpoint.h"

namespace muster::inline v0_1::distribute {

CoordinatorSaves::CoordinatorSaves(const CoordinatorOptions& options, RemoteReplica& replica,
                                   const std::function<bool()>& cancelled)
    : options_(options),
      replica_(replica),
      cancelled_(cancelled),
      keep_({.keep_checkpoint_max = options.keep_checkpoint_max}),
      writer_(options.model_dir, keep_, cancelled) {}

bool CoordinatorSaves::find_checkpoint() {
  return replica_.engine().find_checkpoint(CheckpointManager(options_.model_dir, keep_));
}

std::string CoordinatorSaves::save(const CoordinatorSaveOptions& options) {
  (void)settle();
  last_ = options;
  failed_saves_.set_limit(options.max_failed_saves);
  Engine& engine = replica_.engine();
  const bool stops = cancelled_(), must = saved_step_ < 0 || stops;
  const bool patient = failed_saves_.patient() && !must;
  const bool aside = options.asynchronous && !must;
  last_is_there_ = false;
  // What is to be written is asked for where an error of that is one of the save.
  const auto beside = std::make_shared<BeforeSave>();
  const Saved made = engine.save(
      {.inputs = [] { return nlohmann::json::object(); },
       .notes =
           [&] {
             if (options_.beside) *beside = options_.beside();
             return options_.notes ? options_.notes() : std::map<std::string, std::string>();
           },
       .beside =
           [beside](auto& notes) {
             if (*beside) (*beside)(notes);
           },
       .writer = [&]() -> CheckpointWriter& { return writer_; },
       .saved = [this](const std::string& prefix) { note_saved(prefix); },
       .way = {.may_fail = patient ? &failed_saves_ : nullptr,
               .aside = aside ? &pending_ : nullptr,
               .prepares = options.asynchronous && !aside && !stops}});
  // A thread writes it.
  if (aside) return join_path(options_.model_dir, fmt::format("model.ckpt-{}", engine.step()));
  last_is_there_ = made.saved;
  return made.prefix;
}

void CoordinatorSaves::save_for_server() {
  const CoordinatorSaveOptions last = last_;
  const bool saved = !save({.max_failed_saves = last.max_failed_saves}).empty();
  last_ = last;
  if (saved)
    log::info(fmt::format("saved at step {} for a server that was asked to stop", saved_step_));
}

bool CoordinatorSaves::settle() {
  if (!pending_.any()) return last_is_there_;
  last_is_there_ = false;
  const auto there = pending_.settle(
      replica_.replica(), fmt::format("the coordinator, after step {},", replica_.engine().step()));
  return last_is_there_ = there.value_or(false);
}

void CoordinatorSaves::note_saved(const std::string& prefix) {
  saved_step_ = checkpoint_step(prefix);
  log::event("saved", {{"global_step", saved_step_}, {"checkpoint", prefix}}, "saved " + prefix);
}

}  // namespace muster::inline v0_1::distribute
