#include "muster/train/internal/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/thread_stacks.h"
#include "muster/base/uri.h"
#include "muster/collectives/collective_history.h"
#include "muster/files/file_systems.h"
#include "muster/plan/straggler.h"
#include "muster/summary/live_run.h"
#include "muster/summary/live_status.h"

namespace muster::inline v0_1::internal {
namespace {

using plan::Activity;
using plan::ActivityNow;

// The collectives that have begun and not ended.
std::vector<std::string> collectives_under_way() {
  std::vector<std::string> all;
  for (const CollectiveCall& call : last_collectives()) {
    if (call.seconds >= 0 || !call.failure.empty()) continue;
    all.push_back(fmt::format("{} over {}, as rank {} of {}, for {:.0f} s", call.call,
                              call.transport, call.rank, call.size, call.before));
  }
  return all;
}

// All frames of the first stack, and of the other threads, which mostly wait, the innermost ones.
std::string stacks_text(int64_t first) {
  constexpr size_t kFramesOfOthers = 6;
  std::string text = "stacks of this process:";
  bool others = false;
  for (const ThreadStack& stack : thread_stacks(first)) {
    text += fmt::format("\n  {} {} ({})", stack.threads.size() == 1 ? "thread" : "threads",
                        fmt::join(stack.threads, ", "), stack.name);
    if (stack.frames.empty()) text += "\n    it did not answer";
    for (size_t f = 0; f < stack.frames.size() && (!others || f < kFramesOfOthers); ++f)
      text += "\n    " + stack.frames[f];
    others = true;
  }
  return text;
}

std::vector<plan::TaskSteps> steps_of(const std::vector<ActivityNow>& here,
                                      const std::vector<OtherTask>& others) {
  std::vector<plan::TaskSteps> all;
  for (const ActivityNow& one : here) all.push_back({one.task, one.last});
  for (const OtherTask& other : others) {
    if (other.trains && !other.silent) all.push_back({other.now.task, other.now.last});
  }
  return all;
}

// All replicas of a run in step are in the same step: one that does not wait for the others is what
// they wait for.
std::string culprits(const std::vector<ActivityNow>& here, const std::vector<OtherTask>& others) {
  std::vector<std::string> names;
  size_t waiting = 0;
  const auto look = [&](const ActivityNow& one) {
    if (one.activity == Activity::kCommunication || one.activity == Activity::kWaiting) {
      ++waiting;
    } else {
      names.push_back(fmt::format("{} ({})", one.task, plan::to_string(one.activity)));
    }
  };
  for (const ActivityNow& one : here) look(one);
  for (const OtherTask& other : others) {
    if (other.trains) look(other.now);
  }
  if (names.empty() || waiting == 0) return "";
  return "the others wait for " + join(names, ", ");
}

// The chief reads what the tasks of other processes write for people who look at the run.
std::vector<OtherTask> others_of(FileSystem& fs, const std::string& model_dir) {
  const std::vector<ActivityNow> here = plan::activities();
  const double now = system_clock().wall_seconds();
  std::vector<OtherTask> all;
  for (summary::LiveStatus& status : summary::read_live_statuses(fs, model_dir)) {
    if (!status.end.empty()) continue;
    const double age = std::max(0.0, now - status.written);
    for (ActivityNow& replica : status.replicas) {
      const bool is_here = std::ranges::any_of(
          here, [&](const ActivityNow& own) { return own.task == replica.task; });
      if (is_here) continue;
      all.push_back({.now = std::move(replica),
                     .collective = status.collective,
                     .age = age,
                     .silent = summary::is_silent(status, age),
                     .trains = status.trains()});
    }
  }
  return all;
}

}  // namespace

std::unique_ptr<Watchdog> watchdog_of(const WatchedRun& run) {
  if (run.seconds <= 0) return nullptr;
  Watchdog::Options watchdog{.floor = run.seconds,
                             .compares = run.is_chief,
                             .at_own_pace = run.at_own_pace,
                             .run = run.run};
  if (watchdog.compares && run.folder) {
    FileSystem& fs = run.fs != nullptr ? *run.fs : file_systems();
    watchdog.others = [&fs, folder = run.folder] {
      const std::string now = folder();
      // What is in a bucket is old, and each look at it costs money.
      return now.empty() || is_remote(now) ? std::vector<OtherTask>() : others_of(fs, now);
    };
  }
  return std::make_unique<Watchdog>(std::move(watchdog));
}

std::string text_of(const ActivityNow& now) {
  std::string text = fmt::format("{} for {:.0f} s", plan::to_string(now.activity), now.seconds);
  if (now.step >= 0) text += fmt::format(", after step {}", now.step);
  if (now.bucket > 0) text += fmt::format("; bucket {} of {}", now.bucket, now.buckets);
  if (now.example >= 0) {
    text += fmt::format("; the input was at epoch {}, example {} in step {}", now.epoch,
                        now.example, now.example_step);
  }
  return text;
}

Watchdog::Watchdog(Options options)
    : options_(std::move(options)),
      maker_(this_thread_id()),
      steps_(options_.floor),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  const std::chrono::duration<double> every(options_.look_every);
  auto last = std::chrono::steady_clock::now();
  int looks = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, every, [this] { return ends_; })) {
    lock.unlock();
    const auto now = std::chrono::steady_clock::now();
    try {
      const std::vector<ActivityNow> here = records();
      const auto found =
          steps_.look(here, std::chrono::duration<double>(now - std::exchange(last, now)).count());
      if (!found.empty()) report(found, here);
      if (options_.compares && ++looks % options_.looks_to_compare == 0) compare(here);
    } catch (const std::exception& error) {
      log::warning_once(std::string("the watchdog of steps has failed: ") + error.what());
    }
    lock.lock();
  }
}

