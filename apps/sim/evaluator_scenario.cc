#include "apps/sim/evaluator_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "apps/sim/disk_stage.h"
#include "apps/sim/trained_state.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/checkpoint/manager.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/run_end.h"
#include "muster/estimator/testing/evaluator_parts.h"

namespace muster::sim {
namespace {

using internal::EvaluatorLink;
using internal::EvaluatorTask;

constexpr const char* kEvaluatedDir = "model";
constexpr double kEvaluatorFaultsEnd = 40;  // seconds: no fault begins later
constexpr double kLongestEvaluatorFault = 20;
constexpr double kEvaluatedRunEnds = 1500;  // seconds, whatever happens
// A beat is due every 2 s, and 60 s are silence.
constexpr double kBeatEvery = 2, kLeaseIsSafe = 50;

enum EvaluatorFault {
  kChiefDies,
  kChiefStands,
  kChiefIsCutOff,
  kAnEvaluatorDies,
  kAnEvaluatorStands,
  kAnEvaluatorIsCutOff,
  kSharedDiskFails,
  kSharedDiskIsSlow,
  kSharedDiskIsFull,
  kPowerIsCut,
  kTheDateJumps,
  kEvaluatorFaults
};

// How a run is set up.
struct EvaluatorSetting {
  explicit EvaluatorSetting(uint64_t seed) {
    Random random(derive_key(seed, {id_of("evaluator")}));
    last_step = 4 + static_cast<int64_t>(random.uniform_below(8));
    save_every = 1 + static_cast<int64_t>(random.uniform_below(3));
    keep = 1 + static_cast<int>(random.uniform_below(3));
    evaluators = 1 + static_cast<int>(random.uniform_below(2));
    every_checkpoint = random.uniform_below(2) == 0;
    knows_last_step = random.uniform_below(2) == 0;
    run = random.uniform_below(2) == 0 ? "run 1" : "";
    throttle = random.uniform_below(2) == 0 ? 0 : 10 * random.uniform();
    step = 0.2 + 3 * random.uniform();
    evaluation = 0.1 + 4 * random.uniform();
    earlier_step = random.uniform_below(3) == 0 ? 2 : 0;
  }
  int64_t last_step = 0, save_every = 1;
  int keep = 1, evaluators = 1;
  bool every_checkpoint = false, knows_last_step = false;
  std::string run{};
  double throttle = 0, step = 1, evaluation = 1;  // seconds
  int64_t earlier_step = 0;  // at which a run before has ended; 0: there was none
};

// The clock of a process whose lease is renewed when it sleeps.
class RenewingClock : public Clock {
 public:
  explicit RenewingClock(Stage::Process& process) : process_(process) {}
  TimePoint now() override { return process_.now(); }
  double wall_seconds() override { return process_.wall_seconds(); }
  void sleep_for(Duration duration) override {
    const TimePoint end = now() + duration;
    for (TimePoint at = now(); at < end; at = now()) {
      process_.sleep_for(std::min<Duration>(end - at, from_seconds(kBeatEvery)));
      if (!renew_ || now() - renewed_ < from_seconds(kBeatEvery)) continue;
      try {
        renew_();
        renewed_ = now();
      } catch (const Error&) {
        // The next beat tries again.
      }
    }
  }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  TimePoint deadline, const std::function<bool()>& done) override {
    return process_.wait_until(lock, changed, deadline, done);
  }
  void set_renewal(std::function<void()> renew) {
    renew_ = std::move(renew);
    renewed_ = now();
  }
  // When the lease was renewed last.
  TimePoint renewed() const { return renewed_; }

 private:
  Stage::Process& process_;
  std::function<void()> renew_;
  TimePoint renewed_{};
};

class EvaluatorWorld : private DiskStage {
 public:
  EvaluatorWorld(uint64_t seed, const std::vector<Fault>& faults,
                 const EvaluatorScenario::Planted& planted, Trace& trace)
      : DiskStage(seed, trace),
        setting_(seed),
        planted_(planted),
        evaluators_(static_cast<size_t>(setting_.evaluators)) {
    stage_.after(stage_.simulated.uniform(0, 4), [this] { start_chief(); });
    for (size_t i = 0; i < evaluators_.size(); ++i)
      stage_.after(stage_.simulated.uniform(0, 8), [this, i] { start_evaluator(i); });
    for (const Fault& fault : faults) {
      stage_.at(fault.at, [this, &fault] {
        stage_.note(fault.text);
        strike(fault);
      });
    }
  }

