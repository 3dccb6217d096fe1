#include "muster/calls/cluster_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/calls/internal/call_maker.h"
#include "muster/calls/internal/coordinator_saves.h"
#include "muster/calls/internal/ended_run.h"
#include "muster/calls/internal/remote_functions.h"
#include "muster/calls/internal/remote_replica.h"
#include "muster/calls/internal/run_watch.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/distribute/start_failure.h"
#include "muster/distribute/start_options.h"
#include "muster/files/file_systems.h"
#include "muster/loop/session.h"
#include "muster/plan/activity.h"
#include "muster/ps/closures.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/failed_saves.h"
#include "muster/train/late_error.h"
#include "muster/train/stop_request.h"
#include "muster/train/stop_signal.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr double kEndedSeconds = 5;  // for servers of a run that has ended

const ParameterServerOptions& checked(const Strategy& strategy) {
  const ParameterServerOptions* servers = strategy.servers();
  if (servers == nullptr) {
    throw invalid_argument(
        fmt::format("a ClusterCoordinator was given {}, which has no parameter servers",
                    strategy.name()),
        "give it distribute::parameter_server(); other strategies have scope() and run()");
  }
  if (servers->max_staleness || servers->replicas_to_aggregate > 0) {
    throw invalid_argument(
        fmt::format("not supported: ParameterServerOptions.{} with a ClusterCoordinator, because "
                    "its calls do not wait for each other",
                    servers->max_staleness ? "max_staleness" : "replicas_to_aggregate"),
        "leave it unset, or train an Estimator");
  }
  if (servers->overlap) {
    throw invalid_argument(
        "not supported: ParameterServerOptions.overlap with a ClusterCoordinator, because its next "
        "call may come at any time and would use old weights",
        "leave it unset, or train an Estimator");
  }
  return *servers;
}

Error told_to_stop(const std::string& where) {
  return Error(ErrorKind::kCancelled, fmt::format("stopped by {} {}", stop_signal_name(), where),
               "run the same command again to continue");
}

}  // namespace

bool RemoteValue::ready() const { return result_->ended(); }

class ClusterCoordinator::Impl {
 public:
  Impl(StrategyPtr strategy, CoordinatorOptions options)
      : strategy_(std::move(strategy)),
        servers_(checked(*strategy_)),
        options_(std::move(options)),
        exceptions_(std::uncaught_exceptions()) {
    set_threads(0);
    start_ = {.cluster = cluster::resolve_cluster(
                  options_.environment ? *options_.environment : Environment::process(),
                  {.wants_servers = true}),
              .seed = options_.seed,
              .join_timeout = options_.join_timeout.count(),
              .cancelled = options_.cancelled ? options_.cancelled
                                              : [this] { return request_.asked_or_signalled(); },
              .model_dir = options_.model_dir};
    if (alone()) return;
    if (!serves()) check_worker(cluster(), "make calls");
    if (const StrategyPtr entered = entered_strategy(); entered && entered->needs_servers()) {
      throw invalid_argument(
          "not supported: a ClusterCoordinator, or fit(), in a scope on the same parameter servers",
          "leave the scope: who schedules needs none");
    }
    if (cluster().num_ps == 0 || cluster().num_workers < 2) {
      throw invalid_argument(
          fmt::format("TF_CONFIG lists {}, which a ClusterCoordinator needs",
                      cluster().num_ps == 0 ? "no parameter servers" : "no workers"),
          "list one chief, and at least one worker and one ps; the chief makes no calls");
    }
  }

  ~Impl() {
    if (replica_ == nullptr || over_) return;
    const bool was_broken = broken_.has_value();
    end_last_save();
    try {
      // The program's own error counts, also if the last save fails after it.
      if (!was_broken && std::uncaught_exceptions() > exceptions_) {
        const Error left(ErrorKind::kInternal, "an exception left the scope of the coordinator");
        seen_->end(&left);
        tell_others();
      } else if (broken_) {
        seen_->end(&*broken_);
        // What ended it is known to the others, or they may continue without this process.
      } else {
        end();
      }
    } catch (const std::exception& error) {
      log::warning(fmt::format("at the end of the coordinator: {}", error.what()));
    }
  }

