// tf.keras.optimizers and their legacy forms: tools/peers/cases/optimizers.py.
#include <stdexcept>
#include <string>

#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/variable_table.h"
#include "muster/layers/initializers.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

// Fills the common options of optimizers, each if the optimizer has it.
template <typename Options>
Options options_of(const Json& given) {
  Options made;
  if (given.contains("learning_rate")) {
    const Json& rate = given.at("learning_rate");
    made.learning_rate =
        rate.is_object()
            ? optim::exponential_decay({.initial_learning_rate = rate.at("initial_learning_rate"),
                                        .decay_steps = rate.at("decay_steps"),
                                        .decay_rate = rate.at("decay_rate")})
            : optim::LearningRate(rate.get<double>());
  }
  if constexpr (requires { made.momentum; }) take(given, "momentum", made.momentum);
  if constexpr (requires { made.nesterov; }) take(given, "nesterov", made.nesterov);
  if constexpr (requires { made.beta_1; }) take(given, "beta_1", made.beta_1);
  if constexpr (requires { made.beta_2; }) take(given, "beta_2", made.beta_2);
  if constexpr (requires { made.epsilon; }) take(given, "epsilon", made.epsilon);
  if constexpr (requires { made.amsgrad; }) take(given, "amsgrad", made.amsgrad);
  if constexpr (requires { made.rho; }) take(given, "rho", made.rho);
  if constexpr (requires { made.centered; }) take(given, "centered", made.centered);
  if constexpr (requires { made.initial_accumulator_value; })
    take(given, "initial_accumulator_value", made.initial_accumulator_value);
  return made;
}

optim::FtrlOptions ftrl_options(const Json& given) {
  auto made = options_of<optim::FtrlOptions>(given);
  take(given, "learning_rate_power", made.learning_rate_power);
  take(given, "l1_regularization_strength", made.l1_regularization_strength);
  take(given, "l2_regularization_strength", made.l2_regularization_strength);
  take(given, "l2_shrinkage_regularization_strength", made.l2_shrinkage_regularization_strength);
  take(given, "beta", made.beta);
  return made;
}

optim::AdafactorOptions adafactor_options(const Json& given) {
  auto made = options_of<optim::AdafactorOptions>(given);
  take(given, "beta_2_decay", made.beta_2_decay);
  take(given, "epsilon_2", made.epsilon_2);
  take(given, "clip_threshold", made.clip_threshold);
  take(given, "relative_step", made.relative_step);
  return made;
}

// The optimizers of tf.keras.optimizers in TensorFlow 2.11 and later.
optim::Optimizer of_keras(const std::string& name, const Json& given) {
  if (name == "Nadam") {
    auto made = options_of<optim::NadamOptions>(given);
    made.schedule_decay = 1;
    return optim::nadam(made);
  }
  if (name == "RMSprop") {
    auto made = options_of<optim::RmspropOptions>(given);
    made.convention = optim::Convention::kKeras;
    return optim::rmsprop(made);
  }
  auto made = options_of<optim::AdagradOptions>(given);
  made.convention = optim::Convention::kKeras;
  return optim::adagrad(made);
}

optim::Optimizer plain(const std::string& name, const Json& given, bool legacy) {
  if (!legacy && (name == "Nadam" || name == "RMSprop" || name == "Adagrad"))
    return of_keras(name, given);
  if (name == "SGD") return optim::sgd(options_of<optim::SgdOptions>(given));
  if (name == "Adam") return optim::adam(options_of<optim::AdamOptions>(given));
  if (name == "Adamax") return optim::adamax(options_of<optim::AdamaxOptions>(given));
  if (name == "Nadam") return optim::nadam(options_of<optim::NadamOptions>(given));
  if (name == "RMSprop") return optim::rmsprop(options_of<optim::RmspropOptions>(given));
  if (name == "Adagrad") return optim::adagrad(options_of<optim::AdagradOptions>(given));
  if (name == "Adadelta") return optim::adadelta(options_of<optim::AdadeltaOptions>(given));
  if (name == "Ftrl") return optim::ftrl(ftrl_options(given));
  if (name == "Adafactor") return optim::adafactor(adafactor_options(given));
  if (name == "Lion") return optim::lion(options_of<optim::LionOptions>(given));
  throw std::runtime_error("no optimizer is called " + name);
}

