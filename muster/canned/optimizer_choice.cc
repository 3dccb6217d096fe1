#include "muster/canned/optimizer_choice.h"

#include <map>
#include <vector>

#include "muster/base/unknown_name.h"

namespace muster::inline v0_1 {
namespace {

template <typename Options>
optim::Optimizer with_rate(optim::Optimizer (*make)(const Options&), std::optional<double> rate) {
  Options options;
  if (rate) options.learning_rate = *rate;
  return make(options);
}

using Make = optim::Optimizer (*)(std::optional<double> rate);

const std::map<std::string, Make>& optimizers_by_name() {
  using Rate = std::optional<double>;
  static const std::map<std::string, Make> all = {
      {"Adagrad", [](Rate rate) { return with_rate<optim::AdagradOptions>(optim::adagrad, rate); }},
      {"Adam", [](Rate rate) { return with_rate<optim::AdamOptions>(optim::adam, rate); }},
      {"Ftrl", [](Rate rate) { return with_rate<optim::FtrlOptions>(optim::ftrl, rate); }},
      {"RMSProp", [](Rate rate) { return with_rate<optim::RmspropOptions>(optim::rmsprop, rate); }},
      {"SGD", [](Rate rate) { return with_rate<optim::SgdOptions>(optim::sgd, rate); }},
  };
  return all;
}

}  // namespace

optim::Optimizer OptimizerChoice::make(const std::string& owner,
                                       std::optional<double> learning_rate) const {
  if (const auto* optimizer = std::get_if<optim::Optimizer>(&choice_)) return *optimizer;
  const auto& name = std::get<std::string>(choice_);
  const auto found = optimizers_by_name().find(name);
  if (found != optimizers_by_name().end()) return found->second(learning_rate);
  std::vector<std::string> names;
  for (const auto& [known, make] : optimizers_by_name()) names.push_back(known);
  throw unknown_name(owner + ": its choice of optimizers", "name", name, names,
                     "give one of these, or an optimizer: optim::lion()");
}

}  // namespace muster::inline v0_1
