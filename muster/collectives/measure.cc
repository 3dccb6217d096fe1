#include "muster/collectives/measure.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr int64_t kSmall = 64;          // bytes
constexpr int64_t kFirst = 256 * 1024;  // of the large ones
constexpr int64_t kLargest = 4 * 1024 * 1024;
constexpr double kEnough = 5e-3;  // seconds: a longer measurement gives no more information

// Seconds of the fastest of some all-reduces on rank 0; the first ones do not count. Delays come
// from other processes.
double fastest(Communicator& group, const Tensor& buffer, int rounds) {
  double best = 1e9;
  for (int i = -2; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    group.all_reduce(buffer).wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i >= 0) best = std::min(best, took.count());
  }
  // All ranks must decide alike.
  const Tensor shared = torch::full({1}, best, kFloat64);
  group.broadcast(shared, 0).wait();
  return shared.item<double>();
}

}  // namespace

plan::CommunicationCost measure_all_reduce(Communicator& group) {
  if (group.size() == 1) return {};
  const Tensor memory = group.allocate(kLargest).view(kFloat32);
  const auto part = [&](int64_t bytes) { return memory.slice(0, 0, bytes / 4); };
  plan::CommunicationCost cost{.latency = fastest(group, part(kSmall), 20)};
  for (int64_t bytes = kFirst; bytes <= kLargest; bytes *= 4) {
    const double seconds = fastest(group, part(bytes), 3);
    cost.seconds_per_byte = std::max(0.0, seconds - cost.latency) / static_cast<double>(bytes);
    if (seconds > kEnough) break;
  }
  return cost;
}

}  // namespace muster::inline v0_1
