#include "muster/estimator/internal/evaluator_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/estimator/internal/lease_notes.h"
#include "muster/plan/activity.h"
#include "muster/plan/failure.h"
#include "muster/plan/measure_source.h"
#include "muster/train/stop_signal.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1::internal {
namespace {

// How long until model_dir is looked at again: soon after an evaluation, then more and more
// seldom.
constexpr double kFirstPause = 0.05, kLongestPause = 0.5, kGrowth = 1.5;
// Within which time a signal is heard.
constexpr double kSignalSeconds = 0.1;
// Another evaluator that came at the same moment has written its lease by then.
constexpr std::chrono::milliseconds kSettle{100};
// How often the log says what is awaited.
constexpr double kSaySeconds = 600;

// The lease's own thread answers the chief, also while an evaluation is under way.
std::function<void(LeaseContent&)> answer_to(const std::string& model_dir, FileSystem& fs,
                                             Clock& clock) {
  const auto chief = std::make_shared<LeaseWatch>(model_dir, kChiefLease, fs, clock);
  return [chief](LeaseContent& content) {
    const std::optional<LeaseContent> said = chief->look();
    content.note = note_of_end(said ? end_in_note(said->note) : std::nullopt);
  };
}

const std::string& named_directory(EstimatorAccess::Impl& impl) {
  if (impl.config.model_dir.empty() && impl.resolve().model_dir.value_or("").empty()) {
    throw invalid_argument(
        fmt::format("{} evaluates the checkpoints of a model_dir, and none is named",
                    impl.resolve().task.name()),
        "set RunConfig.model_dir to that of the chief, on a disk that both see");
  }
  return impl.directory();
}

}  // namespace

EvaluatorTask::EvaluatorTask(Estimator& estimator, const std::vector<EvalSpec>& specs,
                             std::optional<int64_t> max_steps, EvaluatorSeams seams)
    : seams_(std::move(seams)),
      estimator_(estimator),
      impl_(EstimatorAccess::impl(estimator)),
      fs_(impl_.fs()),
      clock_(impl_.clock()),
      model_dir_(named_directory(impl_)),
      name_(impl_.resolve().task.name()),
      training_(impl_, max_steps),
      journal_(model_dir_, fs_, clock_),
      begun_(clock_.now()),
      pause_(kFirstPause),
      told_(begun_) {
  for (const EvalSpec& spec : specs)
    courses_.push_back(std::make_unique<EvaluationCourse>(estimator, spec));
  impl_.more_values = [this](const std::string& prefix) { return lag_of(prefix); };
}

EvaluatorTask::~EvaluatorTask() { impl_.more_values = nullptr; }

TrainAndEvaluateResult EvaluatorTask::run() {
  // The thread of the live view has the machine's clock.
  if (seams_.evaluate) return work();
  const std::string task = plan::readable_task(name_);
  TaskWatch watch(
      {.place = {.process = -1, .in_chief_process = false, .task = task, .in_sync = false},
       .folder = model_dir_,
       .fs = &fs_});
  plan::ListedActivity activity(task, watch.run());
  const plan::OnActivity on(activity);
  const plan::MeasureSource lag([this] {
    return plan::Measures{{"lag in steps", static_cast<double>(lag_steps_.load())},
                          {"lag in seconds", lag_seconds_.load()}};
  });
  activity.count_batches();
  activity.enter(plan::Activity::kWaiting);
  watch.begin(/*trains=*/true);
  try {
    TrainAndEvaluateResult result = work();
    activity.enter(plan::Activity::kDone);
    watch.end(nullptr);
    return result;
  } catch (...) {
    const Error error = current_error();
    watch.end(&error);
    throw;
  }
}

TrainAndEvaluateResult EvaluatorTask::work() {
  log::info(
      fmt::format("{} evaluates the checkpoints of {} while others train", name_, model_dir_));
  impl_.read_best();
  for (bool done = false; !done; lease_.reset()) {
    take_lease();
    while (!done && !lease_->lost()) done = look();
    if (!done) {
      log::warning("another evaluator assumed that this one is dead, and has replaced it");
      continue;
    }
    // What was kept for this task, and left the newest meanwhile: the chief saves no more. The
    // chief waits until this task has given up its lease, so that nobody ends it in the middle of
    // that.
    keep({}, {});
    CheckpointManager(model_dir_, {.fs = &fs_,
                                   .clock = &clock_,
                                   .keep =
                                       [this](const std::string& prefix) {
                                         return impl_.best && impl_.best->holds(prefix);
                                       }})
        .tidy();
  }
  TrainAndEvaluateResult result{.exports = exports_};
  if (!training_.checkpoints().empty())
    result.training.global_step = training_.checkpoints().back().step;
  for (const auto& course : courses_) {
    if (!elsewhere_.contains(course->spec().name))
      result.evaluations[course->spec().name] = course->last().result;
  }
  log::event("evaluation_is_over",
             {{"global_step", result.training.global_step}, {"evaluations", made_}},
             fmt::format("evaluation is over at step {}: {} evaluation{} made",
                         result.training.global_step, made_, made_ == 1 ? "" : "s"));
  return result;
}

