#include "muster/collectives/internal/progress_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/strings.h"
#include "muster/collectives/internal/spin.h"
#include "muster/collectives/internal/unix_socket.h"
#include "muster/collectives/internal/work_state.h"

namespace muster::inline v0_1::internal {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr int kFirstSpins = 64;  // before the first look at the clock: most waits are short
// How often a wait looks whether the others live: first, and when it has lasted.
constexpr auto kCheck = milliseconds(1);
constexpr auto kLongestCheck = milliseconds(8);
// Bytes over all ranks that a rank sums faster by itself than with ranks it has to wake first.
constexpr int64_t kSumAlone = int64_t{1} << 20;
// Threads of one process do not die alone, and a thread that leaves notifies the others. So a long
// sleep is enough.
constexpr auto kThreadCheck = milliseconds(100);

bool between_threads(const GroupMembers& members) {
  return std::ranges::none_of(*members,
                              [](const GroupMember& member) { return member.socket.is_open(); });
}

// Whether each rank sums a chunk for all, so that another one can do it in its place.
bool is_divided(const Operation& operation) {
  return operation.kind == OperationKind::kAllReduce && operation.bytes() > 0;
}

}  // namespace

struct ProgressEngine::State : Work::State {
  explicit State(std::weak_ptr<ProgressEngine> engine) : engine(std::move(engine)) {}
  void help(bool block) override {
    if (const auto alive = engine.lock()) alive->progress(this, block);
  }
  const std::weak_ptr<ProgressEngine> engine;
};

// Between threads a rank that leaves frees its buffers. It first declares itself gone and then
// waits for the flag this sets. A rank that comes after that sees that it has left, and does not
// use its buffers: both sides store first and then load, in one order for all.
class ProgressEngine::InBuffers {
 public:
  explicit InBuffers(ControlPage& page) : page_(page) { page_.in_buffers.store(1); }
  ~InBuffers() { page_.in_buffers.store(0, std::memory_order_release); }
  InBuffers(const InBuffers&) = delete;
  InBuffers& operator=(const InBuffers&) = delete;

 private:
  ControlPage& page_;
};

ProgressEngine::ProgressEngine(const Options& options, GroupMembers members,
                               std::shared_ptr<PeerMemory> memory)
    : options_(options),
      size_(static_cast<int>(members->size())),
      members_(std::move(members)),
      between_threads_(between_threads(members_)),
      memory_(std::move(memory)),
      operations_(options.rank, members_, *memory_, options.stage_bytes) {}

void ProgressEngine::publish(Counter counter, uint64_t value) {
  page(options_.rank).set_count(counter, value);
  wake_others(/*early=*/counter == Counter::kMet);
}

// `early`: also those that sleep until their operations are complete.
void ProgressEngine::wake_others(bool early) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int r = 0; r < size_; ++r) {
    if (r == options_.rank || !page(r).doorbell.has_sleeper()) continue;
    const uint64_t until = page(r).sleeps_until.load(std::memory_order_relaxed);
    if (early || all_completed(until)) page(r).doorbell.ring();
  }
}

Work ProgressEngine::submit(Operation operation) {
  auto state = std::make_shared<State>(weak_from_this());
  {
    const std::lock_guard lock(mutex_);
    operation.sequence = submitted_.load(std::memory_order_relaxed) + 1;
    submitted_.store(operation.sequence, std::memory_order_release);
    if (failure_) {
      state->finish(failure_->with_context(operation.describe() + " was not started"));
      return Work(std::move(state));
    }
    pending_.push_back({std::move(operation), state});
  }
  progress(nullptr, /*block=*/false);
  return Work(std::move(state));
}

bool ProgressEngine::fail(const Error& error) {
  if (!declare_failed(error)) return false;
  page(options_.rank).doorbell.ring();  // a thread of this rank may sleep in a wait
  progress(nullptr, /*block=*/false);   // a thread that is in progress() already will find out
  return true;
}

