#include "muster/plan/activity.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

namespace muster::inline v0_1::plan {
namespace {

constexpr int kActivityBits = 8;

thread_local ActivityRecord* own_record = nullptr;

// It outlives all threads.
struct Records {
  std::mutex mutex;
  std::vector<const ActivityRecord*> all;
};

Records& records() {
  static auto* const one = new Records;
  return *one;
}

uint64_t packed(Activity activity, TimePoint at) {
  return static_cast<uint64_t>(at.time_since_epoch().count()) << kActivityBits |
         static_cast<uint64_t>(activity);
}

int64_t time_of(uint64_t state) { return static_cast<int64_t>(state >> kActivityBits); }

}  // namespace

std::string_view to_string(Activity activity) {
  switch (activity) {
    case Activity::kStarting:
      return "starting";
    case Activity::kInput:
      return "input";
    case Activity::kCompute:
      return "compute";
    case Activity::kCommunication:
      return "communication";
    case Activity::kWaiting:
      return "waiting";
    case Activity::kSaving:
      return "saving";
    case Activity::kEvaluating:
      return "evaluating";
    case Activity::kExporting:
      return "exporting";
    case Activity::kServing:
      return "serving";
    case Activity::kProgram:
      return "program";
    case Activity::kOther:
      return "other";
    case Activity::kDone:
      return "done";
  }
  return "unknown";
}

double StepSeconds::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

ActivityRecord::ActivityRecord(std::string task, std::string run)
    : task_(std::move(task)),
      run_(std::move(run)),
      state_(packed(Activity::kStarting, std::chrono::steady_clock::now())) {}

void ActivityRecord::enter(Activity activity, TimePoint at) {
  const uint64_t state = state_.load(std::memory_order_relaxed);
  std::atomic<int64_t>& whole = whole_[state & 0xff];
  whole.store(
      whole.load(std::memory_order_relaxed) + at.time_since_epoch().count() - time_of(state),
      std::memory_order_relaxed);
  // A reader that sees it sees the sum, too.
  state_.store(packed(activity, at), std::memory_order_release);
}

void ActivityRecord::report(Phase phase, int64_t step) {
  step_.store(step, std::memory_order_relaxed);
  switch (phase) {
    case Phase::kJoining:
    case Phase::kBuilding:
      return enter(Activity::kStarting);
    case Phase::kSaving:
      return enter(Activity::kSaving);
    case Phase::kEvaluating:
      return enter(Activity::kEvaluating);
    case Phase::kWaiting:
      return enter(Activity::kWaiting);
    case Phase::kDone:
      return enter(Activity::kDone);
    case Phase::kTraining:
      break;
  }
  const Activity before = activity();
  if (before != Activity::kInput && before != Activity::kCompute &&
      before != Activity::kCommunication && before != Activity::kOther)
    enter(Activity::kOther);
}

void ActivityRecord::end_step(int64_t step, TimePoint at) {
  enter(activity(), at);
  const uint64_t number = steps_.load(std::memory_order_relaxed);
  Slot& slot = ring_[number % kStepsKept];
  const uint64_t turn = slot.turn.load(std::memory_order_relaxed);
  slot.turn.store(turn + 1, std::memory_order_relaxed);
  // A reader that sees one of the stores below sees the odd turn, too.
  slot.step.store(step, std::memory_order_release);
  for (size_t a = 0; a < kActivities; ++a) {
    const int64_t whole = whole_[a].load(std::memory_order_relaxed);
    slot.seconds[a].store(
        static_cast<float>(static_cast<double>(whole - std::exchange(at_step_[a], whole)) * 1e-9),
        std::memory_order_release);
  }
  slot.turn.store(turn + 2, std::memory_order_release);
  steps_.store(number + 1, std::memory_order_release);
  step_.store(step, std::memory_order_relaxed);
}

void ActivityRecord::set_example(int64_t step, int64_t epoch, int64_t example) {
  wants_example_.store(false, std::memory_order_relaxed);
  epoch_.store(epoch, std::memory_order_relaxed);
  example_.store(example, std::memory_order_relaxed);
  example_step_.store(step, std::memory_order_relaxed);
}

ActivityNow ActivityRecord::now() const {
  wants_example_.store(true, std::memory_order_relaxed);
  // The sums belong to this state. A replica that changes it all the time is taken as it is: one
  // change is a part of a sum that is too small by less than the time of this look.
  constexpr int kLooks = 4;
  StepSeconds sums;
  uint64_t state = state_.load(std::memory_order_acquire);
  for (int look = 0; look < kLooks; ++look) {
    for (size_t a = 0; a < kActivities; ++a) {
      const int64_t whole = whole_[a].load(std::memory_order_acquire);
      sums.seconds[a] = static_cast<float>(static_cast<double>(whole) * 1e-9);
    }
    const uint64_t after = state_.load(std::memory_order_acquire);
    if (std::exchange(state, after) == after) break;
  }
  const uint64_t bucket = bucket_.load(std::memory_order_relaxed);
  const int64_t since = std::chrono::steady_clock::now().time_since_epoch().count();
  ActivityNow now{
      .task = task_,
      .run = run_,
      .activity = static_cast<Activity>(state & 0xff),
      .seconds = static_cast<double>(std::max<int64_t>(0, since - time_of(state))) * 1e-9,
      .step = step_.load(std::memory_order_relaxed),
      .bucket = static_cast<int>(bucket & 0xffffffff),
      .buckets = static_cast<int>(bucket >> 32),
      .epoch = epoch_.load(std::memory_order_relaxed),
      .example = example_.load(std::memory_order_relaxed),
      .example_step = example_step_.load(std::memory_order_relaxed),
      .whole = sums,
      .last_step = last_step_.load(std::memory_order_relaxed)};
  now.whole.seconds[state & 0xff] += static_cast<float>(now.seconds);
  const uint64_t steps = steps_.load(std::memory_order_acquire);
  for (uint64_t s = steps - std::min<uint64_t>(steps, kStepsKept); s < steps; ++s) {
    const Slot& slot = ring_[s % kStepsKept];
    const uint64_t turn = slot.turn.load(std::memory_order_acquire);
    StepSeconds one{.step = slot.step.load(std::memory_order_acquire)};
    for (size_t a = 0; a < kActivities; ++a)
      one.seconds[a] = slot.seconds[a].load(std::memory_order_acquire);
    // The replica came round the ring meanwhile: that step is kept no more.
    const bool whole =
        turn == 2 * (s / kStepsKept + 1) && slot.turn.load(std::memory_order_relaxed) == turn;
    if (whole) now.last.push_back(one);
  }
  return now;
}

ActivityRecord& this_activity() {
  if (own_record != nullptr) return *own_record;
  thread_local ActivityRecord nobodys;
  return nobodys;
}

ListedActivity::ListedActivity(std::string task, std::string run)
    : ActivityRecord(std::move(task), std::move(run)) {
  const std::lock_guard lock(records().mutex);
  records().all.push_back(this);
}

ListedActivity::~ListedActivity() {
  const std::lock_guard lock(records().mutex);
  std::erase(records().all, this);
}

OnActivity::OnActivity(ActivityRecord& record) : before_(own_record) { own_record = &record; }
OnActivity::~OnActivity() { own_record = before_; }

ActivityScope::ActivityScope(std::string task, std::string run)
    : record_(std::move(task), std::move(run)), on_(record_) {}

InActivity::InActivity(Activity activity) : record_(this_activity()), before_(record_.activity()) {
  record_.enter(activity);
}

InActivity::~InActivity() { record_.enter(before_); }

InCollective::InCollective() : record_(this_activity()), before_(record_.activity()) {
  if (before_ == Activity::kInput || before_ == Activity::kCompute || before_ == Activity::kOther) {
    record_.enter(Activity::kCommunication);
  } else if (before_ == Activity::kProgram) {
    record_.enter(Activity::kWaiting);
  }
}

InCollective::~InCollective() {
  if (record_.activity() != before_) record_.enter(before_);
}

std::vector<ActivityNow> activities() {
  const std::lock_guard lock(records().mutex);
  std::vector<ActivityNow> all;
  for (const ActivityRecord* record : records().all) all.push_back(record->now());
  return all;
}

}  // namespace muster::inline v0_1::plan
