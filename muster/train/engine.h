// One replica of one run: restores, builds, steps, saves, ends. Estimators and loops written by
// hand drive it: they decide what to compute, when to save and when to stop. Thread safety: belongs
// to the replica's thread.
//
// The order of calls: find_checkpoint() if the run may continue one, build() once, then train() and
// save(), then finish(). Every replica makes the same calls in the same order; calls that wait for
// others are made inside of guarded().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/checkpoint/manager.h"
#include "muster/checkpoint/warm_start_settings.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/shared_run.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/batch.h"
#include "muster/train/save_together.h"

namespace muster::inline v0_1 {

// Calls `work`, the only work of this replica for a while, on its device. If it throws, `failing`
// is called, then the other replicas receive the reason, and then the error is rethrown. An error
// of LibTorch becomes InvalidArgument that says `where()`, or Internal when memory ran out or the
// machine failed; all others are rethrown unchanged.
MUSTER_PART_EXPORT void guarded(distribute::Replica& replica, const std::function<void()>& work,
                                const std::function<void()>& failing,
                                const std::function<std::string()>& where);

// While one lives, a batch of zero rows leaves no trace in variables of kOnRead: statistics of no
// examples are not numbers. For other batches it does nothing.
class ZeroRowGuard {
 public:
  ZeroRowGuard(distribute::VariableTable& variables, int64_t rows);
  ~ZeroRowGuard();
  ZeroRowGuard(const ZeroRowGuard&) = delete;
  ZeroRowGuard& operator=(const ZeroRowGuard&) = delete;

 private:
  distribute::VariableTable& variables_;
  const int exceptions_;
  std::vector<Tensor> statistics_;
};

class MUSTER_PART_EXPORT Engine {
 public:
  // `replica` outlives it. `accumulate_steps` batches make one update.
  Engine(distribute::Replica& replica, int64_t accumulate_steps);
  ~Engine();

  distribute::Replica& replica() const { return replica_; }
  // Updates so far, including those before the checkpoint.
  int64_t step() const { return step_; }
  bool built() const { return built_; }

  // The chief reads the newest good checkpoint of `checkpoints`, and all replicas learn its step.
  // False if there is none. Its values are in the variables after build().
  bool find_checkpoint(const CheckpointManager& checkpoints);
  // In place of find_checkpoint(): build() gives the chief the values of `state` for its variables
  // and slots, and leaves the others at their initial values. All replicas make this call with the
  // same state; messages call it `name`.
  void continue_from(const Checkpoint& state, const std::string& name);
  // Whether the run continues from a state that may lack some of its variables.
  bool continues_in_part() const { return in_part_; }
  // Its path, "" without one; the positions of its inputs, by driver; and its notes.
  const std::string& restored_from() const { return restored_from_; }
  const nlohmann::json& restored_inputs() const;
  const std::map<std::string, std::string>& restored_notes() const { return restored_notes_; }
  // The tensor of that name in the checkpoint, on the chief until build(); undefined if it has
  // none.
  Tensor found(const std::string& name) const { return found_ ? found_->tensor(name) : Tensor(); }

  // Where no checkpoint is found, build() gives the chief's variables the values that `settings`
  // choose; `fs`, which outlives the engine, is where they are read.
  void warm_start(const WarmStartSettings& settings, FileSystem& fs);

  // Called after a call of the model that made all variables, and described the training as
  // `train_op`: seals the variables and gives all replicas the chief's values, which come from the
  // checkpoint if one was found, else from a warm start. Throws InvalidArgument listing the
  // differences to it, or from another replica's; and the errors of muster::warm_start(). The chief
  // warns of patterns of the optimizers that are in the name of no variable.
  void build(const optim::TrainOp& train_op);

  // Called after build(), if workers train at their own pace: the run begins at this step, or this
  // worker joins it where it is. Returns the iterator state from which its data continues, "" at
  // its beginning.
  std::string begin(distribute::SharedRun& run, distribute::SharedRun::Start start);
  // Others have made updates as well.
  void follow(int64_t step) { step_ = step; }

  // As Replica::train_step() and Replica::apply_accumulated(). The error for a loss that is not
  // finite names its step and its cause: a variable, or the content of `batch`, which may be
  // nullptr if the batch is unknown.
  distribute::StepResult train(const distribute::StepInput& input, const Batch* batch);
  distribute::StepResult apply_accumulated();
  // From now on a step that is not finite is no error of the two: nothing is updated, and
  // StepResult::finite says so. Call it on all replicas.
  void report_non_finite();
  // The source of the last of these, on the replica that has it; "" on others.
  const std::string& non_finite_cause() const { return non_finite_cause_; }
  // Sets the state of all replicas to that of the newest good checkpoint; all call it together.
  // Throws NotFound if there is none.
  void roll_back(const CheckpointManager& checkpoints);

  // The contents of a checkpoint besides the state, and its writer.
  struct Save {
    std::function<nlohmann::json()> inputs{};  // positions of the inputs; on every replica
    int64_t epoch = 0;                         // of the input
    // On the chief: the program's notes. It is called when the checkpoint is about to be written,
    // and may write additional files: if it throws, the save has failed.
    std::function<std::map<std::string, std::string>()> notes{};
    std::function<CheckpointWriter&()> writer{};             // on the chief
    std::function<void(const std::string& prefix)> saved{};  // on the chief, once it is saved
    FailedSaves* may_fail = nullptr;                         // as save_together() takes it
  };
  // Saves the state of this step, by save_together(): all replicas call it. Throws NonFinite, and
  // saves nothing, if a variable is not finite; and the errors of save_together().
  Saved save(const Save& save);

  // The clean end: all replicas are through.
  void finish() { replica_.finish(); }

 private:
  // Takes the state of the checkpoint that was found, if one was.
  void restore_found();
  // The variables get values of another run, unless this one continues: before or after the build.
  void take_warm_start(bool built);
  distribute::StepResult told_with_cause(const std::function<distribute::StepResult()>& step,
                                         const Batch* batch, const Tensor& loss);

  // The initial values of a run without a checkpoint.
  struct WarmStart {
    WarmStartSettings settings{};
    FileSystem* fs{};
  };

  distribute::Replica& replica_;
  std::optional<WarmStart> warm_start_;
  int64_t step_ = 0;
  bool built_ = false;
  bool reports_non_finite_ = false;
  std::string non_finite_cause_;                      // of the step under way, or of the last one
  std::optional<distribute::FoundCheckpoint> found_;  // on the chief, until build()
  bool in_part_ = false;                              // continue_from() was called
  std::string restored_from_;
  std::unique_ptr<nlohmann::json> restored_inputs_;
  std::map<std::string, std::string> restored_notes_;
};

}  // namespace muster::inline v0_1