void EvaluatorTask::take_lease() {
  const bool every = std::ranges::any_of(
      courses_, [](const auto& course) { return course->spec().every_checkpoint; });
  LeaseWatch others(model_dir_, kEvaluatorLease, fs_, clock_);
  for (bool told = false;;) {
    check_stop();
    if (const std::optional<LeaseContent> other = others.look()) {
      if (!std::exchange(told, true)) {
        log::info(fmt::format(
            "{} is running already: this evaluator waits, and takes over when that one ends",
            other->holder));
      }
      // So that it knows what went on when it is to go on.
      training_.look();
      read_journal();
      sleep_until(clock_.now() + from_seconds(kLongestPause));
      continue;
    }
    said_ = {.holder = describe_process(impl_.resolve().task)};
    if (every) said_.pinned_from = 0;
    lease_.emplace(
        model_dir_, kEvaluatorLease, said_,
        LeaseOptions{
            .fs = &fs_, .beat = seams_.beat, .before_beat = answer_to(model_dir_, fs_, clock_)});
    clock_.sleep_for(kSettle);
    lease_->change([](LeaseContent&) {});
    if (!lease_->lost()) return;
    lease_.reset();
  }
}

void EvaluatorTask::renew_lease() {
  if (lease_) lease_->change([](LeaseContent&) {});
}

bool EvaluatorTask::look() {
  check_stop();
  training_.look();
  // The chief, which waits for the answer, gets it at once.
  if (training_.chief() && end_in_note(training_.chief()->note)) {
    const std::string heard = training_.chief()->note;
    if (std::exchange(answered_, heard) != heard)
      lease_->change([&](LeaseContent& content) { content.note = heard; });
  }
  read_journal();
  const std::vector<SpecView> specs = views();
  const EvaluatorPlan plan = plan_evaluations(specs, clock_.now(), training_.over());
  if (plan.checkpoint) {
    const CheckpointFile file = training_.checkpoints()[*plan.checkpoint];
    keep(specs, {file.name});
    evaluate(file, plan.specs,
             training_.over() && !training_.failed() &&
                 *plan.checkpoint + 1 == training_.checkpoints().size());
    return false;
  }
  keep(specs, {});
  if (training_.over()) {
    finish();
    return true;
  }
  wait(plan.due);
  return false;
}

void EvaluatorTask::read_journal() {
  const bool first = !std::exchange(journal_read_, true);
  for (JournalEntry& entry : journal_.read_new()) {
    Key key(entry.name, {});
    key.second.name = entry.checkpoint;
    key.second.version = entry.version;
    const bool ours = !entry.run.empty() && entry.run == impl_.run_id();
    if (first && !ours) {
      evaluated_before_.insert(key);
    } else {
      evaluated_before_.erase(key);
    }
    evaluated_.insert_or_assign(std::move(key), std::move(entry));
  }
}

EvaluatorTask::Key EvaluatorTask::key_of(const EvaluationCourse& course,
                                         const CheckpointFile& file) {
  return {course.spec().name, {.name = file.name, .version = file.version}};
}

std::vector<SpecView> EvaluatorTask::views() const {
  const std::vector<CheckpointFile>& files = training_.checkpoints();
  std::vector<SpecView> views;
  for (const auto& course : courses_) {
    const EvalSpec& spec = course->spec();
    SpecView view{.every_checkpoint = spec.every_checkpoint,
                  .due = course->begun() ? *course->begun() + from_seconds(spec.throttle_secs)
                                         : begun_ + from_seconds(spec.start_delay_secs)};
    for (const CheckpointFile& file : files) {
      const Key key = key_of(*course, file);
      const bool last = training_.over() && &file == &files.back();
      // The weights that a run begins with are not a result of it, unless they are all there is.
      const bool wanted = file.step > 0 || last;
      // An evaluator that starts after training evaluates the existing checkpoint, as the chief
      // does.
      const bool again = last && !training_.witnessed() && evaluated_before_.contains(key);
      view.uses.push_back(unreadable_.contains(file) ? CheckpointUse::kUnreadable
                          : !wanted || (evaluated_.contains(key) && !again)
                              ? CheckpointUse::kEvaluated
                              : CheckpointUse::kNew);
    }
    views.push_back(std::move(view));
  }
  return views;
}

