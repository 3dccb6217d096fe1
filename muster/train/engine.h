// One replica of one run: restores, builds, steps, saves, ends. Estimators and loops written by
// hand drive it: they decide what to compute, when to save and when to stop.
// Thread safety: belongs to the replica's thread.
//
// The order of calls: find_checkpoint() if the run may continue one, build() once, then train() and
// save(), then finish(). Every replica makes the same calls in the same order; those that meet
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
#include "muster/train/save_parts.h"
#include "muster/train/save_together.h"
#include "muster/train/state_copy.h"

namespace muster::inline v0_1 {

class CompilationLog;

// Calls `work`, which is all this replica does for a while, on its device. Where it throws,
// `failing` is called, then the other replicas learn why this one cannot go on, and then the error
// comes out. An error of LibTorch becomes InvalidArgument that says `where()`, or Internal when
// memory ran out or the machine failed; all others come out as they are.
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
  // Updates so far, those of the checkpoint included.
  int64_t step() const { return step_; }
  bool built() const { return built_; }

  // The chief reads the newest good checkpoint of `checkpoints`, and all replicas learn where it
  // stands. False when there is none. What it holds is in the variables after build().
  bool find_checkpoint(const CheckpointManager& checkpoints);
  // In place of find_checkpoint(): build() gives the chief what `state` has of its variables and
  // slots, and leaves the others as they begin. All replicas make this call with the same state;
  // `name` is how messages call it. `whole`: it is a state of this model with the positions of its
  // inputs and its notes, to which nothing may be missing.
  void continue_from(const Checkpoint& state, const std::string& name, bool whole = false);
  // Whether the run continues from a state that may lack some of its variables.
  bool continues_in_part() const { return in_part_; }
  // Where it was found, "" without one; the positions of the inputs it holds, by driver; and its
  // notes.
  const std::string& restored_from() const { return restored_from_; }
  const nlohmann::json& restored_inputs() const;
  const std::map<std::string, std::string>& restored_notes() const { return restored_notes_; }
  // What the checkpoint has of that name, on the chief until build(); undefined where it has none.
  Tensor found(const std::string& name) const { return found_ ? found_->tensor(name) : Tensor(); }

  // Where no checkpoint is found, build() gives the chief's variables the values that `settings`
  // choose; `fs`, which outlives the engine, is where they are read.
  void warm_start(const WarmStartSettings& settings, FileSystem& fs);

  // After a call of the model that made all variables, and described what trains as `train_op`:
  // seals the variables and gives all replicas the chief's, which are those of the checkpoint when
  // one was found, else those of a warm start. Throws InvalidArgument listing what differs from it,
  // or from another replica's; and what muster::warm_start() throws. The chief warns of patterns of
  // the optimizers that are in the name of no variable.
  void build(const optim::TrainOp& train_op);

  // Whether the model may grow by extend(): a checkpoint may then hold more than build() needs,
  // which is kept for extend() and saved again, and nothing of an optimizer that had made no step,
  // which begins anew with what it trains. Call it before build(). At first it may not.
  void may_extend(bool may) { may_extend_ = may; }
  // After build(), between two updates: a call of the model named new optimizers, or made more
  // variables. `train_op` names all optimizers, the known ones as before; what training has changed
  // stays as it is. All replicas call it together. Throws what build() throws.
  void extend(const optim::TrainOp& train_op);
  // Names of what the checkpoint holds and nothing has asked for; on the chief.
  std::vector<std::string> unclaimed() const;

  // After build(), where workers train at their own pace: the run begins at this step, or this
  // worker joins it where it is. Returns where its data goes on, "" at its beginning.
  std::string begin(distribute::SharedRun& run, distribute::SharedRun::Start start);
  // Others have made updates as well.
  void follow(int64_t step) { step_ = step; }

