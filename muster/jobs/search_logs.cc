#include "muster/jobs/search_logs.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/jobs/target_trials.h"

namespace muster::inline v0_1::jobs {
namespace {

// Trials begin every few seconds at most.
constexpr std::chrono::milliseconds kLookForTrials{200};

// The records of trials that their target knows. Of others there is nothing to read, and a log that
// is read too early seems to have ended.
std::map<int, JobRecord> submitted_trials(const JobRecord& search) {
  std::map<int, JobRecord> records = trial_records(search);
  std::erase_if(records, [](const auto& one) { return one.second.id.empty(); });
  return records;
}

// The trial and the task that `--task` names: "trial-3/worker-0".
struct Chosen {
  std::string trial{};  // empty: all
  std::string task{};   // empty: all of the trial
};

Chosen chosen_by(const std::string& words) {
  const size_t slash = words.find('/');
  return {words.substr(0, slash), slash == std::string::npos ? "" : words.substr(slash + 1)};
}

// Throws where the trial of "trial-3/worker-0" has no such task, in the caller's words.
void check_task_of_trial(const JobRecord& search, Target& target, const std::string& words) {
  for (const auto& [number, record] : submitted_trials(search)) {
    const std::string trial = trial_name(number) + "/";
    if (!words.starts_with(trial)) continue;
    std::vector<std::string> names;
    try {
      for (const TaskStatus& task : target.status(record).tasks) names.push_back(trial + task.name);
    } catch (const Error&) {
      // Where the target is away the log may be here anyway.
    }
    if (!names.empty()) check_task(search, words, names);
  }
}

// One reader for each trial.
class Followers {
 public:
  Followers(const std::function<std::unique_ptr<Target>()>& make_target, const LogOptions& options,
            const LogSink& sink)
      : make_target_(make_target), options_(options), sink_(sink) {}
  ~Followers() {
    abandoned_ = true;
    for (auto& [start, thread] : threads_) thread.join();
  }
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // Follows the trial to its end, unless that is done already. One that began again, with a new
  // submission, has a new log.
  void add(int number, const JobRecord& record, const std::string& task) {
    const std::pair start(number, record.submission);
    if (threads_.contains(start)) return;
    ++reading_;
    threads_.emplace(start, std::thread([this, number, record, task] {
                       follow(number, record, task);
                       --reading_;
                     }));
  }
  // Whether a trial is read that has not ended.
  bool busy() const { return reading_ > 0; }

 private:
  void follow(int number, const JobRecord& record, const std::string& task) {
    LogOptions options = options_;
    options.task = task;
    options.interrupted = [this] { return abandoned_ || options_.interrupted(); };
    const auto pass = [&](std::string_view line) {
      const std::lock_guard lock(sink_mutex_);
      sink_(fmt::format("[{}] {}", trial_name(number), line));
    };
    try {
      make_target_()->logs(record, options, pass);
    } catch (const Error& error) {
      pass(fmt::format("its log cannot be read: {}", error.message()));
    }
  }

  const std::function<std::unique_ptr<Target>()>& make_target_;
  const LogOptions& options_;
  const LogSink& sink_;
  std::mutex sink_mutex_;
  std::atomic<bool> abandoned_{false};
  std::atomic<int> reading_{0};
  std::map<std::pair<int, std::string>, std::thread> threads_;
};

}  // namespace

void search_logs(const JobRecord& search,
                 const std::function<std::unique_ptr<Target>()>& make_target,
                 const LogOptions& options, const LogSink& sink) {
  const Chosen chosen = chosen_by(options.task);
  if (!chosen.trial.empty()) {
    std::vector<std::string> names;
    for (const auto& [number, record] : submitted_trials(search))
      names.push_back(trial_name(number));
    check_task(search, chosen.trial, names);
    if (!chosen.task.empty()) check_task_of_trial(search, *make_target(), options.task);
  }
  const auto wanted = [&](int number) {
    return chosen.trial.empty() || chosen.trial == trial_name(number);
  };
  if (!options.follow) {
    LogOptions one = options;
    one.task = chosen.task;
    const auto target = make_target();
    for (const auto& [number, record] : submitted_trials(search)) {
      if (!wanted(number)) continue;
      target->logs(record, one, [&, name = trial_name(number)](std::string_view line) {
        sink(fmt::format("[{}] {}", name, line));
      });
    }
    return;
  }
  Followers followers(make_target, options, sink);
  for (bool last = false; !options.interrupted();) {
    for (const auto& [number, record] : submitted_trials(search)) {
      if (wanted(number)) followers.add(number, record, chosen.task);
    }
    // A trial that began just before the search ended is read too. A trial may end because the same
    // command continues the search: so the process of the search is looked for after the trials.
    const bool busy = followers.busy();
    const bool ended = !chosen.trial.empty() || !internal::is_kept(search.folder);
    if (last && ended && !busy) return;
    last = ended;
    std::this_thread::sleep_for(kLookForTrials);
  }
}

}  // namespace muster::inline v0_1::jobs