// What must stay on the disk meanwhile.
void EvaluatorTask::keep(const std::vector<SpecView>& views,
                         const std::vector<std::string>& evaluated) {
  const std::vector<CheckpointFile>& files = training_.checkpoints();
  LeaseContent said = said_;
  said.pinned = evaluated;
  said.pinned_from.reset();
  for (const SpecView& view : views) {
    if (!view.every_checkpoint) continue;
    const auto next = std::ranges::find(view.uses, CheckpointUse::kNew);
    const int64_t from = next != view.uses.end()
                             ? files[static_cast<size_t>(next - view.uses.begin())].step
                         : files.empty() ? 0
                                         : files.back().step + 1;
    said.pinned_from = std::min(from, said.pinned_from.value_or(from));
  }
  if (said == said_) return;
  said_ = said;
  lease_->change([&](LeaseContent& content) {
    content.pinned = said.pinned;
    content.pinned_from = said.pinned_from;
  });
}

void EvaluatorTask::evaluate(const CheckpointFile& file, const std::vector<size_t>& specs,
                             bool is_final) {
  waits_since_.reset();
  pause_ = kFirstPause;
  // The lease says by now that it must stay; it may have gone a moment before.
  if (!fs_.exists(checkpoint_file(path_of(file))).value()) {
    return skip(file, not_found(fmt::format("there is no {} any more", path_of(file))));
  }
  for (const size_t s : specs) {
    if (!evaluate_one(*courses_[s], file, is_final) || lease_->lost()) return;
  }
}

bool EvaluatorTask::evaluate_one(EvaluationCourse& course, const CheckpointFile& file,
                                 bool is_final) {
  log::debug(fmt::format("evaluating step {}{}: {}", file.step, course.in_brackets(),
                         is_final                         ? "it is the last one"
                         : course.spec().every_checkpoint ? "every checkpoint is evaluated"
                                                          : "it is the newest one"));
  const plan::InActivity evaluates(plan::Activity::kEvaluating);
  const TimePoint begun = clock_.now();
  impl_.unreadable.reset();
  try {
    const EvaluateOptions options = course.options(path_of(file));
    course.note(file.step, begun,
                seams_.evaluate ? seams_.evaluate(options)
                                : impl_.evaluate(course.spec().input_fn, options));
    course.call_exporters(is_final, &exports_);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled && impl_.stops()) {
      throw Error(ErrorKind::kCancelled,
                  fmt::format("stopped by {}: {}", stop_signal_name(), error.message()),
                  "run the same command again: the newest checkpoint is evaluated then");
    }
    if (!impl_.unreadable) throw;
    skip(file, *impl_.unreadable);
    return false;
  }
  ++made_;
  elsewhere_.erase(course.spec().name);
  journal_.append(course.entry());
  return true;
}

void EvaluatorTask::skip(const CheckpointFile& file, const Error& error) {
  unreadable_.emplace(file, error);
  if (error.kind() == ErrorKind::kNotFound) {
    log::info(fmt::format(
        "step {} was deleted before it could be evaluated; the newest checkpoint is next",
        file.step));
  } else {
    log::warning("skipping a damaged checkpoint; the newest that can be read is next: " +
                 error.message());
  }
}

void EvaluatorTask::finish() {
  const std::vector<CheckpointFile>& files = training_.checkpoints();
  if (training_.failed()) {
    log::warning(
        fmt::format("training failed, and {}: {}",
                    files.empty() ? "has left no checkpoint" : "its last checkpoint is evaluated",
                    training_.failure()));
    for (const auto& course : courses_) {
      if (!course->step()) elsewhere_.insert(course->spec().name);
    }
    return;
  }
  if (files.empty()) throw impl_.not_trained();
  const CheckpointFile& last = files.back();
  if (const auto found = unreadable_.find(last); found != unreadable_.end()) {
    throw Error(found->second.kind(),
                fmt::format("training is over, and its last checkpoint was not evaluated: {}",
                            found->second.message()),
                found->second.hint());
  }
  for (const auto& course : courses_) {
    const JournalEntry& noted = evaluated_.at(key_of(*course, last));
    if (!course->evaluated(last)) {
      course->restore(noted, path_of(last));
      // Another evaluator has done all of it.
      if (noted.is_final) elsewhere_.insert(course->spec().name);
    }
    if (course->told_final()) continue;
    keep({}, {last.name});
    course->call_exporters(true, &exports_);
    journal_.append(course->entry());  // the chief waits for that, also without exporters
  }
}

