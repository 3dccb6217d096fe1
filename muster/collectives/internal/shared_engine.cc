#include "muster/collectives/internal/shared_engine.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>

#include "muster/base/strings.h"
#include "muster/collectives/internal/sum.h"
#include "muster/plan/exchange.h"

namespace muster::inline v0_1::internal {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr uint64_t kSlots = 64;           // operations a rank may post ahead
constexpr auto kSpin = microseconds(30);  // before a wait gives the core away
constexpr auto kCheck = milliseconds(1);  // how often a wait looks whether the others live
constexpr size_t kReasonBytes = 3000;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Words that other processes wait on, unlike those of std::atomic::wait.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, milliseconds timeout) {
  const timespec relative{.tv_sec = timeout.count() / 1000,
                          .tv_nsec = timeout.count() % 1000 * 1000000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &relative, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// An operation as the other ranks see it.
struct Posted {
  uint64_t sequence = 0;
  int64_t count = 0;
  uint64_t segment = 0;  // of `offset`; 0: not in shared memory
  int64_t offset = 0;
  int32_t root = 0;
  OperationKind kind = OperationKind::kBarrier;
  ElementType type = ElementType::kByte;
};

}  // namespace

// Written by its rank, apart from the bell.
struct alignas(64) ControlPage {
  std::array<std::atomic<uint64_t>, 3> counters;  // by Counter
  alignas(64) std::atomic<uint32_t> bell;         // rung for a rank that sleeps
  std::atomic<uint32_t> sleeping;
  alignas(64) std::atomic<uint32_t> gone;  // what follows says why
  int32_t kind;
  uint32_t reason_bytes;
  char reason[kReasonBytes];
  alignas(64) std::array<Posted, kSlots> slots;  // operation k is in slot k % kSlots
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Memory of this rank that others can map. Outlives the engine when its tensors do.
struct SharedEngine::Registry {
  struct Segment {
    uint64_t id = 0;
    int64_t bytes = 0;
  };
  std::mutex mutex;
  std::map<const std::byte*, Segment> segments;  // by begin
  uint64_t last_id = 0;

  // The segment all of [data, data + bytes) is in, and where.
  std::optional<std::pair<uint64_t, int64_t>> find(const std::byte* data, int64_t bytes) {
    const std::lock_guard lock(mutex);
    auto after = segments.upper_bound(data);
    if (after == segments.begin()) return std::nullopt;
    const auto& [begin, segment] = *--after;
    if (data + bytes > begin + segment.bytes) return std::nullopt;
    return std::pair(segment.id, data - begin);
  }
};

struct SharedEngine::State : Work::State {
  explicit State(std::weak_ptr<SharedEngine> engine) : engine(std::move(engine)) {}
  void help(bool block) override {
    if (const auto alive = engine.lock()) alive->help(*this, block);
  }
  const std::weak_ptr<SharedEngine> engine;
};

int64_t SharedEngine::control_bytes(int64_t stage_bytes) {
  return static_cast<int64_t>(sizeof(ControlPage)) + 2 * stage_bytes;
}

SharedEngine::SharedEngine(int rank, std::vector<Member> members, int64_t stage_bytes,
                           milliseconds timeout)
    : rank_(rank),
      size_(static_cast<int>(members.size())),
      stage_bytes_(stage_bytes),
      timeout_(timeout),
      members_(std::move(members)),
      registry_(std::make_shared<Registry>()) {}

// New memory is zeroed, which is what a page's atomics begin with.
ControlPage& SharedEngine::page(int rank) const {
  return *reinterpret_cast<ControlPage*>(members_[static_cast<size_t>(rank)].control.data());
}

// Two take turns: a rank that fills one may find others still reading what was before.
std::byte* SharedEngine::stage(int rank) const {
  return members_[static_cast<size_t>(rank)].control.data() + sizeof(ControlPage) +
         pieces_ % 2 * stage_bytes_;
}

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

std::shared_ptr<std::byte> SharedEngine::allocate(int64_t bytes) {
  auto memory = std::make_shared<SharedMemory>(SharedMemory::create(bytes));
  std::byte* const data = memory->data();
  uint64_t id = 0;
  {
    const std::lock_guard lock(registry_->mutex);
    id = ++registry_->last_id;
  }
  bool sent = true;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const Parcel parcel{.rank = rank_, .token = {}, .id = id, .bytes = bytes, .file = {}};
    sent &= send_parcel(members_[static_cast<size_t>(r)].socket, parcel, memory->file());
  }
  // Memory that a rank could not be told of works like any other, through the stages.
  if (sent) {
    const std::lock_guard lock(registry_->mutex);
    registry_->segments[data] = {.id = id, .bytes = bytes};
  }
  return {data, [registry = registry_, memory = std::move(memory)](std::byte* begin) mutable {
            {
              const std::lock_guard lock(registry->mutex);
              registry->segments.erase(begin);
            }
            memory.reset();
          }};
}

Work SharedEngine::submit(Operation operation) {
  auto state = std::make_shared<State>(weak_from_this());
  {
    const std::lock_guard lock(mutex_);
    operation.sequence = ++sequence_;
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
    const Operation* operation = nullptr;  // stays where it is while others are appended
    {
      const std::lock_guard lock(mutex_);
      if (!failure_ && !pending_.empty()) operation = &pending_.front().operation;
    }
    if (operation == nullptr) break;
    try {
      post();
      if (step(*operation)) continue;
      check_members(*operation);
      if (!block) return;
      wait_for_others(*operation);
    } catch (const Error& error) {
      // The group fails before its Work does: who sees the error finds the group failed as well.
      if (declare(error)) finish_oldest(error);
    }
  }
  drain();
}

// Announces what has been submitted, as far as there are slots.
void SharedEngine::post() {
  uint64_t oldest = posted_;  // that every rank has completed
  for (int r = 0; r < size_; ++r) oldest = std::min(oldest, count(r, Counter::kCompleted));
  const uint64_t before = posted_;
  {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) return;
    const uint64_t first = pending_.front().operation.sequence;
    for (; posted_ < sequence_ && posted_ < oldest + kSlots; ++posted_) {
      const Operation& operation = pending_[posted_ + 1 - first].operation;
      Posted& slot = page(rank_).slots[operation.sequence % kSlots];
      slot = {.sequence = operation.sequence,
              .count = operation.count,
              .root = operation.root,
              .kind = operation.kind,
              .type = operation.type};
      if (const auto found = registry_->find(operation.data, operation.contributed_bytes(size_))) {
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
      copy_in(operation);
      step_ = Step::kStaged;
      advance_own(Counter::kMet, ++met_);
      return true;
    case Step::kStaged:
      if (!all_at(Counter::kMet, met_)) return false;
      if (operation.kind != OperationKind::kAllReduce) {
        copy_out(operation);
        return true;
      }
      sum_stages(operation);
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
    const Posted& posted = page(r).slots[operation.sequence % kSlots];
    const Operation theirs{.kind = posted.kind,
                           .type = posted.type,
                           .root = posted.root,
                           .count = posted.count,
                           .sequence = posted.sequence};
    if (!operation.matches(theirs)) throw mismatch(rank_, operation, r, theirs);
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
    execute_in_place(operation);
    complete(operation);
  } else {
    done_bytes_ = 0;
    pieces_ = 0;
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
  oldest->operation.owner.reset();
  oldest->state->finish(std::move(error));
}

void SharedEngine::execute_in_place(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  std::vector<std::byte*> buffers(static_cast<size_t>(size_), operation.data);
  for (int r = 0; r < size_; ++r) {
    const bool needed = operation.kind != OperationKind::kBroadcast || r == operation.root;
    if (r != rank_ && needed) buffers[static_cast<size_t>(r)] = peer_memory(r, operation);
  }
  switch (operation.kind) {
    case OperationKind::kAllReduce: {
      const plan::Range mine = plan::chunk_of(operation.count, size_, rank_);
      for (std::byte*& buffer : buffers) buffer += mine.begin * width;
      sum_everywhere(operation.type, buffers, mine.size());
      break;
    }
    case OperationKind::kReduceScatter: {
      std::vector<const std::byte*> inputs;
      for (const std::byte* buffer : buffers) inputs.push_back(buffer + rank_ * operation.bytes());
      sum_in_rank_order(operation.type, operation.out, inputs, operation.count);
      break;
    }
    case OperationKind::kBroadcast:
      if (rank_ != operation.root) {
        std::memcpy(operation.data, buffers[static_cast<size_t>(operation.root)],
                    static_cast<size_t>(operation.bytes()));
      }
      break;
    case OperationKind::kAllGather:
      for (int r = 0; r < size_; ++r) {
        std::memmove(operation.out + r * operation.bytes(), buffers[static_cast<size_t>(r)],
                     static_cast<size_t>(operation.bytes()));
      }
      break;
    case OperationKind::kBarrier:
      break;
  }
}

// Of a reduce_scatter, every rank's part goes through the stage at once.
int64_t SharedEngine::piece_bytes(const Operation& operation) const {
  const bool shared = operation.kind == OperationKind::kReduceScatter;
  const int64_t room = shared ? stage_bytes_ / size_ / 64 * 64 : stage_bytes_;
  return std::min(room, operation.bytes() - done_bytes_);
}

void SharedEngine::copy_in(const Operation& operation) {
  if (operation.kind == OperationKind::kBroadcast && operation.root != rank_) return;
  const int64_t bytes = piece_bytes(operation);
  const int parts = operation.kind == OperationKind::kReduceScatter ? size_ : 1;
  for (int part = 0; part < parts; ++part) {
    std::memcpy(stage(rank_) + part * bytes,
                operation.data + part * operation.bytes() + done_bytes_,
                static_cast<size_t>(bytes));
  }
}

// This rank's chunk of the piece, into its own stage: nobody else reads it there yet.
void SharedEngine::sum_stages(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  const plan::Range mine = plan::chunk_of(piece_bytes(operation) / width, size_, rank_);
  std::vector<const std::byte*> inputs;
  for (int r = 0; r < size_; ++r) inputs.push_back(stage(r) + mine.begin * width);
  sum_in_rank_order(operation.type, stage(rank_) + mine.begin * width, inputs, mine.size());
}

void SharedEngine::copy_out(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  const int64_t bytes = piece_bytes(operation);
  if (operation.kind == OperationKind::kReduceScatter) {
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < size_; ++r) inputs.push_back(stage(r) + rank_ * bytes);
    sum_in_rank_order(operation.type, operation.out + done_bytes_, inputs, bytes / width);
  }
  for (int r = 0; r < size_; ++r) {
    if (operation.kind == OperationKind::kAllReduce) {
      const plan::Range part = plan::chunk_of(bytes / width, size_, r);
      std::memcpy(operation.data + done_bytes_ + part.begin * width, stage(r) + part.begin * width,
                  static_cast<size_t>(part.size() * width));
    } else if (operation.kind == OperationKind::kAllGather) {
      std::memcpy(operation.out + r * operation.bytes() + done_bytes_, stage(r),
                  static_cast<size_t>(bytes));
    } else if (operation.kind == OperationKind::kBroadcast && r == operation.root && r != rank_) {
      std::memcpy(operation.data + done_bytes_, stage(r), static_cast<size_t>(bytes));
    }
  }
  done_bytes_ += bytes;
  ++pieces_;
  if (done_bytes_ < operation.bytes()) {
    step_ = Step::kStaging;
  } else {
    complete(operation);
  }
}

std::byte* SharedEngine::peer_memory(int peer, const Operation& operation) {
  const Posted& posted = page(peer).slots[operation.sequence % kSlots];
  const auto key = std::pair(peer, posted.segment);
  // A rank sends its memory before it posts an operation on it.
  for (auto found = mapped_.find(key);; found = mapped_.find(key)) {
    if (found != mapped_.end()) return found->second.data() + posted.offset;
    auto parcel = receive_parcel(members_[static_cast<size_t>(peer)].socket, milliseconds(0));
    if (!parcel) {
      throw internal_error(fmt::format("{}: rank {} did not send its memory {}", place(operation),
                                       peer, posted.segment));
    }
    mapped_[{peer, parcel->id}] = SharedMemory::map(std::move(parcel->file), parcel->bytes);
  }
}

bool SharedEngine::all_at(Counter counter, uint64_t target) {
  awaited_ = counter;
  target_ = target;
  for (int r = 0; r < size_; ++r) {
    if (count(r, counter) < target) return false;
  }
  return true;
}

void SharedEngine::wait_for_others(const Operation& operation) {
  ControlPage& own = page(rank_);
  const auto ready = [&] {
    for (int r = 0; r < size_; ++r) {
      // Those that left are the caller's to judge.
      if (count(r, awaited_) < target_ && page(r).gone.load(std::memory_order_relaxed) == 0) {
        return false;
      }
    }
    return true;
  };
  const auto start = steady_clock::now();
  if (!deadline_) deadline_ = start + timeout_;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return;
      pause_briefly();
    }
  } while (steady_clock::now() < start + kSpin);

  const uint32_t heard = own.bell.load();
  own.sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!ready() && !failure()) futex_wait(own.bell, heard, kCheck);
  own.sleeping.store(0, std::memory_order_relaxed);
  if (steady_clock::now() < *deadline_ || ready()) return;
  std::vector<std::string> missing;
  for (int r = 0; r < size_; ++r) {
    if (count(r, awaited_) < target_) missing.push_back(std::to_string(r));
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
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("{}: lost rank {}: its process has ended", place(operation), r),
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
                                                 peer, std::string(other.reason, bytes)));
}

std::string SharedEngine::place(const Operation& operation) const {
  return fmt::format("{} on rank {} of {}", operation.describe(), rank_, size_);
}

}  // namespace muster::inline v0_1::internal