  // They do what Replica::train_step() and Replica::apply_accumulated() do. A loss that is not
  // finite is told with its step and with what is to blame: a variable, or what `batch` holds,
  // which may be nullptr if it is unknown.
  distribute::StepResult train(const distribute::StepInput& input, const Batch* batch);
  distribute::StepResult apply_accumulated();
  // From now on a step that is not finite is not an error of the two: nothing is updated, and
  // StepResult::finite says so. Call it on all replicas.
  void report_non_finite();
  // Where the last of these came from, on the replica that has it; "" on others.
  const std::string& non_finite_cause() const { return non_finite_cause_; }
  // The state of all replicas becomes that of the newest good checkpoint; all call it together.
  // Throws NotFound when there is none.
  void roll_back(const CheckpointManager& checkpoints);

  // What goes into a checkpoint next to the state, and who writes it.
  struct Save {
    std::function<nlohmann::json()> inputs{};  // positions of the inputs; on every replica
    int64_t epoch = 0;                         // of the input
    // On the chief: the program's notes. It is called when the checkpoint is about to be written,
    // and may write what belongs next to it: where it throws, the save has failed.
    std::function<std::map<std::string, std::string>()> notes{};
    // On the chief: if a thread writes the checkpoint, it calls this. Where it throws an Error, the
    // save has failed.
    BeforeSave beside{};
    std::function<CheckpointWriter&()> writer{};             // on the chief
    std::function<void(const std::string& prefix)> saved{};  // on the chief, once it is there
    // Where a large state may be written in parts, as this process sees it; "": in one file.
    std::string model_dir{};
    FileSystem* fs = nullptr;  // of model_dir; nullptr: the file system of the path
    SaveWay way{};             // as save_together() takes it
  };
  // Saves the state of this step, by save_together(): all replicas call it. If a thread writes the
  // checkpoint, this call makes the copy that it writes: on the chief, or of a large state on each
  // worker of its machine a part of it. Throws NonFinite, and saves nothing, when
  // a variable is not finite; and what save_together() throws.
  Saved save(const Save& save);

  // The clean end: all replicas are through.
  void finish() { replica_.finish(); }

 private:
  // The state becomes that of the checkpoint that was found, if one was.
  void restore_found();
  // What the checkpoint that was found has beyond the model is put aside, and what it lacks because
  // its optimizer had made no step is as the model begins.
  void fit_to_model(const optim::TrainOp& train_op);
  // The variables get values of another run, unless this one continues: before or after the build.
  void take_warm_start(bool built);
  // What a thread adds to the checkpoint of `save`, first what `fetch` gets; nothing where there is
  // nothing to add.
  RestOfCheckpoint rest_of(const Save& save,
                           std::function<void(distribute::ServedState::Cut& cut)> fetch);
  template <typename Step>
  distribute::StepResult told_with_cause(const Step& step, const Batch* batch, const Tensor& loss);

  // What a run without a checkpoint begins with.
  struct WarmStart {
    WarmStartSettings settings{};
    FileSystem* fs{};
  };

  distribute::Replica& replica_;
  const std::unique_ptr<CompilationLog> compilations_;
  std::optional<WarmStart> warm_start_;
  int64_t step_ = 0;
  bool built_ = false;
  bool reports_non_finite_ = false;
  std::string non_finite_cause_;                      // of the step under way, or of the last one
  std::optional<distribute::FoundCheckpoint> found_;  // on the chief, until build()
  bool in_part_ = false;                              // continue_from() was called
  bool may_extend_ = false;
  std::map<std::string, Tensor> kept_;  // on the chief, of a checkpoint, for extend()
  std::string restored_from_;
  std::unique_ptr<nlohmann::json> restored_inputs_;
  std::map<std::string, std::string> restored_notes_;
  SaveParts parts_;
  // For the thread that writes a checkpoint or a part. A part lies in memory as in its file.
  StateCopy copy_, part_copy_;
};

}  // namespace muster::inline v0_1
