#include "muster/bundles/variable_names.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace muster::inline v0_1::tensorflow {
namespace {

// A slot of an optimizer of TensorFlow 1: the last part of its name, and what Muster calls it.
// RMSProp's second one is "mg" where there is a third, which is then the momentum. Momentum is not
// among them: there it is a sum of gradients, and here one of steps.
struct SlotRow {
  std::string_view ending;
  std::string_view optimizer;
  std::string_view slot;
};
constexpr std::array<SlotRow, 8> kSlots = {{
    {"Adagrad", "Adagrad", "accumulator"},
    {"Adam", "Adam", "m"},
    {"Adam_1", "Adam", "v"},
    {"Ftrl", "Ftrl", "accumulator"},
    {"Ftrl_1", "Ftrl", "linear"},
    {"RMSProp", "RMSprop", "rms"},
    {"RMSProp_1", "RMSprop", "momentum"},
    {"RMSProp_2", "RMSprop", "momentum"},
}};
constexpr std::string_view kCentered = "mg";

// Optimizers of Keras, whose slots have the names that Muster's have, except for SGD's.
constexpr std::array<std::string_view, 10> kKerasOptimizers = {
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "RMSprop", "SGD"};

// Goes before the names of Keras's optimizers in an Estimator. With several heads it has a number:
// "training_2/".
constexpr std::string_view kTraining = "training";

std::string_view before_last_slash(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view after_last_slash(std::string_view name) {
  return name.substr(name.rfind('/') + 1);
}

bool has(const std::set<std::string>& names, std::string_view name) {
  return names.contains(std::string(name));
}

bool is_scope(std::string_view part) {
  return part.size() > 2 && part.starts_with("t_") &&
         part.find_first_not_of("0123456789", 2) == std::string_view::npos;
}

// What Muster keeps for a variable: "Adam/m/dense/kernel".
struct Slot {
  std::string optimizer{};
  std::string slot{};
  std::string variable{};
  std::string name() const { return optimizer + "/" + slot + "/" + variable; }
};

// "dense/kernel/Adam_1", and "dense/kernel/t_0/Adam_1" as some versions have it.
std::optional<Slot> slot_of_version_1(const std::set<std::string>& names, std::string_view name) {
  const std::string_view ending = after_last_slash(name);
  const std::string_view scoped = before_last_slash(name);
  const std::string_view variable =
      is_scope(after_last_slash(scoped)) ? before_last_slash(scoped) : scoped;
  if (!has(names, variable)) return std::nullopt;
  for (const SlotRow& row : kSlots) {
    if (row.ending != ending) continue;
    const bool centered = ending == "RMSProp_1" && has(names, std::string(scoped) + "/RMSProp_2");
    return Slot{std::string(row.optimizer), std::string(centered ? kCentered : row.slot),
                std::string(variable)};
  }
  return std::nullopt;
}

// A name of one of Keras's optimizers.
struct KerasName {
  std::string_view kind{};  // of the optimizer: "Adam"
  std::string optimizer{};  // what Muster calls it: its kind, or "linear_Adam"
  std::string_view rest{};  // of the name
};

// Gives what comes before the optimizer's name in an Estimator: "training/"; empty for others.
std::string_view training_scope(std::string_view name) {
  const std::string_view scope = name.substr(0, name.find('/') + 1);
  if (!scope.starts_with(kTraining)) return {};
  const std::string_view number = scope.substr(kTraining.size());
  const bool good =
      number == "/" || (number.size() > 2 && number.starts_with('_') &&
                        number.find_first_not_of("0123456789", 1) == number.size() - 1);
  return good ? scope : std::string_view();
}

// Whether two optimizers of one kind are in an Estimator's checkpoint. The network's is made first
// there, and the linear part's gets the number.
bool is_pair(const std::set<std::string>& names, std::string_view scope, std::string_view kind) {
  const auto has_rate = [&](std::string_view number) {
    return has(names, fmt::format("{}{}{}/learning_rate", scope, kind, number));
  };
  return has_rate("") && has_rate("_1");
}

std::optional<KerasName> of_keras(const std::set<std::string>& names, std::string_view name) {
  constexpr std::string_view kSecond = "_1";
  const std::string_view scope = training_scope(name);
  const bool training = !scope.empty();
  name.remove_prefix(scope.size());
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  std::string_view kind = name.substr(0, slash);
  const bool second = training && kind.ends_with(kSecond);
  if (second) kind.remove_suffix(kSecond.size());
  for (const std::string_view optimizer : kKerasOptimizers) {
    if (kind != optimizer) continue;
    const bool pair = training && is_pair(names, scope, kind);
    if (second && !pair) return std::nullopt;
    const char* part = pair ? (second ? "linear_" : "dnn_") : "";
    return KerasName{.kind = optimizer,
                     .optimizer = fmt::format("{}{}", part, optimizer),
                     .rest = name.substr(slash + 1)};
  }
  return std::nullopt;
}

// "Adam/dense/kernel/v", and "Adam/v/dense/kernel" of newer ones.
std::optional<Slot> slot_of_keras(const std::set<std::string>& names, std::string_view name) {
  const auto found = of_keras(names, name);
  if (!found) return std::nullopt;
  const std::string_view rest = found->rest;
  std::string_view slot = after_last_slash(rest), variable = before_last_slash(rest);
  if (!has(names, variable)) {
    slot = rest.substr(0, rest.find('/'));
    variable = rest.substr(std::min(rest.size(), slot.size() + 1));
  }
  if (!has(names, variable)) return std::nullopt;
  if (found->kind == "SGD") slot = "momentum";
  return Slot{found->optimizer, std::string(slot), std::string(variable)};
}

std::optional<Slot> slot_of(const std::set<std::string>& names, std::string_view name) {
  if (auto slot = slot_of_keras(names, name)) return slot;
  return slot_of_version_1(names, name);
}

// The optimizer whose count of steps has this name: "training/Adam/iter"; and "iteration" where
// `optimizers` is one alone.
std::optional<std::string> counted_by(const std::set<std::string>& names, std::string_view name,
                                      const std::set<std::string>& optimizers) {
  if (name == "iteration" && optimizers.size() == 1) return *optimizers.begin();
  const auto found = of_keras(names, name);
  if (!found || found->rest != "iter") return std::nullopt;
  return found->optimizer;
}

// Those that have slots.
std::set<std::string> optimizers_in(const std::set<std::string>& names) {
  std::set<std::string> optimizers;
  for (const std::string& name : names) {
    if (const auto slot = slot_of(names, name)) optimizers.insert(slot->optimizer);
  }
  return optimizers;
}

// What Muster calls a variable of a model: TensorFlow's name, except for those of its recurrent
// Estimators, "rnn_model/rnn/stacked_rnn_cells/lstm_cell_1/kernel" of the second layer, and
// "sequence_features/words_embedding/embedding_weights".
std::string variable_here(const std::set<std::string>& names, std::string_view name) {
  constexpr std::string_view kModel = "rnn_model/";
  constexpr std::string_view kLayers = "rnn_model/rnn/";
  constexpr std::string_view kStacked = "stacked_rnn_cells/";
  if (!has(names, "rnn_model/logits/kernel")) return std::string(name);
  if (name.starts_with("dense_features/") || name.starts_with("sequence_features/")) {
    return fmt::format("{}{}", kModel, name);
  }
  if (!name.starts_with(kLayers)) return std::string(name);
  std::string_view rest = name.substr(kLayers.size());
  if (rest.starts_with(kStacked)) rest.remove_prefix(kStacked.size());
  for (const std::string_view cell : {"simple_rnn_cell", "lstm_cell", "gru_cell"}) {
    if (rest.starts_with(cell)) return fmt::format("rnn_model/rnn{}", rest.substr(cell.size()));
  }
  return std::string(name);
}

// Numbers of an optimizer that are not slots: its rates and the powers of its betas.
bool is_of_optimizer(const std::set<std::string>& names, std::string_view name) {
  const std::string_view last = after_last_slash(name);
  return last == "beta1_power" || last == "beta2_power" || of_keras(names, name).has_value();
}

}  // namespace

std::map<std::string, std::string> muster_names(const std::set<std::string>& names) {
  const std::set<std::string> optimizers = optimizers_in(names);
  std::map<std::string, std::string> named;
  for (const std::string& name : names) {
    if (auto slot = slot_of(names, name)) {
      slot->variable = variable_here(names, slot->variable);
      named[name] = slot->name();
    } else if (const auto optimizer = counted_by(names, name, optimizers)) {
      named[name] = *optimizer + "/iterations";
    } else if (!is_of_optimizer(names, name)) {
      named[name] = variable_here(names, name);
    }
  }
  return named;
}

std::set<std::string> optimizers_without_count(const std::set<std::string>& names) {
  std::set<std::string> without = optimizers_in(names);
  // One without slots, SGD, is known by its rate.
  for (const std::string& name : names) {
    const auto found = of_keras(names, name);
    if (found && found->rest == "learning_rate") without.insert(found->optimizer);
  }
  const std::set<std::string> all = without;
  for (const std::string& name : names) {
    if (const auto optimizer = counted_by(names, name, all)) without.erase(*optimizer);
  }
  return without;
}

std::map<std::string, std::string> tensorflow_names(const std::set<std::string>& names) {
  std::map<std::string, std::string> named;
  for (const std::string& name : names) {
    if (name.ends_with("/iterations")) continue;
    named[name] = name;
    const size_t first = name.find('/');
    const size_t second = first == std::string::npos ? first : name.find('/', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view optimizer = std::string_view(name).substr(0, first);
    const std::string_view slot = std::string_view(name).substr(first + 1, second - first - 1);
    const std::string variable = name.substr(second + 1);
    if (!names.contains(variable)) continue;
    const bool centered = has(names, fmt::format("{}/{}/{}", optimizer, kCentered, variable));
    for (const SlotRow& row : kSlots) {
      if (row.optimizer != optimizer) continue;
      const std::string_view here = row.ending == "RMSProp_1" && centered ? kCentered : row.slot;
      if (here != slot || (row.ending == "RMSProp_2" && !centered)) continue;
      named[name] = fmt::format("{}/{}", variable, row.ending);
      break;
    }
  }
  return named;
}

}  // namespace muster::inline v0_1::tensorflow
