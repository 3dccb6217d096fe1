#include "muster/collectives/internal/shared_engine.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>

#include "muster/base/strings.h"
#include "muster/collectives/internal/spin.h"

namespace muster::inline v0_1::internal {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr int kFirstSpins = 64;           // before the first one: most waits are short
constexpr auto kCheck = milliseconds(1);  // how often a wait looks whether the others live

// Words that other processes wait on, unlike those of std::atomic::wait.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, milliseconds timeout) {
  const timespec relative{.tv_sec = timeout.count() / 1000,
                          .tv_nsec = timeout.count() % 1000 * 1000000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &relative, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct SharedEngine::State : Work::State {
  explicit State(std::weak_ptr<SharedEngine> engine) : engine(std::move(engine)) {}
  void help(bool block) override {
    if (const auto alive = engine.lock()) alive->help(*this, block);
  }
  const std::weak_ptr<SharedEngine> engine;
};

SharedEngine::SharedEngine(int rank, std::vector<SharedMember> members, int64_t stage_bytes,
                           milliseconds timeout, int first_shown_rank)
    : rank_(rank),
      size_(static_cast<int>(members.size())),
      timeout_(timeout),
      first_shown_rank_(first_shown_rank),
      members_(std::move(members)),
      mover_(rank, members_, stage_bytes, first_shown_rank) {}

uint64_t SharedEngine::count(int rank, Counter counter) const {
  return page(rank).counters[static_cast<size_t>(counter)].load(std::memory_order_acquire);
}

void SharedEngine::advance_own(Counter counter, uint64_t value) {
  page(rank_).counters[static_cast<size_t>(counter)].store(value, std::memory_order_release);
  ring_others();
}

// Either the sleeper sees what was stored before, or it is seen sleeping.
void SharedEngine::ring_others() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int r = 0; r < size_; ++r) {
    ControlPage& other = page(r);
    if (r == rank_ || other.sleeping.load(std::memory_order_relaxed) == 0) continue;
    other.bell.fetch_add(1);
    futex_wake(other.bell);
  }
}

ControlPage& SharedEngine::page(int rank) const {
  return members_[static_cast<size_t>(rank)].page();
}

Work SharedEngine::submit(Operation operation) {
  auto state = std::make_shared<State>(weak_from_this());
  {
    const std::lock_guard lock(mutex_);
    operation.sequence = sequence_.load(std::memory_order_relaxed) + 1;
    sequence_.store(operation.sequence, std::memory_order_release);
    if (failure_) {
      state->finish(failure_->with_context(operation.describe() + " was not started"));
      return Work(std::move(state));
    }
    pending_.push_back({std::move(operation), state});
  }
  drive(nullptr, /*block=*/false);
  return Work(std::move(state));
}

bool SharedEngine::fail(const Error& error) {
  if (!declare(error)) return false;
  page(rank_).bell.fetch_add(1);  // for a thread of ours that waits
  futex_wake(page(rank_).bell);
  drive(nullptr, /*block=*/false);  // whoever drives already will find out
  return true;
}

// The first failure, for this rank and the others.
bool SharedEngine::declare(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = error;
    failed_.store(true, std::memory_order_release);
    ControlPage& own = page(rank_);
    own.kind = static_cast<int32_t>(error.kind());
    own.reason_bytes = static_cast<uint32_t>(std::min(error.message().size(), kReasonBytes));
    std::memcpy(own.reason, error.message().data(), own.reason_bytes);
    own.gone.store(1, std::memory_order_release);
  }
  ring_others();
  return true;
}

bool SharedEngine::idle() const {
  const std::lock_guard lock(mutex_);
  return pending_.empty();
}

void SharedEngine::leave() {
  fail(Error(ErrorKind::kCancelled, "its communicator was closed"));
  const std::lock_guard driving(drive_);
  drain();
}

std::optional<Error> SharedEngine::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void SharedEngine::help(const State& wanted, bool block) { drive(&wanted, block); }

// Moves operations until `wanted` is done, or as far as possible when that is nullptr or `block` is
// false.
void SharedEngine::drive(const State* wanted, bool block) {
  std::unique_lock driving(drive_, std::defer_lock);
  if (block) {
    driving.lock();
  } else if (!driving.try_lock()) {
    return;
  }
  while (wanted == nullptr || !wanted->is_finished()) {
    if (failed_.load(std::memory_order_acquire)) break;
    if (oldest_ == nullptr) {
      const std::lock_guard lock(mutex_);
      if (pending_.empty()) break;
      oldest_ = &pending_.front().operation;
    }
    try {
      post();
      if (step(*oldest_)) continue;
      if (block && spin(kFirstSpins, [&] { return all_came(/*or_left=*/false); })) continue;
      check_members(*oldest_);
      if (!block) return;
      wait_for_others(*oldest_);
    } catch (const Error& error) {
      // The group fails before its Work does: who sees the error finds the group failed as well.
      if (declare(error)) finish_oldest(error);
    }
  }
  drain();
}