// The first failure, for this rank and the others.
bool ProgressEngine::declare_failed(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = error;
    ControlPage& own = page(options_.rank);
    own.kind = static_cast<int32_t>(error.kind());
    own.reason_bytes = static_cast<uint32_t>(std::min(error.message().size(), kReasonBytes));
    std::memcpy(own.reason, error.message().data(), own.reason_bytes);
    own.gone.store(1);
    // Last: a rank that sees it frees buffers, which the others avoid only after the line above.
    failed_.store(true, std::memory_order_release);
  }
  wake_others(/*early=*/true);
  return true;
}

bool ProgressEngine::idle() const {
  const std::lock_guard lock(mutex_);
  return pending_.empty();
}

void ProgressEngine::leave() {
  fail(Error(ErrorKind::kCancelled, "its communicator was closed"));
  const std::lock_guard moving(progress_);
  fail_outstanding();
}

// Moves operations until `wanted` is done, or as far as possible when that is nullptr or `block` is
// false.
void ProgressEngine::progress(const State* wanted, bool block) {
  std::unique_lock moving(progress_, std::defer_lock);
  if (block) {
    moving.lock();
  } else if (!moving.try_lock()) {
    return;
  }
  while (wanted == nullptr || !wanted->is_finished()) {
    if (failed_.load(std::memory_order_acquire) || !choose_oldest()) break;
    try {
      post();
      if (step(*oldest_)) continue;
      if (block && sum_for_others(*oldest_)) continue;
      if (block && spin(kFirstSpins, [&] { return all_came(/*or_left=*/false); })) continue;
      check_members(*oldest_);
      if (!block) return;
      wait_for_others(*oldest_, wanted);
    } catch (const Error& error) {
      // The others keep off this rank's buffers before its Work is done, and the group fails before
      // that too: who sees the error finds the group failed as well.
      if (declare_failed(error)) {
        wait_until_out_of_buffers();
        finish_oldest(error);
      }
    }
  }
  fail_outstanding();
}

// False when nothing is outstanding.
bool ProgressEngine::choose_oldest() {
  if (oldest_ != nullptr) return true;
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) return false;
  oldest_ = &pending_.front().operation;
  return true;
}

// Tells the others what has been submitted, as far as there are slots.
void ProgressEngine::post() {
  if (posted_ == submitted_.load(std::memory_order_acquire)) return;
  uint64_t completed = posted_;  // by every rank
  for (int r = 0; r < size_; ++r) {
    completed = std::min(completed, page(r).count(Counter::kCompleted));
  }
  const uint64_t before = posted_;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) return;
    const uint64_t first = pending_.front().operation.sequence;
    const uint64_t last = std::min(submitted_.load(std::memory_order_relaxed), completed + kSlots);
    for (; posted_ < last; ++posted_) write_slot(pending_[posted_ + 1 - first].operation);
  }
  if (posted_ != before) publish(Counter::kPosted, posted_);
}

void ProgressEngine::write_slot(const Operation& operation) {
  const auto buffer = memory_->find(operation.data, operation.contributed_bytes(size_));
  page(options_.rank).slot_of(operation) = {.sequence = operation.sequence,
                                            .count = operation.count,
                                            .buffer = buffer.value_or(BufferLocation{}),
                                            .root = operation.root,
                                            .kind = operation.kind,
                                            .type = operation.type};
}

// Takes one step of the oldest operation; false when other ranks have to come first.
bool ProgressEngine::step(const Operation& operation) {
  switch (step_) {
    case Step::kPosts:
      if (!all_at(Counter::kPosted, operation.sequence)) return false;
      begin(operation);
      return true;
    case Step::kCopyIn:
      operations_.copy_in(operation);
      step_ = operation.kind == OperationKind::kAllReduce ? Step::kReduce : Step::kCopyOut;
      publish(Counter::kMet, ++met_);
      return true;
    case Step::kReduce:
      if (!all_at(Counter::kMet, met_)) return false;
      operations_.reduce_stages(operation);
      step_ = Step::kCopyOut;
      publish(Counter::kMet, ++met_);
      return true;
    case Step::kCopyOut:
      if (!all_at(Counter::kMet, met_)) return false;
      copy_out(operation);
      return true;
    case Step::kCompletions:
      if (!all_at(Counter::kCompleted, operation.sequence)) return false;
      finish_oldest(std::nullopt);
      return true;
  }
  throw internal_error(place(operation) + " is in no known step");
}

