#include "apps/sim/save_scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "apps/sim/disk_stage.h"
#include "apps/sim/trained_state.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/checkpoint/lease.h"
#include "muster/checkpoint/manager.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/failed_saves.h"
#include "muster/train/pending_save.h"

namespace muster::sim {
namespace {

constexpr const char* kModelDir = "model";
constexpr double kFaultsEnd = 40;  // seconds: no fault begins later
constexpr double kLongestFault = 20;
constexpr double kRunEnds = 900;    // whatever happens
constexpr double kSaveEnds = 120;   // a save on the slowest disk, with a frozen process
constexpr double kLeaseHolds = 50;  // a beat is due every few seconds, and 60 s are silence

enum SaveFault {
  kTrainerDiesAtChange,
  kTrainerDies,
  kTrainerStands,
  kEvaluatorDies,
  kEvaluatorStands,
  kPowerLoss,
  kDiskFull,
  kDiskFails,
  kDiskSlow,
  kDateJumps,
  kSaveFaults
};

std::string text_of(int kind, double amount) {
  switch (kind) {
    case kTrainerDiesAtChange:
      return fmt::format("the trainer dies at its {}th change of the files", amount);
    case kTrainerDies:
      return "the trainer dies";
    case kTrainerStands:
      return fmt::format("the trainer stands still for {:.1f} s", amount);
    case kEvaluatorDies:
      return "the evaluator dies";
    case kEvaluatorStands:
      return fmt::format("the evaluator stands still for {:.1f} s", amount);
    case kPowerLoss:
      return "the machine loses its power";
    case kDiskFull:
      return fmt::format("the disk is full for {:.1f} s", amount);
    case kDiskFails:
      return fmt::format("the disk fails now and then for {:.1f} s", amount);
    case kDiskSlow:
      return fmt::format("the disk is 200 times slower for {:.1f} s", amount);
    default:
      return fmt::format("the date jumps by {:.0f} s", amount);
  }
}

// How a run is set up.
struct SaveSetting {
  explicit SaveSetting(uint64_t seed) {
    Random random(derive_key(seed, {id_of("saves")}));
    last_step = 8 + static_cast<int64_t>(random.uniform_below(8));
    save_every = 1 + static_cast<int64_t>(random.uniform_below(3));
    keep = 1 + static_cast<int>(random.uniform_below(3));
    asynchronous = random.uniform_below(4) != 0;
    evaluator = random.uniform_below(4) != 0;
    failed_saves = static_cast<int64_t>(random.uniform_below(3)) * 2;
    step = 0.05 + 2 * random.uniform();
  }
  int64_t last_step = 0, save_every = 1;
  int keep = 1;
  bool asynchronous = true;
  bool evaluator = true;
  int64_t failed_saves = 0;
  double step = 1;  // seconds
};

class SaveWorld : private DiskStage {
 public:
  SaveWorld(uint64_t seed, const std::vector<Fault>& faults, const SaveScenario::Planted& planted,
            Trace& trace)
      : DiskStage(seed, trace), setting_(seed), planted_(planted) {
    start_trainer();
    if (setting_.evaluator) start_evaluator();
    for (const Fault& fault : faults) {
      stage_.at(fault.at, [this, &fault] {
        stage_.note(fault.text);
        strike(fault);
      });
    }
  }

  std::string run() {
    stage_.run(kRunEnds, [this] {
      return trained_ && (!setting_.evaluator || evaluated_ >= setting_.last_step);
    });
    stop_evaluator_ = true;
    stage_.run(2 * kRunEnds, [this] { return !evaluator_.alive && !trainer_.alive; });
    if (stage_.broken().empty()) save_without_faults();
    end_stage();
    return stage_.broken();
  }

 private:
  void strike(const Fault& fault) {
    const TimePoint until = stage_.simulated.now() + from_seconds(fault.amount);
    switch (fault.kind) {
      case kTrainerDiesAtChange:
        if (trainer_.alive) trainer_.files->kill_at(static_cast<int64_t>(fault.amount));
        break;
      case kTrainerDies:
        if (trainer_.alive) trainer_.files->kill();
        break;
      case kTrainerStands:
        if (trainer_.alive) trainer_.process->freeze_until(until);
        break;
      case kEvaluatorDies:
        if (evaluator_.alive) evaluator_.files->kill();
        break;
      case kEvaluatorStands:
        if (evaluator_.alive) evaluator_.process->freeze_until(until);
        break;
      case kPowerLoss:
        cut_power();
        break;
      case kDiskFull:
        disk_.fill_until(until);
        break;
      case kDiskFails:
        disk_.fail_until(until);
        break;
      case kDiskSlow:
        disk_.slow_until(until, 200);
        break;
      default:
        stage_.simulated.jump_wall(fault.amount);
        date_went_back_ = date_went_back_ || fault.amount < 0;
        // A lease that looks old when it is seen for the first time does not count.
        doubted_ = true;
    }
  }

