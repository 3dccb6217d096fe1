#include "muster/loop/internal/served_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/loop/internal/data_progress.h"
#include "muster/loop/internal/served_positions.h"
#include "muster/optim/recording.h"
#include "muster/optim/train_op.h"
#include "muster/plan/failure.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/stop_signal.h"
#include "muster/train/task_watch.h"

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
  if (replica.place().in_sync || replica.place().processes == 1) return;
  throw invalid_argument(
      fmt::format("not supported: {} on parameter servers, where {} workers never meet", what,
                  replica.place().processes),
      "reduce() and all_reduce() are over the replicas of this worker; what all workers have is to "
      "be brought together, schedule by a distribute::ClusterCoordinator and fetch, or take "
      "distribute::multi_worker_mirrored()");
}

void ServedLoop::begin() {
  if (!serves()) Loop::begin();
}

void ServedLoop::run(const RunOptions& options, const std::function<void(size_t)>& body,
                     const std::function<int64_t(size_t)>& rows,
                     const std::function<const Batch*(size_t)>& batch) {
  Loop::run(options, body, rows, batch);
  save_for_servers();
}

bool ServedLoop::serve(const std::function<void(const Batch&)>& call) {
  served_ = call;
  if (!serves()) return false;
  serve_in_view(*strategy_, start_, [&](VariableStore& variables, const std::string& form) {
    // What a function knows of its replica, there is none of here.
    const auto replica = one_device()->start({.seed = start_.seed});
    StepContext calls(variables, start_.seed);
    calls.begin_step(/*training=*/true, /*step=*/0, /*replica=*/0);
    const StepContext::Current layers(calls);
    MergePoint merge_point(1, options_.merge_timeout.count(), 0);
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

void ServedLoop::find_place() {
  if (place_ != Place::kUnknown || serves() || built()) return;
  place_ = Place::kBegins;
  std::optional<SharedRun::Place> found;
  each("strategy->distribute()", [&](Replica& replica, size_t) {
    replica.group().report(Phase::kWaiting, step_);
    found = run_of(replica).find_place();
  });
  if (found) {
    place_ = found->over ? Place::kOver : Place::kJoined;
    step_ = found->step;
    take_positions(found->position);
  } else if (const auto all = positions_of_workers(); !all.empty()) {
    take_positions(all.front());
  }
}

std::vector<std::string> ServedLoop::positions_of_workers() const {
  return positions_of_loop(first_engine().restored_inputs(), first().place().processes,
                           first_engine().restored_from());
}

// The ledger has the positions of all workers, this one's among them.
json ServedLoop::inputs_to_save() const { return {{"batch_form", form_}}; }

void ServedLoop::take_restored_inputs() {
  place_ = Place::kUnknown;
  find_place();
}

void ServedLoop::before_run(bool training) {
  if (training && ended_) {
    throw invalid_argument("run() was to train after end_training()",
                           "{.training = false} evaluates");
  }
  // The weights of a run that goes on are on its servers.
  if (!training && place_ == Place::kJoined) build_without_batch();
}

void ServedLoop::before_build(Member& member, const Batch* batch) {
  form_ = form_of(batch);
  run_of(*member.replica).set_batch_form(form_);
}

void ServedLoop::build_without_batch() {
  if (built() || !served_) return;
  const std::optional<std::string> form = form_of_others();
  if (!form) return;
  const Batch rows = form->empty() ? Batch() : to_batch(zero_rows(*form));
  build_by([&](size_t) { served_(rows); }, form->empty() ? nullptr : &rows);
}

std::optional<std::string> ServedLoop::form_of_others() {
  if (over()) return std::nullopt;
  if (place_ == Place::kJoined) {
    std::string form;
    each("Scope::end_training()",
         [&](Replica& replica, size_t) { form = run_of(replica).batch_form(); });
    return form;
  }
  const json& inputs = first_engine().restored_inputs();
  if (!inputs.contains("batch_form") || unfinished_others().empty()) return std::nullopt;
  return inputs.at("batch_form").get<std::string>();
}

std::vector<int> ServedLoop::unfinished_others() const {
  const std::vector<std::string> positions = positions_of_workers();
  const json train = first_engine().restored_inputs().value("train", json::object());
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

void ServedLoop::after_build(Member& member) {
  SharedRun& run = run_of(*member.replica);
  (void)member.engine.begin(run, {.positions = positions_of_workers(),
                                  .last_step = [](int64_t) { return std::nullopt; }});
  step_ = member.engine.step();
  if (!member.replica->is_chief()) log::info(fmt::format("joined the run at step {}", step_));
  run.set_position([this] { return to_position(positions_of_data()); });
  tell_where_saves_go();
}

void ServedLoop::before_call(Member& member, bool training) {
  if (!member.engine.built()) return;
  SharedRun& run = run_of(*member.replica);
  if (!training) return run.read_weights();
  // Those of an update that is under way are those it began with.
  if (member.replica->accumulated() > 0) return;
  // A task that was asked to stop learns it from should_stop(), after this step.
  if (run.begin_step(/*also_when_told=*/true)) return;
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

void ServedLoop::end_training(bool by_program) {
  if (serves() || ended_) return;
  const bool has_read = place_ != Place::kUnknown;
  find_place();
  if (by_program && first().is_chief()) build_without_batch();
  end_steps(SharedRun::End::kNoMoreData);
  ended_ = true;
  if (!first().is_chief()) return;
  if (takes_part()) {
    save_last();
    each("Scope::end_training()", [](Replica& replica, size_t) { run_of(replica).let_go(); });
  }
  refuse_to_lose(has_read);
}

// Where it has no batch to build the model of, a chief can neither begin the run for the others nor
// save what they have made.
void ServedLoop::refuse_to_lose(bool has_read) const {
  if (built() || over() || first().place().processes == 1) return;
  const bool joined = place_ == Place::kJoined;
  const std::string& checkpoint = first_engine().restored_from();
  if (checkpoint.empty() && !joined) {
    if (!has_read || called_ != Called::kNever) return;
    throw invalid_argument(
        "the chief's data gave no batch, so no task knew what to build the model of, and nothing "
        "was trained",
        "check the data directory and the transformations; if each worker has its own data, the "
        "chief needs some too");
  }
  const int64_t saved = checkpoint.empty() ? 0 : checkpoint_step(checkpoint);
  const std::string why =
      "the chief was restarted after its last batch, so it has no batch to build the model from";
  std::string instead =
      "call scope.serve(step) before the loop and scope.end_training() after it, in every task: "
      "the chief then builds the model without a batch";
  if (!checkpoint.empty()) {
    instead += fmt::format(
        "; or move '{}' away, so that the run continues from an earlier checkpoint, where the "
        "chief has batches left",
        checkpoint);
  }
  if (joined && step_ > saved) {
    throw invalid_argument(fmt::format("not supported: {}: what the others have made from step {} "
                                       "to {} is lost",
                                       why, saved, step_),
                           instead);
  }
  if (joined) return;
  std::vector<std::string> others;
  for (const int rank : unfinished_others()) {
    others.push_back(
        plan::readable_task(start_.cluster.workers.at(static_cast<size_t>(rank)).name()));
  }
  if (others.empty()) return;
  throw invalid_argument(
      fmt::format("{}: the data that {} had left after step {} was not used for training", why,
                  muster::join(others, ", "), saved),
      instead);
}

bool ServedLoop::takes_part() const { return built() || place_ == Place::kJoined; }

void ServedLoop::end_steps(SharedRun::End end) {
  each("Scope::end_training()", [&](Replica& replica, size_t) {
    replica.group().report(Phase::kWaiting, step_);
    step_ = run_of(replica).end_steps(end, {});
    // A task without data has no model.
    if (built()) replicas_.front()->engine.follow(step_);
  });
}

Saved ServedLoop::save(const std::string& model_dir, const SaveOptions& options,
                       const BeforeSave& beside) {
  // The others train on meanwhile.
  if (!first().is_chief()) return {};
  const LastSave asked{model_dir, options};
  // A worker's place may be after the last batch of a pass, which then ends without a step.
  if (!built() && (restored_ || place_ == Place::kJoined)) {
    last_save_ = asked;
    return {};
  }
  if (built() && !options_.model_dir.empty() && key_of(options_.model_dir) != key_of(model_dir)) {
    throw invalid_argument(fmt::format("save() was given '{}', and servers write their parts to "
                                       "ScopeOptions.model_dir, '{}'",
                                       model_dir, options_.model_dir),
                           "give both the same directory, or leave that of ScopeOptions empty");
  }
  const Saved made = Loop::save(model_dir, options, beside);
  last_save_ = asked;
  tell_where_saves_go();
  return made;
}

void ServedLoop::tell_where_saves_go() const {
  run_of(first()).set_saves(how_to_save().has_value());
}

std::optional<ServedLoop::LastSave> ServedLoop::how_to_save() const {
  if (last_save_) return last_save_;
  const std::string& directory = options_.model_dir.empty() ? restore_dir_ : options_.model_dir;
  if (directory.empty()) return std::nullopt;
  // How many checkpoints the program keeps, it has not said.
  return LastSave{directory, {.keep_checkpoint_max = 0, .notes = first_engine().restored_notes()}};
}

void ServedLoop::save_last() {
  const std::string& checkpoint = first_engine().restored_from();
  const bool made = checkpoint.empty() || step_ > checkpoint_step(checkpoint);
  // The model was built without a batch.
  const bool unseen = built() && called_ != Called::kToTrain;
  if (unseen && made && !restore_dir_.empty()) last_save_ = how_to_save();
  if (!built() || !last_save_) return;
  (void)settle_save();
  if (saved_step_ == step_) return;
  LastSave last = *last_save_;
  last.options.max_failed_saves = 0;
  last.options.asynchronous = false;
  (void)save(last.model_dir, last.options, {});
}

void ServedLoop::save_for_servers() {
  if (!built() || !first().is_chief() || first().accumulated() > 0) return;
  if (should_stop() || replicas_.front()->pending.is_writing()) return;
  if (!run_of(first()).save_wanted()) return;
  const auto how = how_to_save();
  if (!how) return;
  const auto last = last_save_;
  SaveOptions options = how->options;
  options.asynchronous = false;
  const bool saved = save(how->model_dir, options, {}).saved;
  last_save_ = last;
  if (!saved) return;
  log::info(fmt::format("saved at step {} for a server that was asked to stop", step_));
}

bool ServedLoop::restore(const std::string& model_dir) {
  restore_dir_ = model_dir;
  if (built() || first().is_chief()) return Loop::restore(model_dir);
  // The chief reads it, and the servers have it.
  find_place();
  return step_ > 0 || over();
}

void ServedLoop::assign(const std::map<std::string, Tensor>&) {
  (void)first();
  throw invalid_argument(
      "not supported: Scope::assign() on parameter servers, where others train on meanwhile",
      "begin with the values: Scope::warm_start() takes them from a checkpoint");
}

Tensor ServedLoop::value(const Variable& variable) {
  if (built()) {
    if (variable.is_elsewhere()) {
      throw invalid_argument(
          fmt::format("not supported: Scope::variable() of {}, whose rows live on servers",
                      variable.spec().describe()),
          "Scope::state() has all of it, on the chief");
    }
    each("Scope::variable()", [](Replica& replica, size_t) { run_of(replica).read_weights(); });
  }
  return Loop::value(variable);
}

void ServedLoop::leave_run(Replica& replica) {
  // Others may still evaluate, for which they read the weights. Where there was nothing to train,
  // they wait for this one to say so.
  if (replica.is_chief() && takes_part()) run_of(replica).wait_for_leaving();
}

std::string ServedLoop::stopped_at() const {
  return first().is_chief() ? Loop::stopped_at()
                            : fmt::format("at step {}; the chief saves", step_);
}

bool ServedLoop::goes_on_later() const { return !first().is_chief() || Loop::goes_on_later(); }

void ServedLoop::before_stop() {
  if (first().is_chief() || cancelled_()) end_steps(SharedRun::End::kTold);
  if (first().is_chief()) save_last();
}

}  // namespace muster::inline v0_1::distribute