// All ranks have posted the operation.
void ProgressEngine::begin(const Operation& operation) {
  if (is_divided(operation) && !page(options_.rank).try_claim(operation, options_.rank)) {
    // Another rank has compared the posts and sums this one's chunk. The slots may hold later
    // operations by now.
    step_ = Step::kCompletions;
    return;
  }
  const bool in_place = compare_posts(operation);
  const InBuffers in_buffers(page(options_.rank));
  check_buffers(operation);
  if (operation.bytes() == 0) {
    complete(operation);
    if (operation.kind == OperationKind::kBarrier) finish_oldest(std::nullopt);
  } else if (in_place) {
    operations_.execute_in_place(operation);
    complete(operation);
  } else {
    operations_.begin_pieces();
    step_ = Step::kCopyIn;
  }
}

// Throws when a rank has left, and its buffer may be gone with it. REQUIRES: an InBuffers.
void ProgressEngine::check_buffers(const Operation& operation) const {
  for (int r = 0; r < size_; ++r) {
    // A thread that has left frees its buffer, also when it did its part of the operation.
    const bool freed = between_threads_ && operation.bytes() > 0 && page(r).gone.load() != 0;
    if (freed || gone(r, operation)) throw left(r, operation);
  }
}

// Sums a chunk that its rank has not begun with; false when there is none.
bool ProgressEngine::sum_for_others(const Operation& operation) {
  if (step_ != Step::kCompletions || !is_divided(operation)) return false;
  for (int r = 0; r < size_; ++r) {
    // Staged operations never get here with an unclaimed chunk: each rank claims its own first.
    if (page(r).count(Counter::kCompleted) >= operation.sequence) continue;
    if (page(r).gone.load() != 0) continue;  // check_members() tells what it left undone
    if (!page(r).try_claim(operation, options_.rank)) continue;
    const InBuffers in_buffers(page(options_.rank));
    check_buffers(operation);
    operations_.reduce_chunk(operation, r);
    page(r).set_count(Counter::kCompleted, operation.sequence);
    wake_others(/*early=*/false);
    return true;
  }
  return false;
}

// Names a rank that called another operation; nothing where all called this one. REQUIRES: all have
// posted that far.
std::optional<Error> ProgressEngine::difference(const Operation& operation) const {
  for (int r = 0; r < size_; ++r) {
    const PostedOperation& posted = page(r).slot_of(operation);
    const Operation theirs{.kind = posted.kind,
                           .type = posted.type,
                           .root = posted.root,
                           .count = posted.count,
                           .sequence = posted.sequence};
    if (!operation.matches(theirs))
      return mismatch(shown(options_.rank), operation, shown(r), theirs);
  }
  return std::nullopt;
}

// Throws when ranks called different operations. Returns whether buffers are used in place; every
// rank decides alike.
bool ProgressEngine::compare_posts(const Operation& operation) const {
  if (const auto error = difference(operation)) throw *error;
  for (int r = 0; r < size_; ++r) {
    const bool needed = operation.kind != OperationKind::kBroadcast || r == operation.root;
    if (needed && page(r).slot_of(operation).buffer.segment == 0) return false;
  }
  return true;
}

void ProgressEngine::copy_out(const Operation& operation) {
  if (operations_.copy_out(operation)) {
    complete(operation);
  } else {
    step_ = Step::kCopyIn;
  }
}

void ProgressEngine::complete(const Operation& operation) {
  step_ = Step::kCompletions;
  publish(Counter::kCompleted, operation.sequence);
}

