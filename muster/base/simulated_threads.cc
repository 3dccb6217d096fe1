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

// To begin and end a thread costs as much as ten turns, most of it for its stack and its memory.
// Thread safety: any thread.
class SimulatedThreads::Crew {
 public:
  // Of the worlds that the calling thread makes: a thread stays on the CPUs of the one that began
  // it.
  static Crew& of_this_thread() {
    static thread_local Crew crew;
    return crew;
  }
  Crew() = default;
  ~Crew() {
    for (Member& member : members_) member.work.give();  // nothing: the end
    for (Member& member : members_) member.thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void run(std::function<void()> body) {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) idle_.push_back(&members_.emplace_back());
    Member& member = *idle_.back();
    idle_.pop_back();
    member.body = std::move(body);
    if (member.thread.joinable()) return member.work.give();
    member.thread = std::thread([this, &member] {
      while (member.body) {
        member.body();
        // What it holds is released while the world is there: `body` has a turn until it is gone.
        member.body = nullptr;
        if (self_.thread) self_.thread->simulated->leave(*std::exchange(self_.thread, nullptr));
        {
          const std::lock_guard own(mutex_);
          idle_.push_back(&member);
        }
        member.work.await();
      }
    });
  }

 private:
  struct Member {
    Turn work;
    std::function<void()> body{};
    std::thread thread{};
  };
  std::mutex mutex_;
  std::list<Member> members_;
  std::vector<Member*> idle_;
};

SimulatedThreads::SimulatedThreads(uint64_t seed) : crew_(Crew::of_this_thread()), random_(seed) {
  enter(outside_, Role::kMain);
  current_ = self_.thread;
  current_->waiting = true;
}

SimulatedThreads::~SimulatedThreads() {
  threads_.clear();
  self_.thread = nullptr;
}

SimulatedThreads::Thread& SimulatedThreads::add(const Process& process, Role role) {
  const std::tuple place(process.number(), role);
  const auto next = std::find_if(threads_.begin(), threads_.end(),
                                 [&](const Thread& other) { return other.place > place; });
  Thread& thread = *threads_.emplace(next);
  thread.simulated = this;
  thread.place = place;
  thread.waits_on = &process;
  return thread;
}

void SimulatedThreads::enter(const Process& process, Role role) {
  if (self_.thread) return;
  const std::lock_guard lock(mutex_);
  self_.thread = &add(process, role);
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

void SimulatedThreads::start(Process& process, std::function<void()> body) {
  // It waits for its first turn from now on, whenever the system lets it begin.
  Thread* thread = nullptr;
  {
    const std::lock_guard lock(mutex_);
    thread = &add(process, Role::kMain);
    thread->waiting = true;
    thread->wait.until = now();
  }
  crew_.run([thread, body = std::move(body)] {
    self_.thread = thread;
    thread->turn.await();
    body();
  });
}

void SimulatedThreads::await_threads(const Process& process, int count) {
  std::unique_lock lock(mutex_);
  entered_.wait(lock, [&] { return count <= threads_of(process); });
}

void SimulatedThreads::join(const Process& process) {
  const std::function<bool()> ended = [&] { return threads_of(process) == 0; };
  block(outside_, nullptr, {.done = &ended});
}

int64_t SimulatedThreads::threads_of(const Process& process) const {
  return std::count_if(threads_.begin(), threads_.end(), [&](const Thread& thread) {
    return thread.waiting && std::get<0>(thread.place) == process.number();
  });
}

// --- waiting ---

bool SimulatedThreads::block(const Process& process, std::unique_lock<std::mutex>* lock,
                             Wait wait) {
  // No other thread runs: nothing changes between here and the choice of the next one.
  if (lock) lock->unlock();
  enter(process, Role::kBeater);
  Thread& me = *self_.thread;
  // A thread that just came waits for its first turn.
  Thread* next = nullptr;
  {
    std::lock_guard own(mutex_);
    me.waits_on = &process;
    wait.guard = lock ? lock->mutex() : nullptr;
    me.wait = wait;
    if (!std::exchange(me.waiting, true)) entered_.notify_all();
    if (current_ == &me) next = choose_next();
  }
  if (next != &me) {
    if (next != nullptr) next->turn.give();
    me.turn.await();
  }
  if (lock) lock->lock();
  return !wait.done || (*wait.done)();
}

bool SimulatedThreads::ready(const Thread& thread) const {
  if (!thread.waiting || now() < thread.waits_on->frozen_until_) return false;
  const Wait& wait = thread.wait;
  if (wait.time() <= now()) return true;
  if (!wait.done) return false;
  if (!wait.guard) return (*wait.done)();
  const std::lock_guard lock(*wait.guard);
  return (*wait.done)();
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
      next = std::min(next, frozen > now() ? frozen : waiting.wait.time());
    }
    if (next == TimePoint::max()) throw internal_error("all simulated threads wait for ever");
    now_ = next.time_since_epoch().count();
  }
}

void SimulatedThreads::Process::sleep_for(Duration duration) {
  simulated_.block(*this, nullptr, {.until = now() + duration});
}

bool SimulatedThreads::Process::wait_until(std::unique_lock<std::mutex>& lock,
                                           std::condition_variable&, TimePoint deadline,
                                           const std::function<bool()>& done) {
  return (now() >= frozen_until_ && done()) ||
         simulated_.block(*this, &lock, {.until = deadline, .done = &done});
}

bool SimulatedThreads::Process::wait_until(TimePoint deadline, const std::function<bool()>& done) {
  return (now() >= frozen_until_ && done()) ||
         simulated_.block(*this, nullptr, {.until = deadline, .done = &done});
}

void SimulatedThreads::Process::wait_until_due(const std::function<TimePoint()>& due) {
  if (now() < frozen_until_ || due() > now()) simulated_.block(*this, nullptr, {.due = &due});
}

}  // namespace muster::inline v0_1
