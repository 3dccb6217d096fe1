#include "muster/base/simulated_threads.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

thread_local SimulatedThreads::Leaver SimulatedThreads::self_;

SimulatedThreads::Leaver::~Leaver() {
  if (thread) thread->simulated->leave(*thread);
}

SimulatedThreads::SimulatedThreads(uint64_t seed) : random_(seed) {
  enter(outside_, Role::kMain);
  current_ = self_.thread;
  current_->waiting = true;
}

SimulatedThreads::~SimulatedThreads() {
  threads_.clear();
  self_.thread = nullptr;
}

void SimulatedThreads::enter(const Process& process, Role role) {
  if (self_.thread) return;
  std::lock_guard lock(mutex_);
  const std::tuple place(process.number(), role);
  const auto next = std::find_if(threads_.begin(), threads_.end(),
                                 [&](const Thread& other) { return other.place > place; });
  self_.thread = &*threads_.emplace(next);
  self_.thread->simulated = this;
  self_.thread->place = place;
  self_.thread->waits_on = &process;
}

void SimulatedThreads::leave(Thread& thread) {
  Thread* next = nullptr;
  {
    std::lock_guard lock(mutex_);
    const bool had_turn = current_ == &thread;
    threads_.remove_if([&](const Thread& other) { return &other == &thread; });
    if (had_turn) next = choose_next();
  }
  if (next != nullptr) next->turn.give();
}

std::thread SimulatedThreads::start(Process& process, std::function<void()> body) {
  std::thread thread([this, &process, body = std::move(body)] {
    process.enter(Role::kMain);
    block(process, nullptr, now(), nullptr);
    body();
  });
  await_threads(process, 1);
  return thread;
}

void SimulatedThreads::await_threads(const Process& process, int count) {
  std::unique_lock lock(mutex_);
  entered_.wait(lock, [&] { return count <= threads_of(process); });
}

void SimulatedThreads::join(std::thread& main, const Process& process) {
  const std::function<bool()> ended = [&] { return threads_of(process) == 0; };
  block(outside_, nullptr, TimePoint::max(), &ended);
  main.join();
}

int64_t SimulatedThreads::threads_of(const Process& process) const {
  return std::count_if(threads_.begin(), threads_.end(), [&](const Thread& thread) {
    return thread.waiting && std::get<0>(thread.place) == process.number();
  });
}

// --- waiting ---

bool SimulatedThreads::block(const Process& process, std::unique_lock<std::mutex>* lock,
                             TimePoint until, const std::function<bool()>* done) {
  // No other thread runs: nothing changes between here and the choice of the next one.
  if (lock) lock->unlock();
  enter(process, Role::kBeater);
  Thread& me = *self_.thread;
  // A thread that just came waits for its first turn.
  Thread* next = nullptr;
  {
    std::lock_guard own(mutex_);
    me.waits_on = &process;
    me.until = until;
    me.guard = lock ? lock->mutex() : nullptr;
    me.done = done;
    if (!std::exchange(me.waiting, true)) entered_.notify_all();
    if (current_ == &me) next = choose_next();
  }
  if (next != &me) {
    if (next != nullptr) next->turn.give();
    me.turn.await();
  }
  if (lock) lock->lock();
  return !done || (*done)();
}

bool SimulatedThreads::ready(const Thread& thread) const {
  if (!thread.waiting || now() < thread.waits_on->frozen_until_) return false;
  if (thread.until <= now()) return true;
  if (!thread.done) return false;
  if (!thread.guard) return (*thread.done)();
  const std::lock_guard lock(*thread.guard);
  return (*thread.done)();
}

SimulatedThreads::Thread* SimulatedThreads::choose_next() {
  current_ = nullptr;
  if (threads_.empty()) return nullptr;
  for (;;) {
    // Any of those that are ready may be next.
    auto thread = std::next(threads_.begin(), static_cast<long>(random_() % threads_.size()));
    for (size_t looked = 0; looked < threads_.size(); ++looked) {
      if (ready(*thread)) {
        current_ = &*thread;
        return current_;
      }
      if (++thread == threads_.end()) thread = threads_.begin();
    }
    TimePoint next = TimePoint::max();
    for (const Thread& waiting : threads_) {
      const TimePoint frozen = waiting.waits_on->frozen_until_;
      next = std::min(next, frozen > now() ? frozen : waiting.until);
    }
    if (next == TimePoint::max()) throw internal_error("all simulated threads wait for ever");
    now_ = next.time_since_epoch().count();
  }
}

void SimulatedThreads::Process::sleep_for(Duration duration) {
  simulated_.block(*this, nullptr, now() + duration, nullptr);
}

bool SimulatedThreads::Process::wait_until(std::unique_lock<std::mutex>& lock,
                                           std::condition_variable&, TimePoint deadline,
                                           const std::function<bool()>& done) {
  return (now() >= frozen_until_ && done()) || simulated_.block(*this, &lock, deadline, &done);
}

bool SimulatedThreads::Process::wait_until(TimePoint deadline, const std::function<bool()>& done) {
  return (now() >= frozen_until_ && done()) || simulated_.block(*this, nullptr, deadline, &done);
}

}  // namespace muster::inline v0_1
