// An evaluator's view of the training that it follows: the existing checkpoints, whether a chief is
// at work, and whether training is over. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/checkpoint/lease.h"
#include "muster/checkpoint/manager.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/estimator/internal/evaluation_journal.h"
#include "muster/estimator/internal/evaluator_plan.h"

namespace muster::inline v0_1::internal {

class TrainingWatch {
 public:
  // `impl` outlives it. `max_steps` is the TrainSpec's.
  TrainingWatch(EstimatorAccess::Impl& impl, std::optional<int64_t> max_steps);

  // Looks at model_dir. Throws the errors of reading it; a damaged run_end.json counts as none.
  void look();

  // The checkpoints of the last look, in the order they were saved.
  const std::vector<CheckpointFile>& checkpoints() const { return checkpoints_; }
  // The newest one by now.
  std::optional<CheckpointFile> newest() const;
  // Whether no more checkpoints will come, for one of the two reasons.
  bool over() const { return state_ == TrainingState::kOver || failed(); }
  bool failed() const { return state_ == TrainingState::kFailed; }
  // Why training failed.
  std::string failure() const;
  // Whether training was not over at some look.
  bool witnessed() const { return witnessed_; }
  // The chief's lease, while one is at work.
  const std::optional<LeaseContent>& chief() const { return chief_; }
  // The chief that was seen last, for messages; empty when none was.
  const std::string& last_chief() const { return last_chief_; }
  // For how long no chief was at work and no checkpoint came.
  double quiet_seconds() const { return to_seconds(clock_.now() - last_sign_); }
  // The end of a run that may be the one before, for messages; nothing when there is none.
  std::optional<RunEnd> doubtful_end() const;
  // How many seconds such an end is doubted.
  double patience() const { return patience_; }

 private:
  std::vector<CheckpointFile> list();
  std::optional<RunEnd> read_end() const;

  EstimatorAccess::Impl& impl_;
  const std::optional<int64_t> max_steps_;
  FileSystem& fs_;
  Clock& clock_;
  const CheckpointManager manager_;
  LeaseWatch chief_watch_;
  const double patience_;
  const TimePoint begun_;
  TimePoint last_sign_;
  std::vector<CheckpointFile> checkpoints_;
  std::optional<LeaseContent> chief_;
  std::string last_chief_;
  std::optional<RunEnd> end_;
  std::optional<RunEnd> first_end_;
  TrainingState state_ = TrainingState::kUnknown;
  bool looked_ = false;
  bool chief_worked_ = false;  // at some look
  bool witnessed_ = false;
  bool end_is_new_ = false;  // an end that exists now came, or will come, after the first look
  int looks_without_state_ = 0;
};

}  // namespace muster::inline v0_1::internal
