// Loops written by hand on parameter servers, where each worker goes at its own pace: no call meets
// the others, and each ends when its data does.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/shared_run.h"
#include "muster/loop/internal/data_progress.h"
#include "muster/loop/internal/loop.h"
#include "muster/loop/internal/served_positions.h"
#include "muster/optim/recording.h"
#include "muster/optim/train_op.h"
#include "muster/plan/failure.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

namespace {

// The form of a batch, by which servers build the model; "" without one.
std::string form_of(const Batch* batch) {
  if (batch == nullptr) return "";
  std::vector<Element> parts{batch->features.element()};
  if (batch->labels.defined()) parts.push_back(batch->labels.element());
  if (batch->weights.defined()) parts.push_back(batch->weights.element());
  return encode_batch_spec(Element::tuple(std::move(parts)));
}

// Whether this position of a worker has fewer passes behind it than the chief's.
bool may_have_data(const json& chief, const std::string& position) {
  const json data = data_of(position);
  for (size_t d = 0; d < chief.size(); ++d) {
    const auto passes = [d](const json& of) -> int64_t {
      return d < of.size() && of[d].is_object() ? of[d].value("completed", int64_t{0}) : 0;
    };
    if (passes(data) < passes(chief)) return true;
  }
  return false;
}

}  // namespace

void check_meets(const Replica& replica, const char* what) {
  if (replica.shared() == nullptr || replica.place().processes == 1) return;
  throw invalid_argument(
      fmt::format("not supported: {} on parameter servers, where {} workers never meet", what,
                  replica.place().processes),
      "reduce() and all_reduce() are over the replicas of this worker; what all workers have is to "
      "be brought together, schedule by a distribute::ClusterCoordinator and fetch, or take "
      "distribute::multi_worker_mirrored()");
}

bool Loop::serves() const { return start_.cluster.task.type == "ps" && strategy_->needs_servers(); }

bool Loop::serve(const std::function<void(const Batch&)>& call) {
  served_ = call;
  if (!serves()) return false;
  strategy_->serve(start_, [&](VariableStore& variables, const std::string& form) {
    // What a function knows of its replica, there is none of here.
    const auto replica = one_device()->start({.seed = start_.seed});
    StepContext calls(variables, start_.seed);
    calls.begin_step(/*training=*/true, /*step=*/0, /*replica=*/0);
    const StepContext::Current layers(calls);
    MergePoint merge_point(1, options_.merge_timeout, 0);
    ReplicaContext context(*replica, variables);
    context.set_merge_point(&merge_point);
    const ReplicaContext::Enter inside(context);
    const optim::Recording recording;
    merge_point.enter(0, 0);
    call(form.empty() ? Batch() : to_batch(zero_rows(form)));
    optim::TrainOp described = recording.train_op();
    if (described.defined()) return described;
    throw invalid_argument("the function that serve() was given called no Optimizer::minimize()",
                           "give it the one that run() trains with");
  });
  return true;
}

void Loop::find_place() {
  if (placed_ || serves() || first().shared() == nullptr || built()) return;
  placed_ = true;
  std::optional<SharedRun::Place> place;
  each("strategy->distribute()", [&](Replica& replica, size_t) {
    replica.group().report(Phase::kWaiting, step_);
    place = replica.shared()->find_place();
  });
  if (place) {
    over_ = place->over;
    joined_ = !over_;
    step_ = place->step;
    take_positions(place->position);
  } else if (const auto all = positions_of_workers(); !all.empty()) {
    take_positions(all.front());
  }
}

std::vector<std::string> Loop::positions_of_workers() const {
  const Engine& engine = replicas_.front()->engine;
  return positions_of_loop(engine.restored_inputs(), first().place().processes,
                           engine.restored_from());
}

void Loop::take_positions(const std::string& position) {
  restored_data_ = data_of(position);
  std::erase_if(data_, [](const auto& known) { return known.expired(); });
  for (size_t d = 0; d < data_.size() && d < restored_data_.size(); ++d)
    data_[d].lock()->restore(std::exchange(restored_data_[d], nullptr));
}