  std::string run() {
    stage_.run(kEvaluatedRunEnds, [this] {
      return trained_ && !chief_.alive && std::ranges::none_of(evaluators_, &Task::alive);
    });
    if (stage_.broken().empty()) check_end();
    end_stage();
    return stage_.broken();
  }

 private:
  void strike(const Fault& fault) {
    const TimePoint until = stage_.simulated.now() + from_seconds(fault.amount);
    const bool at_chief = fault.kind <= kChiefIsCutOff;
    Task& task =
        at_chief ? chief_ : evaluators_[static_cast<size_t>(fault.task) % evaluators_.size()];
    switch (fault.kind) {
      case kSharedDiskFails:
        doubted_ = true;
        return disk_.fail_until(until);
      case kSharedDiskIsSlow:
        doubted_ = true;
        return disk_.slow_until(until, 200);
      case kSharedDiskIsFull:
        doubted_ = true;
        return disk_.fill_until(until);
      case kPowerIsCut:
        // The journal of a run that has ended is not synced, nor are leases.
        if (trained_) return;
        doubted_ = true;
        chief_.struck = true;
        return cut_power();
      case kTheDateJumps:
        // A lease that looks old when it is seen for the first time does not count.
        doubted_ = true;
        return stage_.simulated.jump_wall(fault.amount);
      default:
        break;
    }
    task.struck = true;
    if (!task.alive) return;
    if (fault.kind == kChiefDies || fault.kind == kAnEvaluatorDies) {
      task.files->kill();
    } else if (fault.kind == kChiefStands || fault.kind == kAnEvaluatorStands) {
      task.process->freeze_until(until);
    } else {
      task.files->cut_until(until);
    }
  }

  // --- the chief ---

  void start_chief() {
    start(
        chief_, "the chief", [this](auto& process, auto& files) { train(process, files); },
        [this] {
          if (!trained_) stage_.after(stage_.simulated.uniform(0.5, 8), [this] { start_chief(); });
        });
  }

  void train(Stage::Process& process, SimulatedDisk::Mount& mount) {
    const auto planted = planted_.chief_files ? planted_.chief_files(mount) : nullptr;
    FileSystem& files = planted != nullptr ? *planted : mount;
    RenewingClock clock(process);
    if (setting_.earlier_step > 0 && !std::exchange(has_earlier_, true))
      leave_earlier_run(files, clock);
    EvaluatorLink link({.model_dir = kEvaluatedDir,
                        .task = {.type = "chief"},
                        .run = setting_.run,
                        .fs = &files,
                        .clock = &clock,
                        .beat = std::chrono::hours(24)});
    clock.set_renewal([&] { link.renew_lease(); });
    try {
      train_to_end(files, mount, clock, link);
    } catch (const Error& error) {
      link.failed(error);
      throw;
    }
  }

  // A run that ended before this one began.
  void leave_earlier_run(FileSystem& files, Clock& clock) {
    CheckpointManager manager(kEvaluatedDir, {.fs = &files, .clock = &clock});
    TrainedState state;
    while (state.step < setting_.earlier_step) state.train();
    manager.save(state.checkpoint());
    write_run_end(kEvaluatedDir, {EndReason::kSteps, state.step, ""}, files);
    saved_ = std::max(saved_, state.step);
  }

