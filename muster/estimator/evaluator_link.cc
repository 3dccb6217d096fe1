#include "muster/estimator/internal/evaluator_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/manager.h"
#include "muster/estimator/internal/lease_notes.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr double kNewsSeconds = 0.5;
// Until the next look after one that failed, each of which may take minutes.
constexpr double kTroubleSeconds = 30;
constexpr std::chrono::milliseconds kAnswerLook{50};
// While the last evaluation is under way: how often to look, and to say so.
constexpr std::chrono::milliseconds kWorkLook{200};
constexpr double kTellSeconds = 10;
// An evaluation that takes longer is stuck, as it is for the other tasks of a run.
constexpr double kLongestEvaluation = 6 * 3600;

std::string key_of(const std::string& checkpoint, const std::string& version) {
  return checkpoint + " " + version;
}

}  // namespace

EvaluatorLink::EvaluatorLink(Options options)
    : options_(std::move(options)),
      evaluator_(options_.model_dir, kEvaluatorLease, *options_.fs, *options_.clock),
      journal_(options_.model_dir, *options_.fs, *options_.clock) {
  look();
}

bool EvaluatorLink::evaluator_works() {
  look();
  return works_;
}

void EvaluatorLink::say_that_it_left() const {
  log::info(evaluator_.last().holder.empty()
                ? "the evaluator has ended: this task evaluates until another evaluator starts"
                : fmt::format("{} is dead: this task evaluates until there is another evaluator",
                              evaluator_.last().holder));
}

std::vector<Evaluation> EvaluatorLink::take_evaluations() {
  if (options_.clock->now() >= next_look_) look();
  return std::exchange(found_, {});
}

void EvaluatorLink::look() {
  const std::optional<LeaseContent> seen = evaluator_.look();
  if (seen && !works_) {
    log::info(fmt::format("{} evaluates the checkpoints, so this task does not", seen->holder));
  } else if (!seen && works_ && !through_) {
    say_that_it_left();
  }
  works_ = seen.has_value();
  // Where the run has a name, `muster run` has started an evaluator, which may come a little later.
  if ((works_ || !options_.run.empty()) && !lease_) take_lease();
  const bool away = begun_ && evaluator_.trouble();
  const bool heard =
      !away && attempt("what an evaluator found cannot be read now, and is looked for again",
                       [&] { read_journal(); });
  next_look_ = options_.clock->now() + from_seconds(heard ? kNewsSeconds : kTroubleSeconds);
}

// Training does without, while a store is away. But at its start it must know the earlier state.
bool EvaluatorLink::attempt(const std::string& trouble, const std::function<void()>& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    const bool passes =
        error.kind() == ErrorKind::kUnavailable || error.kind() == ErrorKind::kTimeout;
    if (!passes || !begun_) throw;
    log::warning(fmt::format("{}: {}", trouble, error.message()));
    return false;
  }
}

// Without it the evaluator knows less; why nothing can be written here shows with the first save.
void EvaluatorLink::take_lease() {
  try {
    lease_.emplace(options_.model_dir, kChiefLease,
                   LeaseContent{.holder = describe_process(options_.task)},
                   LeaseOptions{.fs = options_.fs, .beat = options_.beat});
  } catch (const Error& error) {
    log::warning_once(error.message());
  }
}

void EvaluatorLink::read_journal() {
  const std::vector<JournalEntry> entries = journal_.read_new();
  const bool before = !std::exchange(begun_, true);  // of this run
  for (const JournalEntry& entry : entries) {
    if (entry.is_final && !entry.version.empty())
      ever_finished_.emplace(entry.name, key_of(entry.checkpoint, entry.version));
    const bool ours = !options_.run.empty() && entry.run == options_.run;
    if (before && !ours) continue;
    if (entry.is_final && entry.task != options_.task.name())
      finished_.emplace(entry.name, entry.step());
    if (!heard_.emplace(entry.name, key_of(entry.checkpoint, entry.version)).second) continue;
    found_.push_back({entry.step(), entry.name, entry.metrics});
  }
}

bool EvaluatorLink::hand_over(int64_t step) {
  // By now it may have seen by itself that this is the last step, evaluated it, and left.
  through_ = true;
  if (!evaluator_works() || !say(note_of_end(step))) return false;
  for (std::chrono::milliseconds waited{0}; waited < LeaseWatch::kHeartbeatTimeout;
       waited += kAnswerLook) {
    const std::optional<LeaseContent> seen = evaluator_.look();
    if (!seen) break;
    if (end_in_note(seen->note) == step) {
      log::info(
          fmt::format("training has ended: {} evaluates the last step, {}", seen->holder, step));
      return true;
    }
    if (options_.cancelled && options_.cancelled()) {
      throw Error(ErrorKind::kCancelled,
                  fmt::format("waiting for {} to take over step {}", seen->holder, step));
    }
    options_.clock->sleep_for(kAnswerLook);
  }
  if (!evaluator_works()) return false;
  log::warning(fmt::format("{} does not answer: this task evaluates the last step, {}",
                           evaluator_.last().holder, step));
  return false;
}

