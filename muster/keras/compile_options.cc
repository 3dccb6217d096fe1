#include "muster/keras/compile_options.h"

#include <algorithm>
#include <cctype>

#include "muster/base/unknown_name.h"

namespace muster::inline v0_1::keras {
namespace {

using MakeOptimizer = optim::Optimizer (*)();

constexpr optim::Convention kOfKeras = optim::Convention::kKeras;

// The formulas and defaults are those of tf.keras.optimizers since 2.11, as Keras's compile() takes
// a name.
const std::map<std::string, MakeOptimizer>& optimizer_makers() {
  static const auto* const all = new std::map<std::string, MakeOptimizer>{
      {"adadelta", [] { return optim::adadelta(); }},
      {"adafactor", [] { return optim::adafactor(); }},
      {"adagrad", [] { return optim::adagrad({.convention = kOfKeras}); }},
      {"adam", [] { return optim::adam(); }},
      {"adamax", [] { return optim::adamax(); }},
      {"adamw", [] { return optim::adamw(); }},
      {"ftrl", [] { return optim::ftrl(); }},
      {"lion", [] { return optim::lion(); }},
      {"nadam", [] { return optim::nadam({.schedule_decay = 1}); }},
      {"rmsprop", [] { return optim::rmsprop({.convention = kOfKeras}); }},
      {"sgd", [] { return optim::sgd(); }}};
  return *all;
}

}  // namespace

optim::Optimizer OptimizerChoice::make() const {
  if (const auto* optimizer = std::get_if<optim::Optimizer>(&choice_)) return *optimizer;
  std::string name = std::get<std::string>(choice_);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = optimizer_makers().find(name);
  if (found != optimizer_makers().end()) return found->second();
  std::vector<std::string> names;
  for (const auto& [known, make] : optimizer_makers()) names.push_back(known);
  throw unknown_name("keras", "optimizer", std::get<std::string>(choice_), names,
                     "give compile() an optimizer: optim::adam({.learning_rate = 0.001})");
}

}  // namespace muster::inline v0_1::keras