// Announces what has been submitted, as far as there are slots.
void SharedEngine::post() {
  if (posted_ == sequence_.load(std::memory_order_acquire)) return;
  uint64_t oldest = posted_;  // that every rank has completed
  for (int r = 0; r < size_; ++r) oldest = std::min(oldest, count(r, Counter::kCompleted));
  const uint64_t before = posted_;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) return;
    const uint64_t first = pending_.front().operation.sequence;
    for (; posted_ < sequence_.load(std::memory_order_relaxed) && posted_ < oldest + kSlots;
         ++posted_) {
      const Operation& operation = pending_[posted_ + 1 - first].operation;
      Posted& slot = page(rank_).slots[operation.sequence % kSlots];
      slot = {.sequence = operation.sequence,
              .count = operation.count,
              .root = operation.root,
              .kind = operation.kind,
              .type = operation.type};
      if (const auto found = mover_.find(operation.data, operation.contributed_bytes(size_))) {
        slot.segment = found->first;
        slot.offset = found->second;
      }
    }
  }
  if (posted_ != before) advance_own(Counter::kPosted, posted_);
}

bool SharedEngine::step(const Operation& operation) {
  switch (step_) {
    case Step::kPosted:
      if (!all_at(Counter::kPosted, operation.sequence)) return false;
      begin(operation);
      return true;
    case Step::kStaging:
      mover_.copy_in(operation);
      step_ = Step::kStaged;
      advance_own(Counter::kMet, ++met_);
      return true;
    case Step::kStaged:
      if (!all_at(Counter::kMet, met_)) return false;
      if (operation.kind != OperationKind::kAllReduce) {
        copy_out(operation);
        return true;
      }
      mover_.sum_stages(operation);
      step_ = Step::kSummed;
      advance_own(Counter::kMet, ++met_);
      return true;
    case Step::kSummed:
      if (!all_at(Counter::kMet, met_)) return false;
      copy_out(operation);
      return true;
    case Step::kCompleting:
      if (!all_at(Counter::kCompleted, operation.sequence)) return false;
      finish_oldest(std::nullopt);
      return true;
  }
  throw internal_error(place(operation) + " is in no known step");
}

// All ranks have posted: compares what they called, and decides whether buffers are used in place;
// every rank decides alike.
void SharedEngine::begin(const Operation& operation) {
  bool in_place = true;
  for (int r = 0; r < size_; ++r) {
    const Posted& posted = members_[static_cast<size_t>(r)].posted(operation);
    const Operation theirs{.kind = posted.kind,
                           .type = posted.type,
                           .root = posted.root,
                           .count = posted.count,
                           .sequence = posted.sequence};
    if (!operation.matches(theirs)) throw mismatch(shown(rank_), operation, shown(r), theirs);
    const bool needed = operation.kind != OperationKind::kBroadcast || r == operation.root;
    if (needed && posted.segment == 0) in_place = false;
  }
  for (int r = 0; r < size_; ++r) {
    if (gone(r, operation)) throw left(r, operation);
  }
  if (operation.bytes() == 0) {
    complete(operation);
    if (operation.kind == OperationKind::kBarrier) finish_oldest(std::nullopt);
  } else if (in_place) {
    mover_.execute_in_place(operation);
    complete(operation);
  } else {
    mover_.begin_pieces();
    step_ = Step::kStaging;
  }
}

void SharedEngine::copy_out(const Operation& operation) {
  if (mover_.copy_out(operation)) {
    complete(operation);
  } else {
    step_ = Step::kStaging;
  }
}

void SharedEngine::complete(const Operation& operation) {
  step_ = Step::kCompleting;
  advance_own(Counter::kCompleted, operation.sequence);
}

void SharedEngine::finish_oldest(std::optional<Error> error) {
  std::optional<Pending> oldest;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) return;
    oldest = std::move(pending_.front());
    pending_.pop_front();
  }
  step_ = Step::kPosted;
  deadline_.reset();
  oldest_ = nullptr;
  oldest->operation.owner.reset();
  oldest->state->finish(std::move(error));
}

bool SharedEngine::all_at(Counter counter, uint64_t target) {
  awaited_ = counter;
  target_ = target;
  for (int r = 0; r < size_; ++r) {
    if (count(r, counter) < target) return false;
  }
  return true;
}

