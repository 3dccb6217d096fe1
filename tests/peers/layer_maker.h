// Makes a layer of what tools/peers/cases/layer_programs.py tells of it: the name and the options
// of Keras.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "muster/layers/layer.h"
#include "muster/tensor/constraint.h"
#include "muster/tensor/regularizer.h"

namespace muster::inline v0_1 {

// `described` is {"class": "Dense", "options": {"units": 3}}. Throws std::runtime_error for a class
// it does not know, and what the layer throws.
Layer make_layer(const nlohmann::json& described);

// The parts of make_layer().
Layer make_convolution(const std::string& name, const nlohmann::json& options);
Layer make_image_layer(const std::string& name, const nlohmann::json& options);
Layer make_recurrent(const std::string& name, const nlohmann::json& options);
Layer make_attention(const std::string& name, const nlohmann::json& options);
Layer make_plain_layer(const std::string& name, const nlohmann::json& options);

// Of {"l1": 0.1, "l2": 0.2}.
Regularizer make_penalty(const nlohmann::json& options);
// Of the classes of tf.keras.constraints and tf.keras.regularizers, which `options` names.
Constraint make_constraint(const nlohmann::json& options);
Regularizer make_regularizer(const nlohmann::json& options);

}  // namespace muster::inline v0_1
