#include "muster/train/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/distribute/replica_values.h"
#include "muster/files/shared_patience.h"
#include "muster/tensor/compilation_log.h"
#include "muster/tensor/device.h"
#include "muster/tensor/device_failure.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"
#include "muster/train/internal/unmatched_patterns.h"
#include "muster/train/own_training.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1 {

using distribute::Phase;
using distribute::Replica;
using distribute::SharedRun;
using distribute::StepResult;
using nlohmann::json;

namespace {

Error converted(const c10::Error& error, const std::string& where, Device device) {
  const std::string said = text_of(error);
  return converted_error(fmt::format("LibTorch failed {}: {}", where, said), [&]() -> std::string {
    if (const auto hint = hint_of_own_backward(said)) return *hint;
    return hint_of_mixed_devices(said, device).value_or("");
  });
}

// `bad`: "variable dense/kernel holds nan ...".
Error not_saved(int64_t step, const std::string& bad) {
  return Error(ErrorKind::kNonFinite,
               fmt::format("after step {} the {}; nothing was saved", step, bad),
               "lower the learning rate or clip gradients, and continue from the last checkpoint");
}

// Nothing on a device without a library, which compiles nothing.
std::unique_ptr<CompilationLog> compilations_of(Device device) {
  DeviceLibrary* library = device_library(device.type());
  return library == nullptr ? nullptr : std::make_unique<CompilationLog>(library, device);
}

}  // namespace

void guarded(Replica& replica, const std::function<void()>& work,
             const std::function<void()>& failing, const std::function<std::string()>& where) {
  const DeviceScope here(replica.device());
  const auto fail = [&](const Error& error) {
    failing();
    replica.group().fail(error);
  };
  const auto fail_if_device = [&](const std::exception& error) {
    const std::optional<Error> failure = device_failure(replica.device(), error);
    if (!failure) return;
    const Error told = failure->with_detail(where() + on_replica(replica.place()));
    fail(told);
    throw told;
  };
  try {
    work();
  } catch (const c10::Error& error) {
    fail_if_device(error);
    const Error told = converted(error, where(), replica.device());
    fail(told);
    throw told;
  } catch (const std::exception& error) {
    fail_if_device(error);
    fail(current_error());
    throw;
  } catch (...) {
    fail(current_error());
    throw;
  }
}

ZeroRowGuard::ZeroRowGuard(distribute::VariableTable& variables, int64_t rows)
    : variables_(variables), exceptions_(std::uncaught_exceptions()) {
  if (rows == 0) statistics_ = variables_.copy_on_read();
}

ZeroRowGuard::~ZeroRowGuard() {
  // A run that failed needs them no more, and a device that failed could not copy them.
  if (std::uncaught_exceptions() == exceptions_) variables_.put_back_on_read(statistics_);
}

Engine::Engine(Replica& replica, int64_t accumulate_steps)
    : replica_(replica),
      compilations_(compilations_of(replica.device())),
      restored_inputs_(std::make_unique<json>(json::object())),
      parts_(replica) {
  replica_.accumulate(accumulate_steps);
  seed_device(
      replica_.device(),
      derive_key(replica_.seed(), {id_of("device"), static_cast<uint64_t>(replica_.replica_id())})
          .key);
}

Engine::~Engine() = default;

const json& Engine::restored_inputs() const { return *restored_inputs_; }