void Loop::tell_form(Member& member, const Batch* batch) {
  SharedRun* shared = member.replica->shared();
  if (shared == nullptr) return;
  form_ = form_of(batch);
  shared->set_batch_form(form_);
}

void Loop::build_without_batch() {
  if (built() || !served_) return;
  const std::optional<std::string> form = form_of_others();
  if (!form) return;
  const Batch rows = form->empty() ? Batch() : to_batch(zero_rows(*form));
  build_by([&](size_t) { served_(rows); }, form->empty() ? nullptr : &rows);
  without_batch_ = true;
}

std::optional<std::string> Loop::form_of_others() {
  if (over_) return std::nullopt;
  if (joined_) {
    std::string form;
    each("Scope::end_training()",
         [&](Replica& replica, size_t) { form = replica.shared()->batch_form(); });
    return form;
  }
  const json& inputs = replicas_.front()->engine.restored_inputs();
  if (!inputs.contains("batch_form") || unfinished_others().empty()) return std::nullopt;
  return inputs.at("batch_form").get<std::string>();
}

std::vector<int> Loop::unfinished_others() const {
  const std::vector<std::string> positions = positions_of_workers();
  const json train = replicas_.front()->engine.restored_inputs().value("train", json::object());
  const auto ended = train.value("ended", std::vector<bool>());
  const json chief = positions_of_data();
  std::vector<int> others;
  for (size_t w = 1; w < positions.size(); ++w) {
    // An older checkpoint does not say it. A worker that has just read its last batch has not noted
    // the end of its pass.
    if (w < ended.size() ? !ended[w] : may_have_data(chief, positions[w]))
      others.push_back(static_cast<int>(w));
  }
  return others;
}

void Loop::begin_on_servers(Member& member) {
  SharedRun* shared = member.replica->shared();
  if (shared == nullptr) return;
  (void)member.engine.begin_shared(
      {.positions = positions_of_workers(), .last_step = [](int64_t) { return std::nullopt; }});
  step_ = member.engine.step();
  if (!member.replica->is_chief()) log::info(fmt::format("joined the run at step {}", step_));
  shared->set_position([this] { return to_position(positions_of_data()); });
}

json Loop::positions_of_data() const {
  json data = json::array();
  for (const auto& known : data_) {
    if (const auto progress = known.lock()) data.push_back(progress->save());
  }
  return data;
}

void Loop::begin_call_on_servers(Member& member, bool training) {
  SharedRun* shared = member.replica->shared();
  if (shared == nullptr || !member.engine.built()) return;
  if (!training) return shared->read_weights();
  // Those of an update that is under way are those it began with.
  if (member.replica->accumulated() > 0) return;
  // Whoever is told to stop hears so from should_stop(), and has this step behind it.
  if (shared->begin_step(/*also_when_told=*/true)) return;
  if (cancelled_()) {
    throw Error(ErrorKind::kCancelled,
                fmt::format("stopped by {} after step {}, while it waited for others",
                            stop_signal_name(), step_),
                "run the same command again to continue");
  }
  throw Error(ErrorKind::kUnavailable,
              fmt::format("the chief has ended the run after step {}", step_),
              "start all tasks again to continue");
}

void Loop::end_training(bool by_program) {
  if (serves() || first().shared() == nullptr || trained_) return;
  const bool has_read = placed_;
  find_place();
  if (by_program && first().is_chief()) build_without_batch();
  end_steps(SharedRun::End::kNoMoreData);
  trained_ = true;
  if (!first().is_chief()) return;
  if (takes_part()) {
    save_last();
    each("Scope::end_training()", [](Replica& replica, size_t) { replica.shared()->let_go(); });
  }
  refuse_to_lose(has_read);
}

