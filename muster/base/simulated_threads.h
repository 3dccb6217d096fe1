// A simulated clock for real threads, for tests: the threads take turns, and when all of them wait,
// time jumps to the end of the shortest wait. The next thread is drawn from the seed, so the same
// seed gives the same run. Thread safety: all calls from the threads that take part.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "muster/base/clock.h"

namespace muster::inline v0_1 {

class SimulatedThreads {
 public:
  // The thread that makes it takes part, has the first turn and must be the last to leave.
  explicit SimulatedThreads(uint64_t seed);
  // All other threads have ended.
  ~SimulatedThreads();
  SimulatedThreads(const SimulatedThreads&) = delete;
  SimulatedThreads& operator=(const SimulatedThreads&) = delete;

  // What a thread is to its process. A process has one beater and one listener.
  enum class Role { kMain, kBeater, kListener };

  // The clock of a simulated process. A thread of the process that waits on it for the first time
  // begins to take part, as the beater.
  class Process : public Clock {
   public:
    Process(SimulatedThreads& simulated, int number) : simulated_(simulated), number_(number) {}
    TimePoint now() override { return simulated_.now(); }
    double wall_seconds() override {
      return 1'700'000'000 + simulated_.seconds() + simulated_.wall_jump_;
    }
    void sleep_for(Duration duration) override;
    bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                    TimePoint deadline, const std::function<bool()>& done) override;
    // The calling thread takes part in this role, if it does not yet.
    void enter(Role role) { simulated_.enter(*this, role); }
    // Waits without a lock.
    bool wait_until(TimePoint deadline, const std::function<bool()>& done);
    // Waits until the time that `due` says, which other threads may change meanwhile.
    void wait_until_due(const std::function<TimePoint()>& due);
    // None of its threads has a turn before that time.
    void freeze_until(TimePoint time) { frozen_until_ = time; }
    TimePoint frozen_until() const { return frozen_until_; }
    int number() const { return number_; }

   private:
    friend class SimulatedThreads;
    SimulatedThreads& simulated_;
    const int number_;
    TimePoint frozen_until_{};
  };

  TimePoint now() const { return TimePoint(Duration(now_.load())); }
  double seconds() const { return to_seconds(now().time_since_epoch()); }
  std::mt19937_64& random() { return random_; }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }

  // The date of all processes is set forward or back by this many seconds.
  void jump_wall(double seconds) { wall_jump_ += seconds; }

  // Starts a thread of a process, which may have several of them. It waits for its first turn when
  // this returns. `body` throws nothing.
  void start(Process& process, std::function<void()> body);
  // Lets the others run until all threads of the process have ended.
  void join(const Process& process);
  // Returns when `count` threads of the process wait for a turn, or have it. The caller keeps its
  // own.
  void await_threads(const Process& process, int count);

 private:
  // A turn that is given to one thread. A condition variable would wake the thread while the giver
  // holds the lock, which costs two more switches between threads; most of a run is such switches.
  class Turn {
   public:
    Turn() { sem_init(&semaphore_, 0, 0); }
    ~Turn() { sem_destroy(&semaphore_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void give() { sem_post(&semaphore_); }
    void await() {
      while (sem_wait(&semaphore_) != 0) {
      }  // a signal
    }

   private:
    sem_t semaphore_;
  };
  // How a thread waits.
  struct Wait {
    TimePoint until = TimePoint::max();
    const std::function<TimePoint()>* due = nullptr;  // in place of `until`
    std::mutex* guard = nullptr;                      // of what `done` reads
    const std::function<bool()>* done = nullptr;
    TimePoint time() const { return due != nullptr ? (*due)() : until; }
  };
  // One thread that takes part.
  struct Thread {
    SimulatedThreads* simulated;
    std::tuple<int, Role> place;  // process and role: the order of threads
    Turn turn;
    bool waiting = false;               // it has come to its first wait
    const Process* waits_on = nullptr;  // on whose clock
    Wait wait{};
  };
  // The threads of the system that start() uses, one after another for many worlds.
  class Crew;
  // Ends the part of a thread when the thread ends.
  struct Leaver {
    Thread* thread = nullptr;
    ~Leaver();
  };

  int64_t threads_of(const Process& process) const;  // that wait for a turn, or have it
  // Adds a thread to those that take part. REQUIRES: mutex_ is held.
  Thread& add(const Process& process, Role role);
  void enter(const Process& process, Role role);
  void leave(Thread& thread);
  bool block(const Process& process, std::unique_lock<std::mutex>* lock, Wait wait);
  bool ready(const Thread& thread) const;
  // Returns the thread that has the next turn, or nullptr if no thread is left. The caller gives it
  // the turn after it has released the lock.
  Thread* choose_next();

  static thread_local Leaver self_;

  Crew& crew_;
  std::atomic<int64_t> now_{0};
  double wall_jump_ = 0;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable entered_;
  std::list<Thread> threads_;  // by place
  Thread* current_ = nullptr;
  Process outside_{*this, -1};  // of the thread that made this
};

}  // namespace muster::inline v0_1