void Engine::fit_to_model(const optim::TrainOp& train_op) {
  const std::map<std::string, Tensor> here = replica_.state().tensors();
  std::map<std::string, Tensor>& tensors = found_->checkpoint.tensors;
  // Optimizers that had made no step, and what they train, begin now.
  std::set<std::string> begins;
  for (const auto& entry : train_op.entries) {
    if (!tensors.contains(entry.optimizer.name() + "/iterations"))
      begins.insert(entry.optimizer.name());
  }
  const auto may_begin = [&](const std::string& name) {
    const Variable* variable = replica_.variables().find(name);
    if (variable == nullptr) return begins.contains(name.substr(0, name.find('/')));
    if (!variable->spec().trainable) return !begins.empty();
    return std::ranges::any_of(train_op.entries, [&](const auto& entry) {
      return begins.contains(entry.optimizer.name()) &&
             (!entry.filter || entry.filter(variable->spec()));
    });
  };
  for (const auto& [name, tensor] : here) {
    // Something else is missing or differs: the error is to show all differences.
    const auto known = tensors.find(name);
    if (known == tensors.end() ? !may_begin(name) : known->second.sizes() != tensor.sizes()) return;
  }
  for (const auto& [name, tensor] : here) tensors.try_emplace(name, tensor.clone());
  for (const std::string& name : begins) {
    log::info(
        fmt::format("{} holds nothing of the optimizer {}: it begins anew", restored_from_, name));
  }
  for (auto known = tensors.begin(); known != tensors.end();) {
    const auto& name = known->first;
    const bool of_replicas = std::ranges::any_of(
        replica_.variables().on_read(),
        [&](const Variable* each) { return distribute::replicas_name(each->name()) == name; });
    if (here.contains(name) || of_replicas) {
      ++known;
    } else {
      kept_.insert(tensors.extract(known++));
    }
  }
}

void Engine::extend(const optim::TrainOp& train_op) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : replica_.state().tensors()) known.insert(name);
  std::vector<VariableSpec> trainable;
  for (const auto& variable : replica_.variables().variables()) {
    if (variable->spec().trainable) trainable.push_back(variable->spec());
  }
  internal::check_filters(train_op, trainable);
  replica_.extend_build(train_op);
  replica_.state().share_new(known, kept_, restored_from_);
}

std::vector<std::string> Engine::unclaimed() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : kept_) names.push_back(name);
  return names;
}

void Engine::restore_found() {
  if (found_ && in_part_) {
    replica_.state().restore_in_part(*found_);
  } else if (found_) {
    replica_.state().restore(*found_);
  }
  found_.reset();
}

bool Engine::find_checkpoint(const CheckpointManager& checkpoints) {
  json mine;
  if (replica_.is_chief()) {
    // One that was found before stays where there is none now.
    if (auto found = replica_.state().find(checkpoints)) {
      found_ = std::move(found);
      mine = {{"step", found_->checkpoint.global_step},
              {"inputs", json::parse(found_->checkpoint.inputs)},
              {"notes", found_->checkpoint.notes},
              {"prefix", found_->prefix}};
    }
  }
  // The chief is the first replica of all.
  const json chief = json::parse(replica_.group().gather_text("checkpoint", mine.dump())[0]);
  if (chief.is_null()) return false;
  step_ = chief.at("step").get<int64_t>();
  restored_from_ = chief.at("prefix").get<std::string>();
  *restored_inputs_ = chief.at("inputs");
  restored_notes_ = chief.at("notes").get<std::map<std::string, std::string>>();
  in_part_ = false;
  return true;
}

void Engine::continue_from(const Checkpoint& state, const std::string& name, bool whole) {
  if (replica_.is_chief())
    found_ = distribute::FoundCheckpoint{.prefix = name, .checkpoint = state};
  step_ = state.global_step;
  restored_from_ = name;
  in_part_ = !whole;
  if (!whole) return;
  *restored_inputs_ = json::parse(state.inputs);
  restored_notes_ = state.notes;
}

void Engine::warm_start(const WarmStartSettings& settings, FileSystem& fs) {
  warm_start_ = {settings, &fs};
}

void Engine::take_warm_start(bool built) {
  if (!warm_start_ || !replica_.is_chief()) return;
  if (restored_from_.empty()) {
    replica_.state().warm_start(*warm_start_->fs, warm_start_->settings, replica_.seed(), built);
  } else if (!built) {
    log::info(fmt::format("the run continues from {}, so it does not warm-start from {}",
                          restored_from_, warm_start_->settings.ckpt_to_initialize_from));
  }
}