bool EvaluatorLink::all_finished(const std::vector<std::string>& names, int64_t step, bool ever) {
  attempt("whether an evaluator had the last step cannot be read", [&] { read_journal(); });
  std::optional<std::string> last;
  if (ever) {
    const CheckpointManager manager(options_.model_dir,
                                    {.fs = options_.fs, .clock = options_.clock});
    if (const std::optional<std::string> prefix = manager.latest()) {
      const CheckpointFile file = checkpoint_file_of(*prefix, *options_.fs);
      if (file.step == step) last = key_of(file.name, file.version);
    }
  }
  return std::ranges::all_of(names, [&](const std::string& name) {
    return finished_.contains({name, step}) || (last && ever_finished_.contains({name, *last}));
  });
}

bool EvaluatorLink::await_last(const std::vector<std::string>& names, int64_t step,
                               const std::function<void(bool news)>& meanwhile) {
  const TimePoint begun = options_.clock->now();
  TimePoint told = begun, sign = begun;
  std::optional<TimePoint> done;
  LeaseContent said = evaluator_.last();
  const std::string holder = said.holder;
  for (size_t heard = heard_.size();;) {
    const std::optional<LeaseContent> seen = evaluator_.look();
    const TimePoint now = options_.clock->now();
    // Read after that look: an evaluator that has left wrote everything before.
    const bool finished = all_finished(names, step, /*ever=*/!seen);
    if (finished && !done) done = now;
    // When it has left, nothing of its work can be lost. It leaves at once, as a rule.
    const bool left = !seen || seen->holder != holder;
    if (finished && (left || now - *done >= LeaseWatch::kHeartbeatTimeout)) {
      log::info(fmt::format("the evaluator has evaluated the last step, {}", step));
      return true;
    }
    if (!seen) {
      log::warning(
          fmt::format("{} {} before it had evaluated the last step, {}: this task evaluates it",
                      holder, evaluator_.last().holder.empty() ? "has left" : "is dead", step));
      return false;
    }
    const bool news = heard_.size() != heard || *seen != said;
    if (news) sign = now;
    heard = heard_.size();
    said = *seen;
    if (to_seconds(now - sign) >= kLongestEvaluation) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("{} has not evaluated step {}, the last one, in {:.0f} s",
                              seen->holder, step, to_seconds(now - sign)),
                  "its own log says what it does; end it, and run the same command again, which "
                  "evaluates the last checkpoint");
    }
    if (options_.cancelled && options_.cancelled()) {
      throw Error(
          ErrorKind::kCancelled,
          fmt::format("stopped while {} evaluated step {}, the last one", seen->holder, step),
          "all is saved; run the same command again, which evaluates the last checkpoint");
    }
    if (meanwhile) meanwhile(news);
    if (to_seconds(now - told) >= kTellSeconds) {
      told = now;
      log::info(fmt::format("waiting for {}, which evaluates the last step, {} ({:.0f} s)",
                            seen->holder, step, to_seconds(now - begun)));
    }
    options_.clock->sleep_for(kWorkLook);
  }
}

void EvaluatorLink::renew_lease() {
  if (lease_) lease_->change([](LeaseContent&) {});
}

void EvaluatorLink::failed(const Error& error) noexcept {
  constexpr int kFailsAgain = 1, kFailsUntilChanged = 2;  // the exit codes
  const int code = exit_code(error.kind());
  if (code != kFailsAgain && code != kFailsUntilChanged) return;
  if (say(note_of_failure({options_.run, error.message()}))) lease_->leave_behind();
}

bool EvaluatorLink::say(const std::string& note) noexcept {
  if (!lease_) return false;
  try {
    lease_->change([&](LeaseContent& content) { content.note = note; });
    return true;
  } catch (const std::exception& error) {
    log::warning(error.what());
    return false;
  }
}

bool EvaluatorLink::finished(const std::string& name, int64_t step) {
  attempt("whether an evaluator had the last step cannot be read", [&] { read_journal(); });
  return finished_.contains({name, step});
}

void EvaluatorLink::note(JournalEntry entry) {
  entry.task = options_.task.name();
  entry.run = options_.run;
  attempt("an evaluator that comes later evaluates this step again", [&] {
    read_journal();
    // What it found itself is not news.
    heard_.emplace(entry.name, key_of(entry.checkpoint, entry.version));
    journal_.append(entry);
  });
}

}  // namespace muster::inline v0_1::internal
