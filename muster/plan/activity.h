// What a replica does now, and where the time of its last steps went. Its thread writes the record
// of it; other threads of the process read it: the one that writes the file for people who look at
// the run, and the watchdog. A change costs a few nanoseconds and a look at the clock, and no lock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/plan/phase.h"

namespace muster::inline v0_1::plan {

// What a replica does. A replica does one of these at any time.
enum class Activity : uint8_t {
  kStarting,       // joins, builds, restores
  kInput,          // waits for a batch
  kCompute,        // forward, backward, update
  kCommunication,  // the rest of a reduction that backward did not hide, or a request to servers
  kWaiting,        // at a barrier of the coordinator
  kSaving,
  kEvaluating,
  kExporting,
  kServing,  // holds weights for others, as a parameter server
  kProgram,  // the code of a loop by hand between two calls of Muster; no part of a step
  kOther,    // hooks, and a program's own code between two steps
  kDone,
};
inline constexpr size_t kActivities = static_cast<size_t>(Activity::kDone) + 1;

// "starting", "input", "compute", ...
MUSTER_PART_EXPORT std::string_view to_string(Activity activity);

// Where the time from the end of one step to the end of the next one went.
struct StepSeconds {
  int64_t step = 0;                          // that ended
  std::array<float, kActivities> seconds{};  // by Activity
  double of(Activity activity) const { return seconds[static_cast<size_t>(activity)]; }
  double total() const;
  bool operator==(const StepSeconds&) const = default;
};

// A record as it was at one moment.
struct ActivityNow {
  std::string task{};  // as messages name the replica: "worker 1"
  std::string run{};   // as ActivityScope was given it
  Activity activity = Activity::kStarting;
  double seconds = 0;           // since it began
  int64_t step = -1;            // the last one that ended; below 0: none
  int bucket = 0, buckets = 0;  // the one that the replica waits for, from 1; 0: none
  // The last example of a recent step, as Position of its input counts them; below 0: unknown.
  int64_t epoch = -1, example = -1, example_step = -1;
  std::vector<StepSeconds> last{};  // of the last steps, the oldest first; at most kStepsKept
  // Since the record was made, what it does now included. The number of its step is not used.
  StepSeconds whole{};
  int64_t last_step = -1;  // at which its program ends, or its pass over data; below 0: unknown
};

// The activity of one replica. Thread safety: members that change it belong to the replica's
// thread; now() is for any thread, and never blocks.
class MUSTER_PART_EXPORT ActivityRecord {
 public:
  static constexpr size_t kStepsKept = 64;

  explicit ActivityRecord(std::string task = {}, std::string run = {});

  // The replica does this from `at` on.
  void enter(Activity activity, TimePoint at = std::chrono::steady_clock::now());
  Activity activity() const {
    return static_cast<Activity>(state_.load(std::memory_order_relaxed) & 0xff);
  }
  // What it is in terms of a report to its group, at this step. kTraining leaves input, compute
  // and communication as they are.
  void report(Phase phase, int64_t step);
  // The step ended. What it does goes on.
  void end_step(int64_t step, TimePoint at = std::chrono::steady_clock::now());
  // What was spent since the last step is a part of none. It stays a part of the whole.
  void forget_spent() {
    enter(activity());
    for (size_t a = 0; a < kActivities; ++a)
      at_step_[a] = whole_[a].load(std::memory_order_relaxed);
  }
  // The number of the last step, of a record that is given no time of each.
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  // At which step its program ends, or its pass over data, as far as its loop knows.
  void set_last_step(int64_t step) { last_step_.store(step, std::memory_order_relaxed); }
  // It waits for this bucket of a reduction, 1 to `buckets`; 0: for none.
  void set_bucket(int bucket, int buckets) {
    bucket_.store(static_cast<uint64_t>(buckets) << 32 | static_cast<uint32_t>(bucket),
                  std::memory_order_relaxed);
  }