void Engine::build(const optim::TrainOp& train_op) {
  std::vector<VariableSpec> trainable;
  for (const auto& variable : replica_.variables().variables()) {
    if (variable->value().requires_grad()) trainable.push_back(variable->spec());
  }
  internal::check_filters(train_op, trainable);
  take_warm_start(/*built=*/false);
  replica_.finish_build(train_op);
  take_warm_start(/*built=*/true);
  if (replica_.is_chief()) {
    std::vector<std::string> names;
    for (const auto& variable : replica_.variables().variables()) names.push_back(variable->name());
    for (const auto& line : internal::unmatched_patterns(train_op, names)) log::warning(line);
  }
  if (replica_.is_chief() && replica_.state().goes_on()) {
    // It is further than any checkpoint, except for what lives on workers alone.
    replica_.state().restore_own([this](const auto& name) { return found(name); });
    found_.reset();
    restored_from_.clear();
  }
  if (found_ && !in_part_ && may_extend_ && !found_->reader) fit_to_model(train_op);
  restore_found();
  replica_.share_state();
  built_ = true;
}

void Engine::report_non_finite() {
  reports_non_finite_ = true;
  replica_.report_non_finite();
}

void Engine::roll_back(const CheckpointManager& checkpoints) {
  if (!find_checkpoint(checkpoints)) {
    throw not_found("there is no checkpoint to return to in " + checkpoints.model_dir(),
                    "let the run save checkpoints, or choose NonFinitePolicy::kSkip");
  }
  restore_found();
  replica_.share_state();
}

template <typename Step>
StepResult Engine::told_with_cause(const Step& step, const Batch* batch, const Tensor& loss) {
  try {
    const StepResult result = step();
    if (result.updated && result.any_data && result.finite)
      step_ = result.global_step.value_or(step_ + 1);
    return result;
  } catch (const Error& error) {
    // Of a model that does otherwise than in the steps before, this says when.
    if (error.kind() == ErrorKind::kInvalidArgument && step_ > 0)
      throw error.with_detail(fmt::format("at step {}", step_ + 1));
    if (error.kind() != ErrorKind::kNonFinite) throw;
    const auto told = [&](const std::string& cause, const std::string& hint) {
      return Error(ErrorKind::kNonFinite,
                   fmt::format("{} at step {}{}{}", error.message(), step_ + 1,
                               cause.empty() ? "" : ": ", cause),
                   hint);
    };
    if (batch != nullptr && loss.defined()) {
      const NonFiniteCause cause =
          explain_non_finite(batch->features, batch->labels, replica_.variables(), loss);
      throw told(cause.text, cause.hint + "; the last checkpoint is from before this step");
    }
    const auto bad = find_non_finite(replica_.variables());
    throw told(bad ? "the " + *bad : "",
               "look at the data of this step, lower the learning rate or clip gradients; nothing "
               "was updated");
  }
}

StepResult Engine::train(const distribute::StepInput& input, const Batch* batch) {
  if (reports_non_finite_) {
    if (replica_.accumulated() == 0) non_finite_cause_.clear();
    if (batch != nullptr && input.rows > 0 && !all_finite(input.loss)) {
      non_finite_cause_ =
          explain_non_finite(batch->features, batch->labels, replica_.variables(), input.loss).text;
    }
  }
  if (compilations_) compilations_->begin();
  const StepResult made =
      told_with_cause([&] { return replica_.train_step(input); }, batch, input.loss);
  if (compilations_) compilations_->end(made.updated ? step_ : step_ + 1, batch, made.updated);
  return made;
}

StepResult Engine::apply_accumulated() {
  return told_with_cause([&] { return replica_.apply_accumulated(); }, nullptr, Tensor());
}

std::string Engine::begin(SharedRun& run, SharedRun::Start start) {
  start.step = step_;
  const SharedRun::Place place = run.begin(start);
  step_ = place.step;
  return place.position;
}

