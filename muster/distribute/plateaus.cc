#include "muster/distribute/plateaus.h"

#include <cstring>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using optim::Plateau;

constexpr int64_t kNumbers = sizeof(Plateau) / sizeof(double);

Plateau read(const Tensor& numbers) {
  Plateau plateau;
  std::memcpy(static_cast<void*>(&plateau), numbers.data_ptr<double>(), sizeof(plateau));
  return plateau;
}

void write(const Plateau& plateau, const Tensor& numbers) {
  std::memcpy(numbers.data_ptr<double>(), &plateau, sizeof(plateau));
}

}  // namespace

void Plateaus::add(const optim::Optimizer& optimizer) {
  State state{.optimizer = optimizer.name(), .options = optimizer.reduction(), .numbers = {}};
  if (state.options) {
    state.numbers = torch::empty({kNumbers}, at::kDouble);
    write({}, state.numbers);
  }
  plateaus_.push_back(std::move(state));
}

double Plateaus::rate(size_t optimizer, double rate) const {
  const State& state = plateaus_[optimizer];
  return state.options ? optim::reduced_rate(*state.options, read(state.numbers), rate) : rate;
}

double Plateaus::factor(size_t optimizer) const {
  const State& state = plateaus_[optimizer];
  return state.options ? read(state.numbers).factor : 1;
}

void Plateaus::set_factor(size_t optimizer, double factor) {
  const State& state = plateaus_[optimizer];
  if (!state.options) return;
  Plateau plateau = read(state.numbers);
  plateau.factor = factor;
  write(plateau, state.numbers);
}

void Plateaus::update(size_t optimizer, double loss) {
  const State& state = plateaus_[optimizer];
  if (state.options)
    write(optim::next_plateau(*state.options, read(state.numbers), loss), state.numbers);
}

std::map<std::string, Tensor> Plateaus::tensors() const {
  std::map<std::string, Tensor> named;
  for (const State& state : plateaus_) {
    if (state.options) named[state.optimizer + "/plateau"] = state.numbers;
  }
  return named;
}

}  // namespace muster::inline v0_1::distribute