// Everybody awaited has come, or has left: that is the caller's to judge.
bool SharedEngine::all_came(bool or_left) const {
  for (int r = 0; r < size_; ++r) {
    if (count(r, awaited_) >= target_) continue;
    if (!or_left || page(r).gone.load(std::memory_order_relaxed) == 0) return false;
  }
  return true;
}

void SharedEngine::wait_for_others(const Operation& operation) {
  ControlPage& own = page(rank_);
  const auto ready = [&] { return all_came(/*or_left=*/true); };
  if (!deadline_) deadline_ = steady_clock::now() + timeout_;
  if (spin_for(kSpinTime, ready)) return;

  const uint32_t heard = own.bell.load();
  own.sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!ready() && !failed_.load(std::memory_order_acquire)) {
    futex_wait(own.bell, heard, kCheck);
  }
  own.sleeping.store(0, std::memory_order_relaxed);
  if (steady_clock::now() < *deadline_ || ready()) return;
  std::vector<std::string> missing;
  for (int r = 0; r < size_; ++r) {
    if (count(r, awaited_) < target_) missing.push_back(std::to_string(shown(r)));
  }
  throw Error(ErrorKind::kTimeout,
              fmt::format("{}: rank {} did not take part within {} ms", place(operation),
                          join(missing, ", "), timeout_.count()),
              "see what that task was doing; a longer time-out only helps when it was busy");
}

// Whether a rank has left without its part in `operation`.
bool SharedEngine::gone(int peer, const Operation& operation) const {
  return page(peer).gone.load(std::memory_order_acquire) != 0 &&
         count(peer, Counter::kCompleted) < operation.sequence;
}

// Throws when a rank that has not completed `operation` has left, or its process has ended.
void SharedEngine::check_members(const Operation& operation) {
  const auto now = steady_clock::now();
  const bool look = now - checked_ >= kCheck;
  if (look) checked_ = now;
  std::optional<int> messenger;  // who left because of another rank
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const bool closed = look && hung_up(members_[static_cast<size_t>(r)].socket);
    if (gone(r, operation)) {
      if (static_cast<ErrorKind>(page(r).kind) != ErrorKind::kPeerLost) throw left(r, operation);
      messenger = r;
    } else if (closed && count(r, Counter::kCompleted) < operation.sequence) {
      throw Error(
          ErrorKind::kPeerLost,
          fmt::format("{}: lost rank {}: its process has ended", place(operation), shown(r)),
          "see the output of that task for why it ended");
    }
  }
  if (messenger) throw left(*messenger, operation);
}

// An operation that every rank has been through is over, whatever happened to a rank afterwards.
void SharedEngine::finish_what_is_complete() {
  while (!idle()) {
    const Operation* oldest = nullptr;
    {
      const std::lock_guard lock(mutex_);
      oldest = &pending_.front().operation;
    }
    const uint64_t sequence = oldest->sequence;
    const bool barrier = step_ == Step::kPosted && oldest->kind == OperationKind::kBarrier &&
                         sequence <= posted_ && all_at(Counter::kPosted, sequence);
    const bool complete =
        barrier || (step_ == Step::kCompleting && all_at(Counter::kCompleted, sequence));
    if (!complete) return;
    if (barrier) advance_own(Counter::kCompleted, sequence);
    finish_oldest(std::nullopt);
  }
}

// Ends everything that is outstanding when the group has failed.
void SharedEngine::drain() {
  const std::optional<Error> why = failure();
  if (!why) return;
  finish_what_is_complete();
  bool first = true;
  while (!idle()) {
    std::string what;
    {
      const std::lock_guard lock(mutex_);
      const Operation& oldest = pending_.front().operation;
      what = first && step_ == Step::kPosted && posted_ < oldest.sequence
                 ? oldest.describe() + " was not started"
                 : place(oldest) + (first ? " was aborted" : " was not started");
    }
    finish_oldest(why->with_context(what));
    first = false;
  }
}

Error SharedEngine::left(int peer, const Operation& operation) const {
  const ControlPage& other = page(peer);
  const size_t bytes = std::min<size_t>(other.reason_bytes, kReasonBytes);
  return Error(ErrorKind::kPeerLost, fmt::format("{}: rank {} left the group: {}", place(operation),
                                                 shown(peer), std::string(other.reason, bytes)));
}

std::string SharedEngine::place(const Operation& operation) const {
  return fmt::format("{} on rank {} of {}", operation.describe(), shown(rank_), size_);
}

}  // namespace muster::inline v0_1::internal