RestOfCheckpoint Engine::rest_of(const Save& save,
                                 std::function<void(distribute::ServedState::Cut& cut)> fetch) {
  if (!fetch && !save.beside) return nullptr;
  std::vector<std::string> names;
  for (const auto& variable : replica_.variables().variables()) names.push_back(variable->name());
  return [fetch = std::move(fetch), beside = save.beside, names = std::move(names),
          step = step_](Checkpoint& checkpoint) -> Status {
    if (fetch) {
      distribute::ServedState::Cut cut;
      fetch(cut);
      if (cut.failed) return *cut.failed;
      std::string bad = cut.non_finite;
      for (const std::string& name : names) {
        const auto value = cut.tensors.find(name);
        if (!bad.empty() || value == cut.tensors.end()) continue;
        bad = find_non_finite("variable " + name, value->second).value_or("");
      }
      if (!bad.empty()) throw not_saved(step, bad);
      checkpoint.tensors.merge(cut.tensors);
      checkpoint.parts = std::move(cut.parts);
    }
    try {
      const SharedPatience patience;
      if (beside) beside(checkpoint.notes);
    } catch (const Error& error) {
      return error;
    }
    return {};
  };
}

Saved Engine::save(const Save& save) {
  replica_.group().report(Phase::kSaving, step_);
  Checkpoint checkpoint;
  checkpoint.epoch = save.epoch;
  const bool chief = replica_.is_chief(), aside = save.way.aside != nullptr;
  checkpoint.tensors = replica_.state().gather_for_checkpoint(/*later=*/aside && chief);
  json positions = save.inputs();
  SaveWay way = save.way;
  const bool divides =
      (aside || way.prepares) && parts_.divide(checkpoint.tensors, save.model_dir, save.fs);
  way.in_parts = aside && divides;
  std::map<std::string, Tensor> share;  // of this replica
  bool finite = false;                  // what is copied is known to be
  if (divides) share = parts_.share(checkpoint.tensors);
  if (aside) {
    share = part_copy_.of(share);
    if (chief)
      checkpoint.tensors = copy_.of(divides ? parts_.rest(checkpoint.tensors) : checkpoint.tensors);
    finite = copy_.all_finite() && part_copy_.all_finite();
  } else if (way.prepares) {
    if (chief) copy_.prepare(divides ? parts_.rest(checkpoint.tensors) : checkpoint.tensors);
    if (divides) part_copy_.prepare(share);
  }
  checkpoint.tensors.insert(kept_.begin(), kept_.end());
  const auto& cut = replica_.state().cut();
  if (cut) {
    step_ = cut->step;
    checkpoint.parts = cut->parts;
    positions["train"] = {
        {"dealt_by", "workers"}, {"positions", cut->positions}, {"ended", cut->ended}};
  }
  checkpoint.global_step = step_;
  checkpoint.inputs = positions.dump();
  std::optional<std::string> bad;
  if (chief && !finite) bad = find_non_finite(replica_.variables(), checkpoint.tensors);
  if (way.in_parts && !finite && !bad)
    bad = find_non_finite(replica_.variables(), parts_.by_state(share));
  if (cut && !cut->non_finite.empty()) bad = cut->non_finite;
  if (chief && bad) throw not_saved(step_, *bad);
  std::function<void(distribute::ServedState::Cut&)> fetch;
  if (!way.in_parts) {
    fetch = replica_.state().take_rest();
  } else if (chief) {
    fetch = parts_.begin_chief(step_, std::move(share));
  } else if (auto write = parts_.begin(step_, std::move(share), bad.value_or(""))) {
    way.aside->write_part(step_, std::move(write));
  }
  return save_together(
      replica_, save.writer,
      [&]() -> CheckpointInParts {
        if (cut && cut->failed) throw *cut->failed;
        if (save.notes) checkpoint.notes = save.notes();
        return {std::move(checkpoint), rest_of(save, std::move(fetch))};
      },
      [run = replica_.shared(), saved = save.saved](const std::string& prefix) {
        if (run != nullptr) run->saved();
        if (saved) saved(prefix);
      },
      way);
}

}  // namespace muster::inline v0_1