void ProgressEngine::finish_oldest(std::optional<Error> error) {
  std::optional<Pending> oldest;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) return;
    oldest = std::move(pending_.front());
    pending_.pop_front();
  }
  step_ = Step::kPosts;
  deadline_.reset();
  oldest_ = nullptr;
  oldest->operation.owner.reset();
  oldest->state->finish(std::move(error));
}

bool ProgressEngine::all_at(Counter counter, uint64_t target) {
  awaited_ = counter;
  target_ = target;
  for (int r = 0; r < size_; ++r) {
    if (page(r).count(counter) < target) return false;
  }
  return true;
}

// Whether everybody awaited has come; `or_left` counts those that have left as well.
bool ProgressEngine::all_came(bool or_left) const {
  for (int r = 0; r < size_; ++r) {
    if (page(r).count(awaited_) >= target_) continue;
    if (!or_left || page(r).gone.load(std::memory_order_relaxed) == 0) return false;
  }
  return true;
}

bool ProgressEngine::all_completed(uint64_t sequence) const {
  for (int r = 0; r < size_; ++r) {
    if (page(r).count(Counter::kCompleted) < sequence) return false;
  }
  return true;
}

// The sequence of `wanted`, or of the last operation for which there was a slot, when the last rank
// to come can do this rank's part of all operations up to it; else 0. A rank that is not woken for
// each of them finds its core free when it is woken: on a busy machine the scheduler lets a thread
// that has just slept wait next.
uint64_t ProgressEngine::others_can_do_all_until(const State* wanted) const {
  const std::lock_guard lock(mutex_);
  for (const Pending& pending : pending_) {
    const Operation& operation = pending.operation;
    if (!is_divided(operation) || operation.bytes() * size_ > kSumAlone) return 0;
    if (pending.state.get() == wanted) return std::min(operation.sequence, posted_);
  }
  return 0;
}

void ProgressEngine::wait_for_others(const Operation& operation, const State* wanted) {
  const auto ready = [&] { return all_came(/*or_left=*/true); };
  if (!deadline_) {
    deadline_ = steady_clock::now() + options_.timeout;
    nap_ = between_threads_ ? kThreadCheck : kCheck;
    if (spin_for(kSpinTime, ready)) return;
  }
  const auto rest = std::chrono::ceil<milliseconds>(*deadline_ - steady_clock::now());
  ControlPage& own = page(options_.rank);
  const uint64_t until = others_can_do_all_until(wanted);
  own.sleeps_until.store(until, std::memory_order_relaxed);
  // The last rank to post may compute on before it waits, and so sum nothing: look at that soon.
  const auto nap = until == 0 ? nap_ : std::min(nap_, kLongestCheck);
  own.doorbell.sleep(std::clamp(rest, milliseconds(1), nap),
                     [&] { return ready() || failed_.load(std::memory_order_acquire); });
  nap_ = std::min(2 * nap_, std::max(nap_, kLongestCheck));
  if (steady_clock::now() >= *deadline_ && !ready()) throw timed_out(operation);
}

Error ProgressEngine::timed_out(const Operation& operation) const {
  std::vector<std::string> missing;
  for (int r = 0; r < size_; ++r) {
    const bool late =
        awaited_ == Counter::kCompleted ? owes(r, operation) : page(r).count(awaited_) < target_;
    if (late) missing.push_back(std::to_string(shown(r)));
  }
  return Error(ErrorKind::kTimeout,
               fmt::format("{}: rank {} did not take part within {} ms", place(operation),
                           join(missing, ", "), options_.timeout.count()),
               "see what that task was doing; a longer time-out only helps when it was busy");
}

// Whether the others wait for this rank: its own part is not done and no other rank does it, or it
// has claimed the chunk of another rank.
bool ProgressEngine::owes(int peer, const Operation& operation) const {
  for (int r = 0; r < size_; ++r) {
    const bool done = page(r).count(Counter::kCompleted) >= operation.sequence;
    if (!done && page(r).claimed_by(operation, r) == peer) return true;
  }
  return false;
}