  void train_to_end(FileSystem& files, const SimulatedDisk::Mount& mount, Clock& clock,
                    EvaluatorLink& link) {
    CheckpointManager manager(
        kEvaluatedDir, {.fs = &files, .clock = &clock, .keep_checkpoint_max = setting_.keep});
    remove_run_end(kEvaluatedDir, files);
    TrainedState state;
    if (const auto loaded = manager.load_latest()) state = state_of(loaded->checkpoint);
    require(state.step >= saved_, "no saved checkpoint is lost");
    while (state.step < setting_.last_step) {
      clock.sleep_for(from_seconds(setting_.step * stage_.simulated.uniform(0.5, 1.5)));
      if (mount.killed() || stage_.over()) return;
      state.train();
      for (const Evaluation& one : link.take_evaluations())
        require(one.global_step <= state.step, "no evaluation is of a step to come");
      const bool is_last = state.step == setting_.last_step;
      if (planted_.hands_over_early && state.step + 1 == setting_.last_step)
        (void)link.hand_over(state.step);
      if (!is_last && state.step % setting_.save_every != 0) continue;
      manager.save(state.checkpoint());
      if (mount.killed()) return;
      saved_ = std::max(saved_, state.step);
      // An evaluator that has evaluated keeps what comes.
      if (!evaluated_.empty()) wanted_.insert(state.step);
      note(fmt::format("step {} is saved", state.step));
    }
    if (!link.hand_over(state.step) || !link.await_last({""}, state.step, {})) {
      clock.sleep_for(from_seconds(setting_.evaluation));
      const std::string prefix = manager.latest().value_or("");
      const internal::CheckpointFile file = internal::checkpoint_file_of(prefix, files);
      link.note({.checkpoint = file.name,
                 .version = file.version,
                 .metrics = {{"global_step", static_cast<float>(state.step)}},
                 .is_final = true});
      note("the chief has evaluated the last step");
    }
    write_run_end(kEvaluatedDir, {EndReason::kMaxSteps, state.step, setting_.run}, files);
    if (mount.killed() || stage_.over()) return;
    trained_ = true;
    note("the chief is done");
  }

  // --- an evaluator ---

  void start_evaluator(size_t i) {
    start(
        evaluators_[i], fmt::format("evaluator {}", i),
        [this, i](auto& process, auto& files) { evaluate(i, process, files); },
        [this, i] {
          if (!trained_)
            stage_.after(stage_.simulated.uniform(0.5, 8), [this, i] { start_evaluator(i); });
        });
  }

  void evaluate(size_t i, Stage::Process& process, SimulatedDisk::Mount& mount) {
    RenewingClock clock(process);
    RunConfig config;
    config.model_dir = kEvaluatedDir;
    config.fs = &mount;
    config.clock = &clock;
    config.join_timeout = Seconds(60);
    config.evaluator_timeout = Seconds(300);
    const std::string tf_config = fmt::format(R"({{"cluster":{{"chief":["host0:2222"]}},)"
                                              R"("task":{{"type":"evaluator","index":{}}}}})",
                                              i);
    config.environment = Environment{{"TF_CONFIG", tf_config}, {"MUSTER_RUN_ID", setting_.run}};
    Estimator estimator(
        [](const Features&, const Labels&, Mode, ModelContext&) -> EstimatorSpec {
          throw internal_error("the simulation calls no model", "a fault of the simulation");
        },
        config);
    const std::vector<EvalSpec> specs = {
        {.input_fn = []() -> Dataset {
           throw internal_error("the simulation reads no data", "a fault of the simulation");
         },
         .start_delay_secs = Seconds(0),
         .throttle_secs = Seconds(setting_.throttle),
         .every_checkpoint = setting_.every_checkpoint && !planted_.skips_checkpoints}};
    EvaluatorTask task(estimator, specs,
                       setting_.knows_last_step ? std::optional(setting_.last_step) : std::nullopt,
                       {.evaluate =
                            [&](const EvaluateOptions& options) {
                              return evaluate_one(estimator, clock, mount,
                                                  *options.checkpoint_path);
                            },
                        .beat = std::chrono::hours(24)});
    clock.set_renewal([&] { task.renew_lease(); });
    const TrainAndEvaluateResult result = task.run();
    if (stage_.over() || mount.killed()) return;
    note(fmt::format("evaluator {} is done, at step {}", i, result.training.global_step));
    const bool knows = evaluated_[setting_.last_step] > 0 || saved_ == setting_.last_step;
    require(knows || chief_.struck || doubted_,
            "an evaluator ends only after the last step is saved");
  }

