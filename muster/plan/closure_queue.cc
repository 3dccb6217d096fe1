#include "muster/plan/closure_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::inline v0_1::plan {

ClosureQueue::ClosureQueue(Options options, double now) : options_(options), none_since_(now) {
  if (options_.workers < 1 || options_.capacity < 1 || options_.max_attempts < 1) {
    throw invalid_argument(
        fmt::format("a queue of {} calls, with {} workers and {} attempts for each call",
                    options_.capacity, options_.workers, options_.max_attempts),
        "each of these is at least 1");
  }
  workers_.resize(static_cast<size_t>(options_.workers));
}

ClosureQueue::Worker& ClosureQueue::at(int worker) {
  return const_cast<Worker&>(std::as_const(*this).at(worker));
}

const ClosureQueue::Worker& ClosureQueue::at(int worker) const {
  if (worker < 0 || worker >= options_.workers) {
    throw invalid_argument(
        fmt::format("there is no worker of rank {} among {}", worker, options_.workers),
        "give every task the same cluster in TF_CONFIG");
  }
  return workers_[static_cast<size_t>(worker)];
}

int64_t ClosureQueue::schedule(std::string name) {
  if (full() || failure_) throw internal_error("a call was scheduled that has no place");
  const int64_t call = ++last_call_;
  calls_[call] = {.name = std::move(name)};
  waiting_.push_back(call);
  return call;
}

std::optional<Error> ClosureQueue::take_failure() { return std::exchange(failure_, std::nullopt); }

std::vector<ClosureQueue::Ended> ClosureQueue::take_ended() { return std::exchange(ended_, {}); }

void ClosureQueue::end(int64_t call, Outcome outcome, std::optional<Error> error) {
  calls_.erase(call);
  ended_.push_back({.call = call, .outcome = outcome, .error = std::move(error)});
}

void ClosureQueue::cancel(const Error& why) {
  for (const int64_t call : std::exchange(waiting_, {})) end(call, Outcome::kCancelled, why);
  for (auto& [number, call] : calls_) call.cancelled = why;
}

void ClosureQueue::note_failure(int64_t call, const Error& error) {
  const std::string name = calls_.at(call).name;
  end(call, Outcome::kFailed, error);
  if (!failure_) failure_ = error;
  cancel(Error(ErrorKind::kCancelled,
               fmt::format("\"{}\" failed, and the calls scheduled after it were cancelled: {}",
                           name, error.message()),
               "join() or schedule() throws the first failure; what is scheduled after that runs"));
}

void ClosureQueue::take_from(Worker& worker) {
  const auto assignment = std::exchange(worker.assignment, std::nullopt);
  if (!assignment) return;
  const Call& lost = calls_.at(assignment->call);
  if (lost.cancelled) return end(assignment->call, Outcome::kCancelled, lost.cancelled);
  if (lost.attempts >= options_.max_attempts) {
    return note_failure(
        assignment->call,
        Error(ErrorKind::kUnavailable,
              fmt::format("\"{}\" was begun {} times, and each time its worker was lost", lost.name,
                          lost.attempts),
              "look at the logs of the workers: the function may end its process, or need more "
              "memory than there is"));
  }
  waiting_.push_front(assignment->call);
}

void ClosureQueue::join(int worker, double /*now*/) {
  take_from(at(worker));
  at(worker).present = true;
  none_since_.reset();
}

void ClosureQueue::leave(int worker, double now) {
  if (!at(worker).present) return;
  at(worker).present = false;
  take_from(at(worker));
  if (std::ranges::none_of(workers_, [](const Worker& w) { return w.present; })) none_since_ = now;
}

std::optional<double> ClosureQueue::without_workers(double now) const {
  if (!none_since_) return std::nullopt;
  return now - *none_since_;
}

std::optional<ClosureQueue::Assignment> ClosureQueue::next(int worker) {
  Worker& w = at(worker);
  if (!w.present || w.assignment || waiting_.empty()) return w.assignment;
  const int64_t call = waiting_.front();
  waiting_.pop_front();
  w.assignment = {.call = call, .ticket = ++last_ticket_, .attempt = ++calls_.at(call).attempts};
  return w.assignment;
}

bool ClosureQueue::finish(int worker, int64_t ticket) {
  Worker& w = at(worker);
  if (!w.assignment || w.assignment->ticket != ticket) return false;
  end(std::exchange(w.assignment, std::nullopt)->call, Outcome::kDone);
  return true;
}

bool ClosureQueue::fail(int worker, int64_t ticket, const Error& error) {
  Worker& w = at(worker);
  if (!w.assignment || w.assignment->ticket != ticket) return false;
  note_failure(std::exchange(w.assignment, std::nullopt)->call, error);
  return true;
}

}  // namespace muster::inline v0_1::plan