std::vector<ActivityNow> Watchdog::records() const {
  std::vector<ActivityNow> all = plan::activities();
  if (!options_.run.empty())
    std::erase_if(all, [&](const ActivityNow& one) { return one.run != options_.run; });
  return all;
}

std::vector<OtherTask> Watchdog::others() const {
  return options_.others ? options_.others() : std::vector<OtherTask>();
}

void Watchdog::report(const std::vector<plan::LongStep>& steps,
                      const std::vector<ActivityNow>& now) {
  bool hangs = false;
  for (const plan::LongStep& step : steps) {
    step.ended ? log::info(step.text()) : log::warning(step.text());
    hangs = hangs || !step.ended;
  }
  if (!hangs) return;
  for (const ActivityNow& one : now) log::warning(one.task + " does: " + text_of(one));
  for (const std::string& call : collectives_under_way()) log::warning("not ended: " + call);
  if (options_.compares) {
    const std::vector<OtherTask> all = others();
    for (const OtherTask& other : all) {
      log::warning(fmt::format("{} did, {:.0f} s ago: {}{}", other.now.task, other.age,
                               text_of(other.now),
                               other.collective.empty() ? "" : "; not ended: " + other.collective));
    }
    const std::string waits = options_.at_own_pace ? "" : culprits(now, all);
    if (!waits.empty()) log::warning(waits);
  }
  log::warning(stacks_text(maker_));
}

void Watchdog::compare(const std::vector<ActivityNow>& now) {
  const std::vector<plan::TaskSteps> tasks = steps_of(now, others());
  const auto straggler = plan::find_straggler(tasks, options_.at_own_pace);
  const std::string name = straggler ? fmt::format("{} {}", tasks[straggler->task].task,
                                                   plan::to_string(straggler->where))
                                     : "";
  if (name != slow_) {
    if (told_) log::info("all tasks take about the same time for a step again");
    slow_ = name;
    times_ = 0;
    told_ = false;
  }
  if (!straggler || told_ || ++times_ < options_.times_to_be_slow) return;
  told_ = true;
  log::warning(straggler->text(tasks[straggler->task].task));
}

}  // namespace muster::inline v0_1::internal