  RemoteFunctions& before_serving(const char* what) {
    if (!served_) return functions_;
    throw invalid_argument(fmt::format("{} was called after serve()", what),
                           "call it before, in every task");
  }

  PerWorkerDataset add_data(RemoteFunctions::Data data, const char* what) {
    RemoteFunctions& functions = before_serving(fmt::format("{}()", what).c_str());
    if (std::ranges::count(functions.data, data.name, &RemoteFunctions::Data::name) > 0) {
      throw invalid_argument(
          fmt::format("{}(\"{}\") was given a name that is taken", what, data.name),
          "give each data set a different name");
    }
    functions.data.push_back(std::move(data));
    return PerWorkerDataset(static_cast<int>(functions.data.size()) - 1);
  }

  bool serve() {
    const RemoteFunctions::Function* training = before_serving("serve()").training();
    if (training == nullptr) {
      throw invalid_argument("no function was defined that trains",
                             "give one of them .training = true: it makes the model's variables");
    }
    served_ = true;
    if (serves()) {
      serve_in_view(*strategy_, start_, [&](VariableStore& variables, const std::string& form) {
        return RemoteReplica::describe(*training, variables, options_.seed, form);
      });
      return true;
    }
    // From now on the servers know about a task that fails.
    note_joining();
    if (!alone() && !cluster().is_chief) {
      make_calls(*strategy_, common(), functions_, servers_.restart_timeout.count());
      return true;
    }
    return !begins(*training);
  }

  int num_workers() const { return alone() ? 1 : cluster().num_workers - 1; }

  RemoteValue schedule(const std::string& name, std::vector<Tensor> arguments) {
    check_open();
    for (Tensor& argument : arguments) argument = argument.detach().cpu().contiguous();
    ps::Closure closure{.function = name, .arguments = std::move(arguments)};
    if (host_ == nullptr) return call_here(closure);
    std::shared_ptr<const ps::ClosureResult> result;
    wait_until([&] {
      if (const auto failure = host_->take_failure()) throw thrown(*failure);
      result = host_->schedule(closure);
      return result != nullptr;
    });
    return RemoteValue(std::move(result));
  }

  void join() {
    check_open();
    if (host_ != nullptr) wait_until([&] { return host_->unfinished() == 0; });
    const auto failure =
        host_ != nullptr ? host_->take_failure() : std::exchange(failure_, std::nullopt);
    if (failure) throw thrown(*failure);
  }

  bool done() {
    check_open();
    look_after_saves();
    return host_ == nullptr || host_->unfinished() == 0;
  }

  std::vector<Tensor> fetch(const ps::ClosureResult& result) {
    if (!result.ended()) {
      check_open();
      wait_until([&] { return result.ended(); });
    }
    if (result.error()) throw thrown(*result.error());
    return result.tensors();
  }

  int64_t step() {
    check_open();
    if (host_ != nullptr)
      guarded_by_run([&] { replica_->engine().follow(replica_->run().check()); });
    activity_->set_step(replica_->engine().step());
    return replica_->engine().step();
  }

  Tensor variable(const std::string& name) {
    check_open();
    const auto& variables = replica_->replica().variables();
    if (variables.find(name) == nullptr) {
      std::vector<std::string> names;
      for (const auto& variable : variables.variables()) names.push_back(variable->name());
      throw not_found(fmt::format("there is no variable \"{}\"", name),
                      nearest_hint(name, names, "there are " + join_quoted(names)));
    }
    return state().tensors.at(name);
  }

  Checkpoint state() {
    check_open();
    Checkpoint state;
    take_state();
    guarded_by_run([&] {
      ModelState& held = replica_->replica().state();
      for (const auto& [name, tensor] : held.tensors()) state.tensors[name] = tensor.clone();
      state.global_step = held.cut() ? held.cut()->step : replica_->engine().step();
    });
    return state;
  }

  const std::map<std::string, std::string>& restored_notes() const {
    check_open();
    return replica_->engine().restored_notes();
  }

