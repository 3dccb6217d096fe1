// The update of 25 million weights by each optimizer, one thread, compared with a plain copy that
// moves as many bytes, alternating in one process. Prints GB/s of both (best of the rounds, in CPU
// time of the thread) and the ratio.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "muster/optim/optimizer.h"
#include "muster/tensor/cache_colored.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/tensor/variable.h"

namespace muster {
namespace {

constexpr int64_t kWeights = 25'000'000, kRows = 5000;
constexpr int kRounds = 5;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void measure(const optim::Optimizer& optimizer) {
  VariableSpec matrix;
  matrix.shape = {kRows, kWeights / kRows};
  optim::Segment segment{torch::rand({kWeights}), torch::rand({kWeights}), {}};
  segment.variable = &matrix;
  // Gradients are read, weights and slots read and written; a copy moves each byte twice.
  int64_t bytes = 4 * kWeights * 3;
  for (const optim::SlotSpec& slot : optimizer.rule().slots_of(matrix)) {
    // As a strategy lays them out.
    const auto place = static_cast<int64_t>(segment.slots.size()) + 1;
    const int64_t elements = c10::multiply_integers(slot.shape.value_or(matrix.shape));
    segment.slots.push_back(cache_colored(elements, slot.initial_value, segment.weights, place));
    bytes += 4 * 2 * elements;
  }
  const Tensor from = torch::zeros({bytes / 2}, at::kByte), to = torch::zeros_like(from);
  std::memcpy(to.data_ptr(), from.data_ptr(), static_cast<size_t>(from.numel()));  // warms it
  double update = 1e9, copy = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    double start = cpu_seconds();
    optimizer.rule().update(segment, round);
    update = std::min(update, cpu_seconds() - start);
    start = cpu_seconds();
    std::memcpy(to.data_ptr(), from.data_ptr(), static_cast<size_t>(from.numel()));
    copy = std::min(copy, cpu_seconds() - start);
  }
  const double gigabytes = 1e-9 * static_cast<double>(bytes);
  fmt::print("{:<28}{:>8.1f}{:>8.1f}{:>8.2f}\n", optimizer.name(), gigabytes / update,
             gigabytes / copy, copy / update);
  std::fflush(stdout);
}

int run() {
  set_threads(1);
  fmt::print("{:<28}{:>8}{:>8}{:>8}\n", "GB/s", "update", "copy", "ratio");
  for (const optim::Optimizer& optimizer :
       {optim::sgd(), optim::sgd({.momentum = 0.9, .name = "SGD, momentum"}), optim::adagrad(),
        optim::adam(), optim::adam({.amsgrad = true, .name = "Adam, AMSGrad"}), optim::adamw(),
        optim::adamax(), optim::nadam(), optim::rmsprop(),
        optim::rmsprop({.momentum = 0.9, .centered = true, .name = "RMSprop, centered, momentum"}),
        optim::adadelta(), optim::ftrl(), optim::lion(), optim::lamb(), optim::lars(),
        optim::adafactor(), optim::exponential_moving_average(optim::adam().named("Adam, average")),
        optim::look_ahead(optim::adam().named("Adam, look-ahead"), {.sync_period = 1})}) {
    measure(optimizer);
  }
  return 0;
}

}  // namespace
}  // namespace muster

int main() { return muster::run(); }
