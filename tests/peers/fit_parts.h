// What the cases of Keras's fit() have in common.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "muster/keras/metric_choice.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1 {

// The metrics that a list of names of Keras's functions and classes asks for.
std::vector<keras::MetricChoice> peer_metrics(const nlohmann::json& names);

// The schedule of a class of tf.keras.optimizers.schedules with these options. Throws
// std::runtime_error for an unknown class.
optim::LearningRate peer_schedule(const std::string& name, const nlohmann::json& options);

}  // namespace muster::inline v0_1