  std::string save(const CoordinatorSaveOptions& options) {
    check_open();
    check_max_failed_saves(options.max_failed_saves, "CoordinatorSaveOptions.max_failed_saves");
    if (!saves_) {
      throw invalid_argument("save() was called without CoordinatorOptions::model_dir",
                             "say there where checkpoints are to be");
    }
    std::string prefix;
    take_state();
    guarded_by_run([&] { prefix = saves_->save(options); });
    return prefix;
  }

  bool end_saving() {
    bool saved = false;
    if (saves_) guarded_by_run([&] { saved = saves_->settle(); });
    return saved;
  }

 private:
  const cluster::ResolvedCluster& cluster() const { return start_.cluster; }
  bool alone() const { return cluster().addresses.empty(); }
  bool serves() const { return cluster().task.type == "ps"; }
  ps::ClosureOptions common() const {
    return {.start = start_, .servers = servers_, .definitions = functions_.describe()};
  }

  // --- the chief ---
  // The form of the batches that the model is built on.
  std::string form_of(const RemoteFunctions::Function& training) const {
    if (!training.options.data) return "";
    const RemoteFunctions::Data& data = functions_.data_of(training);
    const auto element = functions_.open(data, 0, num_workers(), options_.seed)->next();
    if (element) {
      (void)to_batch(*element);
      return encode_batch_spec(*element);
    }
    throw invalid_argument(fmt::format("the data set \"{}\" is empty", data.name),
                           "look at create_per_worker_dataset(): the chief reads its first batch, "
                           "to know its form");
  }

  // False where the run of this job has ended already: who is killed right after that, and started
  // again, would wait for servers that are gone.
  bool begins(const RemoteFunctions::Function& training) {
    const bool ended = run_has_ended(file_systems(), options_.model_dir, cluster().job.id);
    if (ended) start_.join_timeout = std::min(start_.join_timeout, kEndedSeconds);
    try {
      begin(training);
    } catch (const Error& error) {
      if (!ended || replica_ != nullptr || error.kind() != ErrorKind::kTimeout) throw;
      log::info("the run of this job has ended and its servers have stopped: nothing to do");
      over_ = true;
      return false;
    }
    return true;
  }

  void begin(const RemoteFunctions::Function& training) {
    const std::string form = form_of(training);
    replica_ = std::make_unique<RemoteReplica>(strategy_->start(start_));
    const ReplicaPlace& place = replica_->replica().place();
    seen_.emplace(TaskWatch::Options{.place = place});
    activity_.emplace(place.name(), seen_->run());
    activity_->enter(plan::Activity::kProgram);
    seen_->show_in(options_.model_dir);
    seen_->begin(/*trains=*/true);
    guarded(
        replica_->replica(),
        [&] {
          if (!options_.model_dir.empty()) {
            saves_.emplace(options_, *replica_, start_.cancelled);
            (void)saves_->find_checkpoint();
          }
          replica_->build(training, form,
                          options_.initial_state ? &*options_.initial_state : nullptr);
        },
        [&] { broken_ = current_error(); }, [] { return "while the model was built"; });
    tell_beginning();
    std::set<std::string> refreshed;
    for (const auto& function : functions_.functions) {
      if (!function.options.training) refreshed.insert(function.name);
    }
    if (alone()) {
      maker_ = std::make_unique<CallMaker>(*replica_, functions_, 0, 1);
    } else {
      host_ = ps::host_closures({.common = common(),
                                 .form = form,
                                 .state = replica_->own_state(),
                                 .refreshed = std::move(refreshed),
                                 .capacity = options_.queue_capacity,
                                 .max_attempts = options_.max_attempts});
      watch_.emplace(*host_, *replica_, options_.join_timeout.count(),
                     servers_.restart_timeout.count());
      replica_->run().set_saves(saves_.has_value());
    }
  }

  void tell_beginning() const {
    const Engine& engine = replica_->engine();
    const std::string& prefix = engine.restored_from();
    if (!prefix.empty() && !engine.continues_in_part()) {
      log::event("restored", {{"checkpoint", prefix}, {"global_step", engine.step()}},
                 fmt::format("restored {}: continuing after step {}", prefix, engine.step()));
    } else if (engine.step() > 0) {
      log::info(fmt::format("continuing after step {}", engine.step()));
    }
  }

