#include "muster/train/pace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/log.h"
#include "muster/plan/activity.h"
#include "muster/train/internal/run_input.h"
#include "muster/train/internal/worker_positions.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

using distribute::Replica;
using distribute::ReplicaInput;
using distribute::SharedRun;

// All replicas make every step together.
class InStep final : public Pace {
 public:
  explicit InStep(const Replica& replica) : replica_(replica) {}

  void check(NonFinitePolicy) const override {}
  bool needs_data() const override { return true; }
  void tell_form(const std::function<std::string()>&) override {}

  void begin(Engine& engine, ReplicaInput* input, const RunStart& start) override {
    if (input == nullptr || engine.restored_from().empty()) return;
    internal::continue_input(engine, *input, start.restart_input, start.examples_of_step);
    start.continued();
  }

  bool begin_step(int64_t step, int64_t last_step) override {
    return last_step < 0 || step < last_step;
  }
  void read_weights() override {}
  bool is_near(StepTimer& due, int64_t, int64_t step) const override { return due.due(step + 1); }

  // If processes have data of their own, the last one to end decides, which this one does not know.
  int64_t batches_left(const ReplicaInput& input) const override {
    if (input.by_process() && replica_.place().processes > 1) return kUnknown;
    return input.batches().remaining();
  }

  std::map<std::string, double> measures() override { return {}; }
  bool others_go_on() const override { return false; }
  bool saves() const override { return true; }
  bool goes_on_after(const Error&) const override { return false; }
  int64_t end_steps(End, int64_t step, const std::function<void(int64_t)>&) override {
    return step;
  }

 private:
  const Replica& replica_;
};

// The ledger of parameter servers counts the steps of all workers.
class AtOwnPace final : public Pace {
 public:
  AtOwnPace(const Replica& replica, SharedRun& run) : replica_(replica), run_(run) {}

  void check(NonFinitePolicy policy) const override {
    if (policy != NonFinitePolicy::kRollBack) return;
    throw invalid_argument(
        "not supported: NonFinitePolicy::kRollBack on parameter servers, where others train on "
        "meanwhile",
        "take NonFinitePolicy::kSkip, or kStop, which is the default");
  }
  // The others train on their own data; the model is built from the chief's.
  bool needs_data() const override { return replica_.is_chief(); }
  void tell_form(const std::function<std::string()>& form) override { run_.set_batch_form(form()); }

  void begin(Engine& engine, ReplicaInput* input, const RunStart& start) override {
    const bool begins = replica_.is_chief() && !run_.live();
    const nlohmann::json& inputs = engine.restored_inputs();
    if (begins && start.restart_is_asked && inputs.contains("train")) {
      log::info(
          fmt::format("RunConfig.restart_input is set: each of the {} workers reads its data from "
                      "the beginning, not from the position in {}",
                      replica_.place().processes, engine.restored_from()));
    }
    SharedRun::Start run{.last_step = start.last_step};
    if (inputs.contains("train") && !start.restart_input) {
      run.positions = internal::positions_of_workers(inputs.at("train"), replica_.place().processes,
                                                     engine.restored_from());
    }
    const std::string position = engine.begin(run_, std::move(run));
    if (input == nullptr) return;
    if (!position.empty()) {
      internal::continue_at(engine, *input, position);
    } else if (!replica_.is_chief()) {
      log::info(fmt::format("joined the run at step {}", engine.step()));
    } else if (!engine.restored_from().empty()) {
      internal::tell_restored(engine, *input);
    }
    run_.set_position([input] { return input->batches().save().dump(); });
  }

  bool begin_step(int64_t, int64_t) override {
    const plan::InActivity communicates(plan::Activity::kCommunication);
    return run_.begin_step();
  }
  void read_weights() override { run_.read_weights(); }

  // The number of the next step is unknown: it is one of the next few.
  bool is_near(StepTimer&, int64_t every, int64_t step) const override {
    if (every <= 0) return false;
    const int64_t few = 3 * replica_.place().processes;
    return step % every + few >= every || step % every < few;
  }

  int64_t batches_left(const ReplicaInput&) const override { return kUnknown; }
  std::map<std::string, double> measures() override {
    return replica_.is_chief() ? run_.measures() : std::map<std::string, double>();
  }

  bool others_go_on() const override { return true; }
  bool saves() const override { return replica_.is_chief(); }
  bool save_wanted() const override { return replica_.is_chief() && run_.save_wanted(); }
  void set_saves(bool saves) override { run_.set_saves(saves); }
  // There is more to save than was evaluated.
  bool goes_on_after(const Error& error) const override {
    return error.kind() == ErrorKind::kCancelled && stop_signal() != 0;
  }

  int64_t end_steps(End end, int64_t, const std::function<void(int64_t step)>& waits) override {
    return run_.end_steps(end, waits);
  }

 private:
  const Replica& replica_;
  SharedRun& run_;
};

}  // namespace

std::unique_ptr<Pace> Pace::of(Replica& replica) {
  if (SharedRun* const run = replica.shared()) return std::make_unique<AtOwnPace>(replica, *run);
  return std::make_unique<InStep>(replica);
}

}  // namespace muster::inline v0_1