  // --- the trainer ---

  void start_trainer() {
    start(
        trainer_, "the trainer", [this](auto& process, auto& files) { train(process, files); },
        [this] {
          if (!trained_)
            stage_.after(stage_.simulated.uniform(0.5, 5), [this] { start_trainer(); });
        });
  }

  void train(Stage::Process& process, SimulatedDisk::Mount& mount) {
    const std::unique_ptr<FileSystem> planted = planted_.files ? planted_.files(mount) : nullptr;
    FileSystem& files = planted != nullptr ? *planted : mount;
    const CheckpointManagerOptions options{
        .fs = &files, .clock = &process, .keep_checkpoint_max = setting_.keep};
    CheckpointWriter writer(kModelDir, options);
    // A thread that writes must be at its end before the writer is.
    const auto is_written = [&] { return writer.is_done(); };
    struct Settle {
      Stage::Process& process;
      const std::function<bool()> is_written;
      ~Settle() {
        while (!is_written()) process.sleep_for(from_seconds(0.01));
      }
    } const settle{process, is_written};

    TrainedState state = resume(CheckpointManager(kModelDir, options));
    FailedSaves failed(setting_.failed_saves, "max_failed_saves");
    PendingSave pending;
    const auto await = [&] {
      const double begun = stage_.simulated.seconds();
      while (!is_written()) process.sleep_for(from_seconds(0.01));
      require(stage_.simulated.seconds() - begun < kSaveEnds, "a save in flight ends");
      pending.await();
    };
    const auto save = [&](bool must) {
      await();
      const TrainedState saved = state;
      const auto is_there = [this, saved](const std::string&) { note_saved(saved.step); };
      if (must || !setting_.asynchronous) {
        failed.attempt(must, [&] { is_there(writer.save(saved.checkpoint())); });
        return;
      }
      pending.begin(
          &writer, [&] { return saved.checkpoint(); }, is_there, &failed);
      if (!writer.is_done()) stage_.simulated.await_threads(process, 2);
    };
    if (state.step == 0) save(/*must=*/true);
    while (state.step < setting_.last_step) {
      process.sleep_for(from_seconds(setting_.step * stage_.simulated.uniform(0.5, 1.5)));
      if (mount.killed()) return;
      state.train();
      pending.look();
      if (state.step % setting_.save_every == 0 && state.step < setting_.last_step)
        save(/*must=*/false);
    }
    save(/*must=*/true);
    if (mount.killed()) return;
    trained_ = true;
    stage_.note(fmt::format("process {}: the trainer is done", process.number()));
  }

  TrainedState resume(const CheckpointManager& manager) {
    const auto loaded = [&] {
      try {
        return manager.load_latest();
      } catch (const Error& error) {
        require(error.kind() != ErrorKind::kCorrupt,
                "no checkpoint is damaged: " + error.message());
        throw;
      }
    }();
    require(loaded || saved_ < 0, fmt::format("the checkpoint of step {} is not lost", saved_));
    if (!loaded) return {};
    require(loaded->skipped.empty(),
            loaded->skipped.empty() ? "" : "no checkpoint is damaged: " + loaded->skipped.front());
    require(loaded->checkpoint.global_step >= saved_,
            fmt::format("the checkpoint of step {} is not lost; found step {}", saved_,
                        loaded->checkpoint.global_step));
    TrainedState state = state_of(loaded->checkpoint);
    stage_.note(fmt::format("the trainer continues after step {}", state.step));
    if (planted_.skips_an_example) ++state.example;
    return state;
  }

  void note_saved(int64_t step) {
    stage_.note(fmt::format("the checkpoint of step {} is saved", step));
    saved_ = std::max(saved_, step);
    if (std::ranges::find(saved_steps_, step) == saved_steps_.end()) saved_steps_.push_back(step);
  }

  // --- the evaluator, which evaluates every checkpoint ---

  void start_evaluator() {
    start(
        evaluator_, "the evaluator",
        [this](auto& process, auto& files) { evaluate(process, files); },
        [this] {
          if (!stop_evaluator_)
            stage_.after(stage_.simulated.uniform(0.5, 5), [this] { start_evaluator(); });
        });
  }

