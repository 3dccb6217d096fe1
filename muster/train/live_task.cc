#include "muster/train/internal/live_task.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/recent_log.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/collectives/collective_history.h"
#include "muster/files/file_systems.h"
#include "muster/plan/activity.h"
#include "muster/plan/measure_source.h"
#include "muster/plan/save_in_flight.h"
#include "muster/summary/live_status.h"
#include "muster/train/internal/device_memory.h"

namespace muster::inline v0_1::internal {
namespace {

using summary::LiveStatus;

double unix_seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// The words that started this process.
std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size(); begin += words.back().size() + 1)
    words.emplace_back(text.c_str() + begin);
  return words;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// When this process began its first run.
double first_start() {
  static const double first = unix_seconds(std::chrono::system_clock::now());
  return first;
}

}  // namespace

struct LiveTask::Shared {
  LiveTaskOptions options;
  std::string run;
  FileSystem* fs = nullptr;
  std::optional<Device> device;  // of the first replica, if its memory is known
  // What earlier starts of this task spent, by replica.
  std::map<std::string, plan::StepSeconds> earlier{};

  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false, ended = false;
  LiveStatus status;  // what does not change, and what was told
  std::atomic<bool> wants_news{true};

  // What is known now, and by tell().
  LiveStatus now() {
    LiveStatus now;
    {
      const std::lock_guard lock(mutex);
      now = status;
    }
    for (plan::ActivityNow& replica : plan::activities()) {
      if (replica.run != run) continue;
      const auto before = earlier.find(replica.task);
      for (size_t a = 0; before != earlier.end() && a < plan::kActivities; ++a)
        replica.whole.seconds[a] += before->second.seconds[a];
      if (status.last_step < 0) now.last_step = std::max(now.last_step, replica.last_step);
      now.replicas.push_back(std::move(replica));
    }
    for (const CollectiveCall& call : last_collectives()) {
      if (call.seconds >= 0) continue;
      now.collective = call.call;
      now.collective_seconds = call.before;
    }
    for (log::RecentLine& line : log::recent_lines()) {
      now.log.push_back(
          {unix_seconds(line.time), std::string(log::to_string(line.level)), std::move(line.text)});
    }
    if (now.end.empty()) now.saving = plan::save_in_flight().value_or(-1);
    now.memory = resident_bytes();
    if (device) {
      if (const auto memory = memory_of_devices(*device)) {
        now.device_memory = memory->used;
        now.device_reserved = memory->reserved;
      } else {
        device.reset();  // nor will it be known later
      }
    }
    now.measures.merge(plan::measures());
    now.written = unix_seconds(std::chrono::system_clock::now());
    return now;
  }

  // The task was started before, and that start did not end well: this one goes on with its sums. A
  // group of an elastic run that changes is another start of the same process.
  void continue_earlier() {
    const auto before =
        summary::read_live_status(*fs, summary::live_path(options.model_dir, status.task));
    if (!before.ok() || before.value().end == "ended") return;
    const bool same = before.value().pid == status.pid && before.value().host == status.host &&
                      before.value().started >= first_start();
    const std::lock_guard lock(mutex);
    status.earlier_starts = before.value().earlier_starts + (same ? 0 : 1);
    for (const plan::ActivityNow& replica : before.value().replicas)
      earlier[replica.task] = replica.whole;
  }

  // Until the run ends. Whatever fails here is not the run's.
  void work() {
    bool failed = false, written = false, continued = false;
    for (bool last = false; !last;) {
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, options.every, [&] { return ends; });
        last = ends;
      }
      if (last && !written) break;
      try {
        if (!std::exchange(continued, true)) continue_earlier();
        const Status status =
            summary::write_live_status(*fs, options.model_dir, now(), /*may_make_dir=*/!written);
        written |= status.ok();
        if (!status.ok() && !std::exchange(failed, true)) {
          log::debug("no live view of this task: " + status.error().message());
        }
      } catch (const std::exception& error) {
        if (!std::exchange(failed, true))
          log::debug(fmt::format("no live view of this task: {}", error.what()));
      }
      wants_news = true;
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }
};

std::string live_run_name(const std::string& model_dir, const distribute::ReplicaPlace& place) {
  return fmt::format("{} ({}) of {}", place.process, place.task, model_dir);
}

double seconds_of(const char* variable, double default_seconds) {
  constexpr double kMost = 1e6;
  const std::string text = Environment::process().get_or(variable, "");
  if (text.empty()) return default_seconds;
  const std::optional<double> seconds = parse_double(text);
  if (seconds && *seconds >= 0 && *seconds <= kMost) return *seconds;
  throw invalid_argument(fmt::format("{} is '{}'", variable, text),
                         fmt::format("write seconds, from 0 to {}", kMost));
}

LiveTask::LiveTask(LiveTaskOptions options, const distribute::ReplicaPlace& place)
    : shared_(place.local != 0 || options.model_dir.empty() || options.every <= Seconds(0)
                  ? nullptr
                  : std::make_shared<Shared>()) {
  if (shared_ == nullptr) return;
  Shared& shared = *shared_;
  (void)first_start();
  if (is_remote(options.model_dir)) options.every = std::max(options.every, options.every_in_store);
  shared.run = options.run.empty() ? live_run_name(options.model_dir, place) : options.run;
  if (!place.device.is_cpu()) shared.device = place.device;
  shared.fs = options.fs != nullptr ? options.fs : &file_systems();
  shared.status = {.task = place.task.empty() ? "process" : place.task,
                   .process = place.process,
                   .processes = place.processes,
                   .at_own_pace = !place.in_sync,
                   .host = host_name(),
                   .pid = getpid(),
                   .command = own_command(),
                   .version = std::string(summary::own_version()),
                   .started = unix_seconds(std::chrono::system_clock::now()),
                   .every = options.every.count(),
                   .last_step = options.last_step};
  shared.options = std::move(options);
  try {
    std::thread([shared = shared_] { shared->work(); }).detach();
  } catch (const std::exception& error) {
    log::debug(fmt::format("no live view of this task: {}", error.what()));
    shared.ended = true;
  }
}

LiveTask::~LiveTask() { end(nullptr); }

bool LiveTask::wants_news() const {
  return shared_ != nullptr && shared_->wants_news.load(std::memory_order_relaxed);
}

void LiveTask::tell(News news) {
  if (shared_ == nullptr) return;
  shared_->wants_news = false;
  const std::lock_guard lock(shared_->mutex);
  shared_->status.last_step = news.last_step;
  shared_->status.measures = std::move(news.measures);
}

void LiveTask::end(const Error* error) noexcept {
  finish(error == nullptr                         ? "ended"
         : error->kind() == ErrorKind::kCancelled ? "stopped"
                                                  : "failed",
         error);
}

void LiveTask::leave() noexcept { finish("", nullptr); }

void LiveTask::finish(const char* word, const Error* error) noexcept {
  if (shared_ == nullptr) return;
  try {
    std::unique_lock lock(shared_->mutex);
    if (shared_->ends) return;
    shared_->ends = true;
    LiveStatus& status = shared_->status;
    status.end = word;
    if (error != nullptr) {
      status.error = error->message();
      status.exit_code = exit_code(error->kind());
    }
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, shared_->options.patience, [&] { return shared_->ended; });
  } catch (...) {
    // A view of the run is no reason to fail it.
  }
}

}  // namespace muster::inline v0_1::internal
