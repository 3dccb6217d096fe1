// How the steps of a run are counted, and what follows from that for its driver. In step, all
// replicas count the same steps together; at their own pace, workers have the ledger of parameter
// servers count. Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/replica_input.h"
#include "muster/distribute/shared_run.h"
#include "muster/train/engine.h"
#include "muster/train/non_finite_policy.h"
#include "muster/train/step_timer.h"

namespace muster::inline v0_1 {

// How a run begins.
struct RunStart {
  bool restart_input = false;     // the input begins again,
  bool restart_is_asked = false;  // since RunConfig.restart_input is set
  int64_t examples_of_step = 0;   // 0: unknown
  // The step at which a run ends that begins at this one; nothing where its input ends it.
  std::function<std::optional<int64_t>(int64_t step)> last_step{};
  // Called where the input of a run in step continues from a checkpoint.
  std::function<void()> continued{};
};

class Pace {
 public:
  using End = distribute::SharedRun::End;

  // The pace of the replica, which must outlive it.
  MUSTER_PART_EXPORT static std::unique_ptr<Pace> of(distribute::Replica& replica);
  virtual ~Pace() = default;

  // --- before the run begins ---
  // Throws InvalidArgument for a policy that there is none of at this pace.
  virtual void check(NonFinitePolicy policy) const = 0;
  // Whether a replica whose data gives no batch ends the run; else the others train without it.
  virtual bool needs_data() const = 0;
  // How batches look, as encode_batch_spec() says it, for who builds the model without one; it is
  // called only then.
  virtual void tell_form(const std::function<std::string()>& form) = 0;
  // After the build: the run begins, or goes on, or this worker joins it. Input and engine then
  // stand where it is. `input` is nullptr where this replica reads none. Throws InvalidArgument
  // where the input is not the one of the checkpoint.
  virtual void begin(Engine& engine, distribute::ReplicaInput* input, const RunStart& start) = 0;

  // --- steps ---
  // Whether there is a step to make, for which the weights are here then; `last_step` below 0:
  // until the data ends.
  virtual bool begin_step(int64_t step, int64_t last_step) = 0;
  // Brings the weights here as they are now, without a step.
  virtual void read_weights() = 0;
  // Whether `due`, of every this many steps, may be due with the next step.
  virtual bool is_near(StepTimer& due, int64_t every, int64_t step) const = 0;
  // Batches until the run ends for want of data, where that can be told; else below 0.
  virtual int64_t batches_left(const distribute::ReplicaInput& input) const = 0;
  // Numbers of the run so far, by the names of their summaries.
  virtual std::map<std::string, double> measures() = 0;

  // --- while this replica makes no step: it saves, evaluates, or is through ---
  // Whether others make steps meanwhile.
  virtual bool others_go_on() const = 0;
  // Whether this replica takes part in saves.
  virtual bool saves() const = 0;
  // Whether it should save now, as a parameter server that has to stop asks.
  virtual bool save_wanted() const { return false; }
  // Whether the run saves at all: else servers that have to stop need not wait for it.
  virtual void set_saves(bool /*saves*/) {}
  // Whether the run goes on although an evaluation ended with this.
  virtual bool goes_on_after(const Error& error) const = 0;
  // This replica, at `step`, makes no more steps. It waits for those who go on:
  // `waits` is called now and then with the steps so far. Returns them.
  virtual int64_t end_steps(End end, int64_t step,
                            const std::function<void(int64_t step)>& waits) = 0;
};

}  // namespace muster::inline v0_1
