// tf.keras.optimizers.schedules: tools/peers/cases/schedules.py.
#include <stdexcept>

#include "muster/optim/schedules.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/fit_parts.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

// Fills the options of schedules, each if the schedule has it.
template <typename Options>
Options schedule_options(const Json& given) {
  Options made;
  if constexpr (requires { made.initial_learning_rate; })
    take(given, "initial_learning_rate", made.initial_learning_rate);
  if constexpr (requires { made.decay_steps; }) take(given, "decay_steps", made.decay_steps);
  if constexpr (requires { made.decay_rate; }) take(given, "decay_rate", made.decay_rate);
  if constexpr (requires { made.staircase; }) take(given, "staircase", made.staircase);
  if constexpr (requires { made.alpha; }) take(given, "alpha", made.alpha);
  return made;
}

}  // namespace

optim::LearningRate peer_schedule(const std::string& name, const Json& given) {
  if (name == "PiecewiseConstantDecay") {
    return optim::piecewise_constant_decay(
        {.boundaries = given.at("boundaries"), .values = given.at("values")});
  }
  if (name == "ExponentialDecay")
    return optim::exponential_decay(schedule_options<optim::ExponentialDecayOptions>(given));
  if (name == "InverseTimeDecay")
    return optim::inverse_time_decay(schedule_options<optim::InverseTimeDecayOptions>(given));
  if (name == "PolynomialDecay") {
    auto options = schedule_options<optim::PolynomialDecayOptions>(given);
    take(given, "end_learning_rate", options.end_learning_rate);
    take(given, "power", options.power);
    take(given, "cycle", options.cycle);
    return optim::polynomial_decay(options);
  }
  if (name == "CosineDecay") {
    auto options = schedule_options<optim::CosineDecayOptions>(given);
    if (!given.contains("warmup_target")) return optim::cosine_decay(options);
    // Keras rises from the initial rate to the target; the cosine begins there.
    const double start = options.initial_learning_rate;
    options.initial_learning_rate = given.at("warmup_target");
    return optim::linear_warmup({.warmup_steps = given.value("warmup_steps", 0),
                                 .start_learning_rate = start,
                                 .then = optim::cosine_decay(options)});
  }
  if (name == "CosineDecayRestarts") {
    auto options = schedule_options<optim::CosineDecayRestartsOptions>(given);
    take(given, "first_decay_steps", options.first_decay_steps);
    take(given, "t_mul", options.t_mul);
    take(given, "m_mul", options.m_mul);
    return optim::cosine_decay_restarts(options);
  }
  throw std::runtime_error("no schedule is called " + name);
}

namespace {

PeerArrays run_schedule(const PeerCase& a_case) {
  const optim::LearningRate rate =
      peer_schedule(a_case.program.at("name"), a_case.program.value("options", Json::object()));
  const Tensor steps = a_case.inputs.at("steps").tensor();
  Tensor rates = torch::empty(steps.sizes(), kFloat64);
  for (int64_t i = 0; i < steps.numel(); ++i) {
    rates[i] = rate.at(steps[i].item<int64_t>());
  }
  return {{"rates", PeerArray::of(rates)}};
}

const PeerKind kSchedules("schedules", run_schedule);

}  // namespace
}  // namespace muster::inline v0_1