  void evaluate(Stage::Process& process, SimulatedDisk::Mount& mount) {
    const auto now = [&] { return stage_.simulated.seconds(); };
    const double begun = now();
    // Its own thread would beat by the machine's clock; this evaluator beats itself.
    Lease lease(kModelDir, "evaluator", {.holder = "evaluator", .pinned_from = 0},
                {.fs = &mount, .beat = std::chrono::hours(24)});
    double beaten = begun;
    // Checkpoints that were saved before the lease was seen may go.
    std::ptrdiff_t first_kept = std::ssize(saved_steps_);
    const CheckpointManager manager(kModelDir, {.fs = &mount, .clock = &process});
    while (!stop_evaluator_ && !mount.killed()) {
      const auto next =
          std::ranges::find_if(saved_steps_, [&](int64_t step) { return step > evaluated_; });
      const bool any = next != saved_steps_.end();
      const std::ptrdiff_t place = next - saved_steps_.begin();
      const int64_t step = any ? *next : evaluated_ + 1;
      try {
        lease.change([&](LeaseContent& content) { content.pinned_from = step; });
        // Until this beat the lease may have counted for nothing.
        if (std::exchange(doubted_, false) || now() - beaten > kLeaseHolds)
          first_kept = std::ssize(saved_steps_);
        beaten = now();
      } catch (const Error&) {
        // The disk fails: the next beat tries again.
      }
      const auto kept = [&] {
        return place >= first_kept && !doubted_ && now() - beaten < kLeaseHolds;
      };
      if (any) look_at(manager, step, kept);
      process.sleep_for(from_seconds(stage_.simulated.uniform(0.2, 3)));
    }
  }

  void look_at(const CheckpointManager& manager, int64_t step, const std::function<bool()>& kept) {
    try {
      (void)state_of(manager.load(fmt::format("{}/model.ckpt-{}", kModelDir, step)));
      stage_.note(fmt::format("the evaluator reads step {}", step));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) return;  // the disk fails, or the process is dead
      require(error.kind() == ErrorKind::kNotFound,
              fmt::format("the checkpoint of step {} is whole: {}", step, error.message()));
      require(!kept(), fmt::format("the evaluator's lease keeps step {}", step));
    }
    evaluated_ = step;
  }

  // --- the end ---

  void save_without_faults() {
    Task task;
    bool saved = false;
    // The lease of an evaluator that died is silent by then.
    stage_.after(61 + 2 * kLongestFault, [&] {
      start(task, "a trainer without faults", [&](auto& process, auto& files) {
        CheckpointManager manager(
            kModelDir, {.fs = &files, .clock = &process, .keep_checkpoint_max = setting_.keep});
        TrainedState state = resume(manager);
        for (int i = 0; i <= setting_.keep; ++i) {
          // The second look at a silent lease finds it dead.
          if (i == 1) process.sleep_for(from_seconds(61));
          state.train();
          manager.save(state.checkpoint());
        }
        saved = true;
      });
    });
    stage_.run(3 * kRunEnds, [&] { return saved && !task.alive; });
    if (!stage_.broken().empty()) return;
    std::vector<std::string> left = disk_.names(kModelDir);
    std::erase_if(left,
                  [](const std::string& name) { return name.starts_with("evaluator.lease"); });
    // By the date of the files, one that a killed save left may be older than the list then: it
    // stays.
    if (date_went_back_) return;
    if (std::ssize(left) != setting_.keep + 1)
      stage_.fail(fmt::format("a save leaves {} checkpoints and their list, not {}", setting_.keep,
                              fmt::join(left, ", ")));
  }

  const SaveSetting setting_;
  const SaveScenario::Planted& planted_;
  Task trainer_, evaluator_;
  bool trained_ = false, stop_evaluator_ = false;
  int64_t saved_ = -1;                // the newest step of which a save has returned
  std::vector<int64_t> saved_steps_;  // in the order of their first save
  int64_t evaluated_ = -1;
  bool doubted_ = false;  // the date has jumped since the evaluator's last beat
  bool date_went_back_ = false;
};

}  // namespace

std::vector<Fault> SaveScenario::faults(uint64_t seed) const {
  Random random(derive_key(seed, {id_of("saves"), id_of("faults")}));
  std::vector<Fault> faults(1 + random.uniform_below(6));
  for (Fault& fault : faults) {
    fault.at = kFaultsEnd * random.uniform() * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(kSaveFaults));
    fault.amount = kLongestFault * random.uniform();
    if (fault.kind == kTrainerDiesAtChange)
      fault.amount = 1 + static_cast<double>(random.uniform_below(30));
    if (fault.kind == kDateJumps) fault.amount = 20'000 * (random.uniform() - 0.5);
    fault.text = text_of(fault.kind, fault.amount);
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

std::string SaveScenario::run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const {
  return SaveWorld(seed, faults, planted_, trace).run();
}

}  // namespace muster::sim
