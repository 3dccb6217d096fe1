#include "muster/ps/internal/shared_weights.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {
namespace {

constexpr int64_t kPage = 4096;
// Torn copies and a wait after which a reader asks the server instead.
constexpr int kMostTries = 4;
constexpr auto kLongestUpdate = std::chrono::milliseconds(200);
constexpr auto kGlance = std::chrono::microseconds(20);

// Each counter has a cache line of its own: the first one counts steps, the others the changes of
// their groups.
struct alignas(SharedWeights::kAlignment) Counter {
  std::atomic<uint64_t> value;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

int64_t bytes_of_counters(size_t groups) {
  return (static_cast<int64_t>((1 + groups) * sizeof(Counter)) + kPage - 1) / kPage * kPage;
}

std::atomic<uint64_t>& counter_of(const SharedMemory& memory, size_t group) {
  return reinterpret_cast<Counter*>(memory.data())[1 + group].value;
}

std::atomic<uint64_t>& steps_of(const SharedMemory& memory) {
  return reinterpret_cast<Counter*>(memory.data())->value;
}

}  // namespace

SharedWeights::SharedWeights(size_t groups, int64_t bytes)
    : memory_(std::make_shared<SharedMemory>(
          SharedMemory::create(bytes_of_counters(groups) + rounded_up(bytes)))),
      used_(bytes_of_counters(groups)) {
  memory_->keep_others_from_writing();
}

void SharedWeights::count_step() { steps_of(*memory_).fetch_add(1, std::memory_order_release); }

Tensor SharedWeights::allocate(int64_t bytes) {
  const int64_t begin = used_;
  used_ += rounded_up(bytes);
  if (used_ > memory_->bytes()) throw internal_error("the shared memory for weights is too small");
  return torch::from_blob(
      memory_->data() + begin, {bytes}, [kept = memory_](void*) {}, at::kByte);
}

int64_t SharedWeights::place_of(const Tensor& tensor) const {
  return static_cast<const std::byte*>(tensor.data_ptr()) - memory_->data();
}

SharedWeights::Change::Change(SharedWeights* weights, size_t group)
    : counter_(weights != nullptr ? &counter_of(*weights->memory_, group) : nullptr) {
  if (counter_ == nullptr) return;
  counter_->store(counter_->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

SharedWeights::Change::~Change() {
  if (counter_ == nullptr) return;
  counter_->store(counter_->load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

SharedWeightsReader::SharedWeightsReader(FileDescriptor file, int64_t bytes, size_t groups)
    : memory_(SharedMemory::map_to_read(std::move(file), bytes)), groups_(groups) {
  // A group is read by its counter, so there is space for all of them.
  if (groups >= static_cast<size_t>(bytes) / sizeof(Counter))
    throw corrupt(
        fmt::format("{} bytes of shared weights are said to be {} groups", bytes, groups));
}

int64_t SharedWeightsReader::steps() const {
  return static_cast<int64_t>(steps_of(memory_).load(std::memory_order_acquire));
}

bool SharedWeightsReader::read(size_t group,
                               const std::function<void(const std::byte* file)>& copy) const {
  const std::atomic<uint64_t>& counter = counter_of(memory_, group);
  const auto deadline = std::chrono::steady_clock::now() + kLongestUpdate;
  for (int tries = 0; tries < kMostTries;) {
    const uint64_t before = counter.load(std::memory_order_acquire);
    if (before % 2 != 0) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(kGlance);
      continue;
    }
    copy(memory_.data());
    std::atomic_thread_fence(std::memory_order_acquire);
    if (counter.load(std::memory_order_relaxed) == before) return true;
    ++tries;
  }
  return false;
}

}  // namespace muster::inline v0_1::ps
