#include "apps/jobs/follow_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/jobs/final_status.h"
#include "muster/jobs/search_job.h"
#include "muster/jobs/search_logs.h"
#include "muster/jobs/submit.h"

namespace muster::app {
namespace {

// A signal handler can reach nothing but globals.
std::atomic<bool> interrupted{false};
std::atomic<const char*> words_of_the_end{""};

extern "C" void on_interrupt(int number) {
  if (interrupted.exchange(true) && number == SIGINT) {
    const char* const words = words_of_the_end;
    (void)!write(STDERR_FILENO, words, std::strlen(words));
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}

// Time for a target to report the end of a job whose log has ended.
constexpr std::chrono::seconds kEndTime{60};
constexpr std::chrono::milliseconds kEndLook{100};

using Logs = std::function<void(const jobs::LogOptions& options, const jobs::LogSink& sink)>;
using Status = std::function<jobs::JobStatus()>;

bool did_not_answer(const Error& error) {
  return error.kind() == ErrorKind::kUnavailable || error.kind() == ErrorKind::kTimeout;
}

int follow(const jobs::JobRecord& record, jobs::LogOptions options, const Logs& logs,
           const Status& status_now) {
  const InterruptScope interrupts;
  options.follow = true;
  options.interrupted = was_interrupted;
  logs(options, [](std::string_view line) {
    fwrite(line.data(), 1, line.size(), stdout);
    fputc('\n', stdout);
    fflush(stdout);
  });
  // The job has ended: that its target is away for a moment is not an end of it.
  const auto look = [&]() -> jobs::JobStatus {
    try {
      return status_now();
    } catch (const Error& error) {
      return {.state = jobs::JobState::kUnknown, .detail = error.message()};
    }
  };
  jobs::JobStatus status = look();
  const auto end = std::chrono::steady_clock::now() + kEndTime;
  while (!was_interrupted() && !jobs::is_final(status.state) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kEndLook);
    status = look();
  }
  if (was_interrupted() && !jobs::is_final(status.state)) {
    fmt::print(stderr, "{0} continues to run; to end it: muster jobs cancel {0}\n", record.name);
    return 130;
  }
  fmt::print(stderr, "{} {}{}\n", record.name, jobs::to_string(status.state),
             status.detail.empty() ? "" : ": " + status.detail);
  if (status.state == jobs::JobState::kSucceeded) return 0;
  const int code = status.exit_code.value_or(1);
  return code == 0 ? 1 : code;
}

}  // namespace

InterruptScope::InterruptScope(const char* last_words) {
  interrupted = false;
  words_of_the_end = last_words;
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, on_interrupt);
  // A terminal that is closed; nohup wants that ignored.
  if (std::signal(SIGHUP, on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

InterruptScope::~InterruptScope() {
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool was_interrupted() { return interrupted; }

BeingSubmitted::BeingSubmitted(const jobs::JobRecord& record)
    : Error(ErrorKind::kUnavailable,
            fmt::format("the job {} is being submitted to {} by another command", record.name,
                        record.target),
            "wait until that command has ended") {}

NotSubmitted::NotSubmitted(const jobs::JobRecord& record, const std::string& why,
                           bool target_is_away)
    : Error(
          ErrorKind::kInvalidArgument,
          fmt::format("the job {} is not known on {}: its submission was interrupted{}",
                      record.name, record.target, why),
          fmt::format(
              "check there whether any of its tasks run; muster jobs remove {} removes its record",
              record.name)),
      target_is_away_(target_is_away) {}

void check_submitted(jobs::JobRecord& record, const jobs::TargetOptions& options) {
  if (jobs::is_search(record) || jobs::was_submitted(record)) return;
  if (jobs::is_being_submitted(record)) throw BeingSubmitted(record);
  std::string why;
  bool is_away = false;
  try {
    jobs::JobStore store = jobs::JobStore::of(Environment::process());
    if (jobs::find_submitted(store, *jobs::make_target(record.target, options), record)) return;
  } catch (const Error& error) {
    why = "; " + error.message();
    is_away = did_not_answer(error);
  }
  throw NotSubmitted(record, why, is_away);
}

jobs::JobStatus ask_for(jobs::JobRecord record, const jobs::TargetOptions& options) {
  const auto target = jobs::make_target(record.target, options);
  if (jobs::is_search(record)) return jobs::search_status(record, *target);
  return jobs::final_or_current_status(record, [&] {
    check_submitted(record, options);
    return target->status(record);
  });
}

jobs::JobStatus status_of(const jobs::JobRecord& record, const jobs::TargetOptions& options) {
  try {
    return ask_for(record, options);
  } catch (const Error& error) {
    return {.state = jobs::JobState::kUnknown, .detail = error.message()};
  }
}

jobs::JobStatus Asking::status(const jobs::JobRecord& record) {
  if (const auto end = jobs::final_status(record)) return *end;
  std::pair<std::string, std::string> place(record.target, "");
  const auto unknown = [](const Error& error) {
    return jobs::JobStatus{.state = jobs::JobState::kUnknown, .detail = error.message()};
  };
  try {
    place.second = jobs::make_target(record.target, options_)->where(record);
    if (const auto away = away_.find(place); away != away_.end()) return away->second;
    return ask_for(record, options_);
  } catch (const BeingSubmitted& error) {
    return unknown(error);  // which says nothing about its target
  } catch (const NotSubmitted& error) {
    if (error.target_is_away()) away_.emplace(place, unknown(error));
    return unknown(error);
  } catch (const Error& error) {
    if (did_not_answer(error)) away_.emplace(place, unknown(error));
    return unknown(error);
  }
}

int follow_job(jobs::Target& target, const jobs::JobRecord& record, jobs::LogOptions options) {
  return follow(
      record, std::move(options),
      [&](jobs::LogOptions how, const jobs::LogSink& sink) {
        // An ended job logs nothing more, and its target may be away.
        how.follow = how.follow && !jobs::final_status(record);
        target.logs(record, how, sink);
      },
      [&] { return jobs::final_or_current_status(record, [&] { return target.status(record); }); });
}

int follow_search(const jobs::JobRecord& record, const jobs::TargetOptions& target,
                  jobs::LogOptions options) {
  return follow(
      record, std::move(options),
      [&](const jobs::LogOptions& how, const jobs::LogSink& sink) {
        const auto make = [&] { return jobs::make_target(record.target, target); };
        jobs::search_logs(record, make, how, sink);
      },
      [&] { return ask_for(record, target); });
}

}  // namespace muster::app
