// What the loop of a Cluster does, as people and the watchdog see it. A loop of LibTorch says
// little of itself: Muster knows of forwards in training, of averages in backward(), of batches
// that it reads, of its own calls and of saves. The rest is the program's. Thread safety: belongs
// to the thread of its Cluster; on a GPU backward() may call it on LibTorch's thread, while that
// one waits.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/error.h"
#include "muster/distribute/replica_place.h"
#include "muster/plan/activity.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1::internal {

class LoopView {
 public:
  explicit LoopView(const distribute::ReplicaPlace& place);

  plan::ActivityRecord& record() { return record_; }
  // A folder of the run, in which people look for it.
  void show_in(const std::string& folder) { watch_.show_in(folder); }
  int64_t step() const { return step_; }
  // The loop is at this step: a checkpoint says so.
  void set_step(int64_t step);
  // A forward in training begins. In a Cluster of one worker, whose backward() is LibTorch's alone,
  // the step before has ended unless its gradients are still added up.
  void begin_forward(bool adds_up);
  // The pass over the data of a step has so many batches left, the one that was read last included;
  // below 0: unknown. People see at which step it ends, while each batch makes one step.
  void show_left(int64_t batches);
  // The gradients of a module were averaged. A backward() through several modules is one step.
  void end_backward();
  // What reading is: a part of a step, or of the program's own pass over some data. Only the first
  // batch after a step counts, so that an evaluation does not look like a step that hangs.
  plan::Activity reading();
  // The Cluster is over: `error` is nullptr when it ended well.
  void end(const Error* error) noexcept { watch_.end(error); }

 private:
  const bool alone_;
  TaskWatch watch_;
  plan::ListedActivity record_;
  int64_t step_ = 0;
  bool in_step_ = false;     // a forward was made since the last step
  bool reads_next_ = false;  // no batch was read since
  // At the last batch of a step: its step; whether it was the only one since the step before; and
  // batches that were read since.
  int64_t read_at_ = -1;
  bool one_a_step_ = false;
  int64_t others_ = 0;
};

}  // namespace muster::inline v0_1::internal