// Whether a rank has left without its part in `operation`.
bool ProgressEngine::gone(int peer, const Operation& operation) const {
  return page(peer).gone.load() != 0 && owes(peer, operation);
}

// Throws when a rank that has not completed `operation` has left, or its socket is closed, which is
// usually the end of its process.
void ProgressEngine::check_members(const Operation& operation) {
  const auto now = steady_clock::now();
  const bool look = !between_threads_ && now - checked_ >= kCheck;
  if (look) checked_ = now;
  std::optional<int> messenger;  // who left because of another rank
  for (int r = 0; r < size_; ++r) {
    if (r == options_.rank) continue;
    const bool closed = look && hung_up((*members_)[static_cast<size_t>(r)].socket);
    if (gone(r, operation)) {
      if (static_cast<ErrorKind>(page(r).kind) != ErrorKind::kPeerLost) throw left(r, operation);
      messenger = r;
    } else if (closed && owes(r, operation)) {
      throw Error(
          ErrorKind::kPeerLost,
          fmt::format("{}: lost rank {}: its socket was closed", place(operation), shown(r)),
          "see the output of that task for why it ended");
    }
  }
  if (messenger) throw left(*messenger, operation);
}

// An operation that every rank has been through is over, whatever happened to a rank afterwards.
void ProgressEngine::finish_what_is_complete() {
  while (!idle()) {
    const Operation* oldest = nullptr;
    {
      const std::lock_guard lock(mutex_);
      oldest = &pending_.front().operation;
    }
    const uint64_t sequence = oldest->sequence;
    const bool barrier = step_ == Step::kPosts && oldest->kind == OperationKind::kBarrier &&
                         sequence <= posted_ && all_at(Counter::kPosted, sequence) &&
                         !difference(*oldest);
    // Another rank may have done this one's part before this one saw that all had come.
    const bool complete = barrier || (sequence <= posted_ && all_at(Counter::kCompleted, sequence));
    if (!complete) return;
    if (barrier) publish(Counter::kCompleted, sequence);
    finish_oldest(std::nullopt);
  }
}

// REQUIRES: this rank is declared gone. The others are busy copying, so the wait is short.
void ProgressEngine::wait_until_out_of_buffers() const {
  if (!between_threads_) return;  // what others have mapped stays theirs
  for (int r = 0; r < size_; ++r) {
    while (r != options_.rank && page(r).in_buffers.load() != 0) std::this_thread::yield();
  }
}

// Ends everything that is outstanding when the group has failed.
void ProgressEngine::fail_outstanding() {
  if (!failed_.load(std::memory_order_acquire)) return;
  wait_until_out_of_buffers();
  finish_what_is_complete();
  bool first = true;
  while (!idle()) {
    std::optional<Error> error;
    {
      const std::lock_guard lock(mutex_);
      const Operation& oldest = pending_.front().operation;
      const bool never_posted = first && step_ == Step::kPosts && posted_ < oldest.sequence;
      // The other rank of a difference may have found it first, and have left.
      if (first && posted_ >= oldest.sequence && all_at(Counter::kPosted, oldest.sequence))
        error = difference(oldest);
      if (!error) {
        error = failure_->with_context(
            never_posted ? oldest.describe() + " was not started"
                         : place(oldest) + (first ? " was aborted" : " was not started"));
      }
    }
    finish_oldest(std::move(error));
    first = false;
  }
}

Error ProgressEngine::left(int peer, const Operation& operation) const {
  const ControlPage& other = page(peer);
  const size_t bytes = std::min<size_t>(other.reason_bytes, kReasonBytes);
  return Error(ErrorKind::kPeerLost, fmt::format("{}: rank {} left the group: {}", place(operation),
                                                 shown(peer), std::string(other.reason, bytes)));
}

std::string ProgressEngine::place(const Operation& operation) const {
  return fmt::format("{} on rank {} of {}", operation.describe(), shown(options_.rank), size_);
}

}  // namespace muster::inline v0_1::internal