// Where it has no batch to build the model of, a chief can neither begin the run for the others nor
// save what they have made.
void Loop::refuse_to_lose(bool has_read) const {
  if (built() || over_ || first().place().processes == 1) return;
  const std::string& checkpoint = replicas_.front()->engine.restored_from();
  if (checkpoint.empty() && !joined_) {
    if (!has_read || ran_ || evaluated_) return;
    throw invalid_argument(
        "the chief's data gave no batch, so no task knew what to build the model of, and nothing "
        "was trained",
        "check the data directory and the transformations; where each worker has data of its own, "
        "the chief needs some too");
  }
  const int64_t saved = checkpoint.empty() ? 0 : checkpoint_step(checkpoint);
  const std::string why =
      "the chief was started again behind its last batch, and has none to build the model of";
  std::string instead =
      "call scope.serve(step) in front of the loop and scope.end_training() behind it, in every "
      "task: the chief then builds the model without a batch";
  if (!checkpoint.empty()) {
    instead += fmt::format(
        "; or move '{}' away, so that the run goes on from a checkpoint before it, where the chief "
        "has batches left",
        checkpoint);
  }
  if (joined_ && step_ > saved) {
    throw invalid_argument(fmt::format("not supported: {}: what the others have made from step {} "
                                       "to {} is lost",
                                       why, saved, step_),
                           instead);
  }
  if (joined_) return;
  std::vector<std::string> others;
  for (const int rank : unfinished_others()) {
    others.push_back(
        plan::readable_task(start_.cluster.workers.at(static_cast<size_t>(rank)).name()));
  }
  if (others.empty()) return;
  throw invalid_argument(fmt::format("{}: what {} had left behind step {} was not trained on", why,
                                     muster::join(others, ", "), saved),
                         instead);
}

bool Loop::takes_part() const { return built() || joined_; }

void Loop::end_steps(SharedRun::End end) {
  each("Scope::end_training()", [&](Replica& replica, size_t) {
    replica.group().report(Phase::kWaiting, step_);
    const int64_t last = replica.shared()->end_steps(end, {});
    step_ = last;
    // Who had no data has no model either.
    if (built()) replicas_.front()->engine.follow(last);
  });
}

void Loop::save_last() {
  const std::string& checkpoint = replicas_.front()->engine.restored_from();
  const bool made = checkpoint.empty() || step_ > checkpoint_step(checkpoint);
  if (without_batch_ && made && !ran_ && !last_save_ && !restore_dir_.empty()) {
    // How many checkpoints the program keeps, it has not said.
    last_save_ = {options_.model_dir.empty() ? restore_dir_ : options_.model_dir,
                  {.keep_checkpoint_max = 0, .notes = replicas_.front()->engine.restored_notes()}};
  }
  if (!built() || !last_save_ || saved_step_ == step_) return;
  LastSave last = *last_save_;
  last.options.max_failed_saves = 0;
  save(last.model_dir, last.options);
}

void Loop::leave_servers(Replica& replica) {
  // Others may still evaluate, for which they read the weights. Where there was nothing to train,
  // they wait for this one to say so.
  if (replica.is_chief() && takes_part()) replica.shared()->wait_for_leaving();
}

void Loop::stop_on_servers() {
  const bool told = cancelled_();
  if (first().is_chief() || told) end_steps(SharedRun::End::kTold);
  if (first().is_chief()) save_last();
  const std::string where = !first().is_chief() ? fmt::format("at step {}; the chief saves", step_)
                            : saved_step_ == step_
                                ? fmt::format("after saving step {}", step_)
                                : fmt::format("at step {}, which was not saved", step_);
  const bool kept = !first().is_chief() || saved_step_ >= 0 || restored_;
  each("Scope::stop()", [](Replica& replica, size_t) { replica.finish(); });
  broken_ = told ? Error(ErrorKind::kCancelled,
                         fmt::format("stopped by {} {}", stop_signal_name(), where),
                         kept ? "run the same command again to continue"
                              : "nothing was saved, so the same command begins anew")
                 : Error(ErrorKind::kCancelled, "stopped by its program " + where);
  throw *broken_;
}

}  // namespace muster::inline v0_1::distribute