  // Whether somebody has looked since the last set_example(): then the replica says where its
  // input is after a step. It does not do so for each step, since the place may take microseconds.
  bool wants_example() const { return wants_example_.load(std::memory_order_relaxed); }
  void set_example(int64_t step, int64_t epoch, int64_t example);

  // For a task that evaluates and does not train: each batch of an evaluation is a step of the
  // record, with the number of the step whose checkpoint it evaluates.
  void count_batches() { counts_batches_ = true; }
  bool counts_batches() const { return counts_batches_; }

  ActivityNow now() const;

 private:
  // A step of the ring. `turn` is odd while it is written.
  struct Slot {
    std::atomic<uint64_t> turn{0};
    std::atomic<int64_t> step{0};
    std::array<std::atomic<float>, kActivities> seconds{};
  };

  const std::string task_, run_;
  std::atomic<uint64_t> state_;  // nanoseconds since the system's start, and Activity in 8 bits
  std::atomic<int64_t> step_{-1}, last_step_{-1};
  std::atomic<uint64_t> bucket_{0};
  mutable std::atomic<bool> wants_example_{true};
  // Of one step, except for a reader that comes between two stores.
  std::atomic<int64_t> epoch_{-1}, example_{-1}, example_step_{-1};
  std::array<Slot, kStepsKept> ring_{};
  std::atomic<uint64_t> steps_{0};  // that were put into the ring
  // Nanoseconds since the record was made; and what they were when the last step ended.
  std::array<std::atomic<int64_t>, kActivities> whole_{};
  std::array<int64_t, kActivities> at_step_{};
  bool counts_batches_ = false;
};

// The record of the replica of this thread. In a thread without one it is a record that nobody
// reads.
MUSTER_PART_EXPORT ActivityRecord& this_activity();

// A record that activities() lists while it lives. `run` is any text by which the replicas of one
// run are told from others of the process.
class MUSTER_PART_EXPORT ListedActivity : public ActivityRecord {
 public:
  explicit ListedActivity(std::string task, std::string run = {});
  ~ListedActivity();
  ListedActivity(const ListedActivity&) = delete;
  ListedActivity& operator=(const ListedActivity&) = delete;
};

// While one lives, `record` is that of its thread. One thread at a time may have a record.
class MUSTER_PART_EXPORT OnActivity {
 public:
  explicit OnActivity(ActivityRecord& record);
  ~OnActivity();
  OnActivity(const OnActivity&) = delete;
  OnActivity& operator=(const OnActivity&) = delete;

 private:
  ActivityRecord* const before_;
};

// While one lives, the thread has a listed record of its own.
class MUSTER_PART_EXPORT ActivityScope {
 public:
  explicit ActivityScope(std::string task, std::string run = {});

 private:
  ListedActivity record_;
  const OnActivity on_;
};

// While one lives, this thread's replica does this; then what it did before.
class MUSTER_PART_EXPORT InActivity {
 public:
  explicit InActivity(Activity activity);
  ~InActivity();
  InActivity(const InActivity&) = delete;
  InActivity& operator=(const InActivity&) = delete;

 private:
  ActivityRecord& record_;
  const Activity before_;
};

// While one lives, this thread's replica waits for the others in a collective of its own: within a
// step that is communication, and in the program's code between two steps a wait. What it does
// besides, such as an evaluation, goes on.
class MUSTER_PART_EXPORT InCollective {
 public:
  InCollective();
  ~InCollective();
  InCollective(const InCollective&) = delete;
  InCollective& operator=(const InCollective&) = delete;

 private:
  ActivityRecord& record_;
  const Activity before_;
};

// The replicas of this process, in the order in which their scopes began. It waits for a scope that
// begins or ends, and for nothing else.
MUSTER_PART_EXPORT std::vector<ActivityNow> activities();

}  // namespace muster::inline v0_1::plan
