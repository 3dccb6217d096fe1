#include "muster/estimator/internal/training_watch.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/estimator/internal/lease_notes.h"
#include "muster/estimator/run_end.h"

namespace muster::inline v0_1::internal {
namespace {

// The state file comes a moment after the first checkpoint: it may be missing for this many looks
// before the names of the files count alone.
constexpr int kLooksForState = 20;

}  // namespace

TrainingWatch::TrainingWatch(EstimatorAccess::Impl& impl, std::optional<int64_t> max_steps)
    : impl_(impl),
      max_steps_(max_steps),
      fs_(impl.fs()),
      clock_(impl.clock()),
      manager_(impl.directory(), {.fs = impl.config.fs, .clock = impl.config.clock}),
      chief_watch_(impl.directory(), kChiefLease, fs_, clock_),
      patience_(std::min(impl.config.join_timeout, impl.config.evaluator_timeout).count()),
      begun_(clock_.now()),
      last_sign_(begun_) {}

std::vector<CheckpointFile> TrainingWatch::list() {
  const bool there = fs_.exists(join_path(impl_.directory(), "checkpoint")).value();
  looks_without_state_ = there ? 0 : looks_without_state_ + 1;
  std::vector<CheckpointFile> files;
  if (!there && !end_ && looks_without_state_ < kLooksForState) return files;
  for (const std::string& prefix : manager_.existing()) {
    Result<CheckpointFile> file = ask_checkpoint_file(prefix, fs_);
    if (!file.ok() && file.error().kind() == ErrorKind::kNotFound) continue;  // it went since
    files.push_back(std::move(file).value());
  }
  return files;
}

std::optional<CheckpointFile> TrainingWatch::newest() const {
  const std::optional<std::string> prefix = manager_.latest();
  if (!prefix) return std::nullopt;
  return checkpoint_file_of(*prefix, fs_);
}

std::optional<RunEnd> TrainingWatch::read_end() const {
  try {
    return read_run_end(impl_.directory(), fs_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    log::warning_once(error.message() + "; it counts as no end");
    return std::nullopt;
  }
}

void TrainingWatch::look() {
  // A chief that reports that training is through has saved its last checkpoint before.
  chief_ = chief_watch_.look();
  end_ = read_end();
  std::vector<CheckpointFile> files = list();
  const bool news = !files.empty() && (checkpoints_.empty() || files.back() != checkpoints_.back());
  checkpoints_ = std::move(files);
  const TimePoint now = clock_.now();
  if (chief_) last_chief_ = chief_->holder;
  // The final note of a chief that was never seen at work may be from a run before.
  const std::optional<Failure> words = failure_in_note(chief_watch_.last().note);
  const std::string run = impl_.run_id();
  const bool failed = words && (chief_worked_ || (!run.empty() && words->run == run));
  chief_worked_ |= chief_ && !words;
  if (!looked_) first_end_ = end_;
  end_is_new_ |= !end_ || end_ != first_end_ || chief_ || (news && looked_);
  if (chief_ || (news && looked_)) last_sign_ = now;

  TrainingSigns signs{.max_steps = max_steps_,
                      .chief_works = chief_ && !failed,
                      .chief_is_through = chief_ && end_in_note(chief_->note).has_value(),
                      .chief_failed = failed,
                      .end = end_,
                      .end_was_there = !end_is_new_,
                      .run = run};
  if (!checkpoints_.empty()) signs.newest_step = checkpoints_.back().step;
  state_ = judge_training(signs);
  if (state_ == TrainingState::kMaybeOver && to_seconds(now - begun_) >= patience_)
    state_ = TrainingState::kOver;
  witnessed_ |= state_ == TrainingState::kGoesOn || state_ == TrainingState::kUnknown;
  looked_ = true;
}

std::string TrainingWatch::failure() const {
  return failure_in_note(chief_watch_.last().note).value_or(Failure()).message;
}

std::optional<RunEnd> TrainingWatch::doubtful_end() const {
  return state_ == TrainingState::kMaybeOver ? end_ : std::nullopt;
}

}  // namespace muster::inline v0_1::internal