  void check_open() const {
    if (broken_) {
      throw Error(broken_->kind(), "the run is over: " + broken_->message(), broken_->hint());
    }
    if (replica_ != nullptr) return;
    throw invalid_argument("the coordinator has not begun, or this task is not the chief",
                           "call serve() first, in all tasks, and return where it is true: if "
                           "(coordinator.serve()) return;");
  }

  // What a worker's last step has made of what lives on no server.
  void take_state() {
    if (host_ != nullptr) replica_->take_state(host_->state());
  }

  // An error of a function, which the program may catch.
  Error thrown(const Error& error) {
    thrown_ = error;
    return error;
  }

  // What `work` throws ends this chief's part in the run.
  template <typename Work>
  void guarded_by_run(Work work) {
    try {
      replica_->replica().group().explained(work);
    } catch (const Error& error) {
      const ErrorKind kind = error.kind();
      if (kind == ErrorKind::kPeerLost || kind == ErrorKind::kTimeout ||
          kind == ErrorKind::kUnavailable || kind == ErrorKind::kCancelled)
        broken_ = error;
      throw;
    }
  }

  RemoteValue call_here(const ps::Closure& closure) {
    if (failure_) throw thrown(*std::exchange(failure_, std::nullopt));
    look_after_saves();
    if (start_.cancelled()) end_on_request();
    RemoteReplica::Made made = maker_->make(closure);
    if (made.error && !failure_) failure_ = made.error;
    auto result = std::make_shared<ps::ClosureResult>();
    result->end(std::move(made.results), std::move(made.error));
    return RemoteValue(std::move(result));
  }

  // Waits until `ready()`, as long as the others are there.
  void wait_until(const std::function<bool()>& ready) {
    look_after_saves();
    uint64_t seen = host_->wait_for_change(0, 0);
    while (!ready()) {
      if (start_.cancelled()) end_on_request();
      guarded_by_run([&] { watch_->look(); });
      look_after_saves();
      seen = host_->wait_for_change(seen, RunWatch::kLookSeconds);
    }
  }

  // What has become of a save that a thread writes, and whether a server that was asked to stop
  // waits for one.
  void look_after_saves() {
    if (!saves_) return;
    guarded_by_run([&] { saves_->look(); });
    if (host_ == nullptr || start_.cancelled() || saves_->is_writing()) return;
    if (!replica_->run().save_wanted()) return;
    take_state();
    guarded_by_run([&] { saves_->save_for_server(); });
  }

  // Servers write their parts until they hear of the end. No call of the program is left to throw.
  void end_last_save() noexcept {
    try {
      (void)end_saving();
    } catch (...) {
      const Error error = current_error();
      log::warning("at the end of the coordinator: " + error.message());
      note_late_error(error);
    }
  }

  void end() {
    if (host_ != nullptr) {
      watch_->cancel("the chief has ended the run");
      host_->close(RunWatch::kRunningSeconds);
      replica_->run().end_steps(SharedRun::End::kTold, {});
      note_end_of_run(file_systems(), options_.model_dir, cluster().job.id);
    }
    replica_->engine().finish();
    seen_->end(nullptr);
    over_ = true;
  }

  [[noreturn]] void end_on_request() {
    Error told = told_to_stop("");
    guarded_by_run([&] {
      if (host_ != nullptr) watch_->cancel("the chief was asked to stop");
      (void)end_saving();
      if (saves_ && saves_->saved_step() != step()) save({});
      told = told_to_stop(saves_ ? fmt::format("after saving step {}", saves_->saved_step())
                                 : fmt::format("at step {}, which was not saved", step()));
      end();
    });
    broken_ = told;
    throw told;
  }

  // An exception of the program leaves the scope: the others end as well.
  void tell_others() {
    const bool mistake = thrown_ && (thrown_->kind() == ErrorKind::kInvalidArgument ||
                                     thrown_->kind() == ErrorKind::kNotFound);
    const std::string what = thrown_ ? ": " + thrown_->message() : "";
    replica_->replica().group().fail(
        Error(mistake ? thrown_->kind() : ErrorKind::kInternal,
              "an exception left the scope of the coordinator" + what));
  }