optim::Optimizer keras_optimizer(const Json& program) {
  const std::string name = program.at("name");
  const Json given = program.value("options", Json::object());
  const Json around = program.value("around", Json::object());
  const auto decayed = [&] {
    if (name == "AdamW") {
      auto made = options_of<optim::AdamWOptions>(given);
      take(around, "weight_decay", made.weight_decay);
      return optim::adamw(made);
    }
    const optim::Optimizer optimizer = plain(name, given, program.at("which") == "legacy");
    if (!around.contains("weight_decay")) return optimizer;
    return optim::decoupled_weight_decay(optimizer, {.weight_decay = around.at("weight_decay")});
  };
  optim::Optimizer optimizer = decayed();
  if (around.contains("clipnorm")) optimizer = optim::clip_by_norm(optimizer, around["clipnorm"]);
  if (around.contains("clipvalue"))
    optimizer = optim::clip_by_value(optimizer, around["clipvalue"]);
  if (around.contains("global_clipnorm"))
    optimizer = optim::clip_by_global_norm(optimizer, around["global_clipnorm"]);
  if (!around.value("use_ema", false)) return optimizer;
  optim::MovingAverageOptions average;
  take(around, "ema_momentum", average.decay);
  take(around, "ema_overwrite_frequency", average.overwrite_frequency);
  return optim::exponential_moving_average(optimizer, average);
}

PeerArrays run_optimizer(const PeerCase& a_case) {
  const Json& program = a_case.program;
  distribute::VariableTable table(1);
  const auto make = [&](const std::string& name, bool row_sparse) {
    const Tensor value = a_case.inputs.at(name).tensor();
    table.get_or_create({.name = name,
                         .shape = value.sizes().vec(),
                         .initializer = initializers::constant(value),
                         .row_sparse = row_sparse});
  };
  const size_t dense = program.at("shapes").size();
  for (size_t i = 0; i < dense; ++i) make("v" + std::to_string(i), false);
  if (program.at("rows")) make("table", true);
  table.seal();
  const optim::Optimizer optimizer = keras_optimizer(program);
  distribute::FlatParameters flat(table, optimizer.minimize(torch::zeros({})),
                                  [](int64_t bytes) { return torch::zeros({bytes}, at::kByte); });
  flat.begin_slots();
  for (int step = 0; step < program.at("steps"); ++step) {
    const std::string number = std::to_string(step);
    Tensor loss = torch::zeros({});
    for (size_t i = 0; i < dense; ++i) {
      const std::string name = "v" + std::to_string(i);
      loss = loss + (table.find(name)->value() *
                     a_case.inputs.at("gradient_" + number + "/" + name).tensor())
                        .sum();
    }
    if (program.at("rows")) {
      const Tensor rows = table.find("table")->rows(a_case.inputs.at("ids_" + number).tensor());
      loss = loss + (rows * a_case.inputs.at("values_" + number).tensor()).sum();
    }
    loss.backward();
    flat.tables().collect();
    flat.update_in_place(optimizer.minimize(loss), 1);
  }
  PeerArrays result;
  for (const auto& variable : table.variables())
    result[variable->name()] = PeerArray::of(variable->value());
  for (const auto& [name, value] : flat.slots())
    result[name.substr(name.find('/') + 1)] = PeerArray::of(value);
  return result;
}

const PeerKind kOptimizers("optimizers", run_optimizer);

}  // namespace
}  // namespace muster::inline v0_1