std::vector<formats::SummaryValue> EvaluatorTask::lag_of(const std::string& prefix) {
  const CheckpointFile file = checkpoint_file_of(prefix, fs_);
  const CheckpointFile newest = training_.newest().value_or(file);
  const int64_t steps = newest.step - file.step;
  const double seconds = newest.saved_at - file.saved_at;
  if (steps != 0 || behind_) {
    log::event(
        "evaluator_lag", {{"global_step", file.step}, {"steps", steps}, {"seconds", seconds}},
        steps != 0
            ? fmt::format(
                  "step {} is {} steps and {:.0f} s older than the newest checkpoint, of step {}",
                  file.step, steps, seconds, newest.step)
            : fmt::format("step {} is the newest checkpoint: evaluation has caught up", file.step));
  }
  behind_ = steps != 0;
  lag_steps_ = steps;
  lag_seconds_ = seconds;
  return {{"evaluator/lag_steps", static_cast<float>(steps)},
          {"evaluator/lag_seconds", static_cast<float>(seconds)}};
}

void EvaluatorTask::wait(const std::optional<TimePoint>& due) {
  const TimePoint now = clock_.now();
  if (!waits_since_) waits_since_ = now;
  if (due) {
    // One is there, and may not be evaluated yet.
    if (impl_.config.progress_line) {
      log::status(
          fmt::format("{}: the next evaluation is due in {:.0f} s", name_, to_seconds(*due - now)));
    }
  } else {
    if (training_.quiet_seconds() >= impl_.config.evaluator_timeout.count()) give_up();
    say_what_is_awaited();
  }
  const TimePoint end = std::min(now + from_seconds(pause_), due.value_or(TimePoint::max()));
  pause_ = std::min(kGrowth * pause_, kLongestPause);
  sleep_until(end);
  log::status("");
}

void EvaluatorTask::sleep_until(TimePoint end) {
  for (TimePoint now = clock_.now(); now < end; now = clock_.now()) {
    check_stop();
    clock_.sleep_for(std::min(from_seconds(kSignalSeconds), end - now));
  }
}

void EvaluatorTask::say_what_is_awaited() {
  const TimePoint now = clock_.now();
  const double waited = to_seconds(now - *waits_since_);
  if (impl_.config.progress_line && log::shows_status())
    log::status(fmt::format("{}: waiting for {}, for {:.0f} s", name_, awaited(), waited));
  const bool first = !std::exchange(told_once_, true);
  if (!first && to_seconds(now - told_) < kSaySeconds) return;
  told_ = now;
  if (const std::optional<RunEnd> end = training_.doubtful_end()) {
    log::info(fmt::format(
        "waiting for {}: run_end.json says that a run ended at step {} ({}), but that may be an "
        "earlier run; if no chief starts within {:.0f} s of this task's start, this task ends",
        awaited(), end->global_step, describe(end->reason), training_.patience()));
  } else if (training_.chief()) {
    log::info(fmt::format("waiting for {}; {} is running", awaited(), training_.chief()->holder));
  } else if (first) {
    log::info(fmt::format("waiting for {}", awaited()));
  } else {
    log::info(fmt::format("waiting for {}: no chief is running; this task gives up in {:.0f} s",
                          awaited(),
                          impl_.config.evaluator_timeout.count() - training_.quiet_seconds()));
  }
}

void EvaluatorTask::check_stop() const {
  if (!impl_.stops()) return;
  throw Error(ErrorKind::kCancelled,
              fmt::format("stopped by {} while it waited for {}", stop_signal_name(), awaited()),
              "run the same command again: the newest checkpoint is evaluated then");
}

void EvaluatorTask::give_up() const {
  throw Error(ErrorKind::kTimeout,
              fmt::format("{} waited {:.0f} s for {} in {}, and no chief was at work there{}",
                          name_, training_.quiet_seconds(), awaited(), model_dir_,
                          training_.last_chief().empty()
                              ? std::string()
                              : fmt::format("; {} has ended without a run_end.json",
                                            training_.last_chief())),
              fmt::format("start the training again, and this task with it; it waits for "
                          "RunConfig.evaluator_timeout, which is {:g} s",
                          impl_.config.evaluator_timeout.count()));
}

std::string EvaluatorTask::awaited() const {
  const std::vector<CheckpointFile>& files = training_.checkpoints();
  if (files.empty()) return "the first checkpoint";
  return fmt::format("a checkpoint after step {}", files.back().step);
}

std::string EvaluatorTask::path_of(const CheckpointFile& file) const {
  return join_path(model_dir_, file.name);
}

}  // namespace muster::inline v0_1::internal