  internal::EvaluationCourse::Evaluated evaluate_one(Estimator& estimator, RenewingClock& clock,
                                                     SimulatedDisk::Mount& mount,
                                                     const std::string& prefix) {
    const double begun = stage_.simulated.seconds();
    const CheckpointManager manager(kEvaluatedDir, {.fs = &mount, .clock = &clock});
    int64_t step = 0;
    try {
      step = state_of(manager.load(prefix)).step;
    } catch (const Error& error) {
      require(error.kind() != ErrorKind::kCorrupt,
              "a checkpoint that is evaluated is whole: " + error.message());
      if (error.kind() == ErrorKind::kNotFound)
        internal::EstimatorAccess::impl(estimator).unreadable = error;
      throw;
    }
    clock.sleep_for(from_seconds(setting_.evaluation * stage_.simulated.uniform(0.5, 1.5)));
    const bool there = disk_.content(checkpoint_file(prefix)).has_value();
    const bool kept = stage_.simulated.seconds() - begun < kLeaseIsSafe && !doubted_ &&
                      !std::ranges::any_of(evaluators_, &Task::struck);
    require(there || !kept,
            fmt::format("the checkpoint of step {} stays while it is evaluated", step));
    ++evaluated_[step];
    note(fmt::format("step {} is evaluated", step));
    return {.result = {{"global_step", static_cast<float>(step)}, {"loss", 1.0F}},
            .checkpoint = prefix};
  }

  // --- the end ---

  void check_end() {
    const std::string journal = disk_.content("model/evaluations.jsonl").value_or("");
    const auto has = [&](int64_t step) {
      return journal.find(fmt::format("\"model.ckpt-{}\"", step)) != std::string::npos;
    };
    if (!has(setting_.last_step))
      return stage_.fail("the last checkpoint is evaluated before the chief ends");
    if (!setting_.every_checkpoint || doubted_ || chief_.struck ||
        std::ranges::any_of(evaluators_, &Task::struck))
      return;
    for (const int64_t step : wanted_) {
      if (evaluated_[step] == 0)
        return stage_.fail(
            fmt::format("every checkpoint is evaluated; that of step {} was not", step));
    }
  }

  const EvaluatorSetting setting_;
  const EvaluatorScenario::Planted& planted_;
  Task chief_;
  std::vector<Task> evaluators_;
  bool trained_ = false, has_earlier_ = false;
  int64_t saved_ = 0;
  std::map<int64_t, int> evaluated_;  // how often, by step
  std::set<int64_t> wanted_{};        // steps that an evaluator of every checkpoint evaluates
  bool doubted_ = false;              // leases may have counted for nothing
};

}  // namespace

std::vector<Fault> EvaluatorScenario::faults(uint64_t seed) const {
  Random random(derive_key(seed, {id_of("evaluator"), id_of("faults")}));
  std::vector<Fault> faults(random.uniform_below(5));
  for (Fault& fault : faults) {
    fault.at = kEvaluatorFaultsEnd * random.uniform() * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(kEvaluatorFaults));
    fault.task = static_cast<int>(random.uniform_below(12));
    fault.amount = kLongestEvaluatorFault * random.uniform();
    if (fault.kind == kTheDateJumps) fault.amount = 20'000 * (random.uniform() - 0.5);
    const std::string who = fault.kind <= kChiefIsCutOff
                                ? "the chief"
                                : fmt::format("evaluator {} (modulo their number)", fault.task);
    switch (fault.kind) {
      case kChiefDies:
      case kAnEvaluatorDies:
        fault.text = who + " dies";
        break;
      case kChiefStands:
      case kAnEvaluatorStands:
        fault.text = fmt::format("{} stands still for {:.1f} s", who, fault.amount);
        break;
      case kChiefIsCutOff:
      case kAnEvaluatorIsCutOff:
        fault.text = fmt::format("{} does not reach the disk for {:.1f} s", who, fault.amount);
        break;
      case kSharedDiskFails:
        fault.text = fmt::format("the disk fails now and then for {:.1f} s", fault.amount);
        break;
      case kSharedDiskIsSlow:
        fault.text = fmt::format("the disk is 200 times slower for {:.1f} s", fault.amount);
        break;
      case kSharedDiskIsFull:
        fault.text = fmt::format("the disk is full for {:.1f} s", fault.amount);
        break;
      case kPowerIsCut:
        fault.text = "the machine loses its power";
        break;
      default:
        fault.text = fmt::format("the date jumps by {:.0f} s", fault.amount);
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

std::string EvaluatorScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                                   Trace& trace) const {
  return EvaluatorWorld(seed, faults, planted_, trace).run();
}

}  // namespace muster::sim