  const StrategyPtr strategy_;
  const ParameterServerOptions& servers_;  // of strategy_
  const CoordinatorOptions options_;
  const StopRequest request_;
  const int exceptions_;
  StartOptions start_;
  RemoteFunctions functions_;
  bool served_ = false;
  std::optional<CoordinatorSaves> saves_;         // with a model_dir, on the chief, or alone
  std::optional<TaskWatch> seen_;                 // on the chief, or alone
  std::optional<plan::ListedActivity> activity_;  // likewise
  std::unique_ptr<RemoteReplica> replica_;        // likewise
  std::unique_ptr<CallMaker> maker_;              // alone
  std::optional<Error> failure_;                  // alone: of the first call that failed
  std::unique_ptr<ps::ClosureHost> host_;         // on the chief
  std::optional<RunWatch> watch_;                 // of host_
  std::optional<Error> thrown_;                   // of a function, last
  std::optional<Error> broken_;
  bool over_ = false;
};

ClusterCoordinator::ClusterCoordinator(StrategyPtr strategy, CoordinatorOptions options)
    : impl_(std::make_unique<Impl>(std::move(strategy), std::move(options))) {}
ClusterCoordinator::~ClusterCoordinator() = default;

RemoteFunctionName ClusterCoordinator::define(const std::string& name, RemoteFunction fn,
                                              const FunctionOptions& options) {
  RemoteFunctions& functions = impl_->before_serving("define()");
  const RemoteFunctions::Function* training = functions.training();
  if (!fn || name.empty() || functions.find(name) != nullptr) {
    throw invalid_argument(fmt::format("define(\"{}\") was given {}", name,
                                       !fn ? "no function" : "a name that is empty or taken"),
                           "give each function a different name");
  }
  if (options.training && training != nullptr) {
    throw invalid_argument(fmt::format("\"{}\" and \"{}\" are both defined as functions that train",
                                       training->name, name),
                           "let one function call all minimize(); what differs may be an argument");
  }
  functions.functions.push_back({name, std::move(fn), options});
  return RemoteFunctionName(name);
}

PerWorkerDataset ClusterCoordinator::create_per_worker_dataset(
    const std::string& name, std::function<Dataset(const InputContext& context)> fn) {
  if (!fn) {
    throw invalid_argument(
        fmt::format("create_per_worker_dataset(\"{}\") was given no function", name),
        "give it one that makes the data set of a worker");
  }
  return impl_->add_data({.name = name, .make = std::move(fn)}, "create_per_worker_dataset");
}

PerWorkerDataset ClusterCoordinator::distribute(const std::string& name, const Dataset& dataset) {
  return impl_->add_data({.name = name, .divided = dataset}, "distribute");
}

bool ClusterCoordinator::serve() { return impl_->serve(); }
int ClusterCoordinator::num_workers() const { return impl_->num_workers(); }

RemoteValue ClusterCoordinator::schedule(const RemoteFunctionName& function,
                                         std::vector<Tensor> arguments) {
  return impl_->schedule(function.name(), std::move(arguments));
}

void ClusterCoordinator::join() { impl_->join(); }
bool ClusterCoordinator::done() { return impl_->done(); }
std::vector<Tensor> ClusterCoordinator::fetch(const RemoteValue& value) {
  return impl_->fetch(*value.result_);
}
int64_t ClusterCoordinator::step() { return impl_->step(); }
Tensor ClusterCoordinator::variable(const std::string& name) { return impl_->variable(name); }
Checkpoint ClusterCoordinator::state() { return impl_->state(); }
const std::map<std::string, std::string>& ClusterCoordinator::restored_notes() const {
  return impl_->restored_notes();
}
std::string ClusterCoordinator::save(const CoordinatorSaveOptions& options) {
  return impl_->save(options);
}
bool ClusterCoordinator::end_saving() { return impl_->end_saving(); }

}  // namespace muster::inline v0_1::distribute
