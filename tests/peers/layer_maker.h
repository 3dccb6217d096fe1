// Makes a layer from the description of tools/peers/cases/layer_programs.py: the name and the
// options of Keras.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "muster/layers/layer.h"
#include "muster/tensor/constraint.h"
#include "muster/tensor/regularizer.h"

namespace muster::inline v0_1 {

// `described` is {"class": "Dense", "options": {"units": 3}}. Throws std::runtime_error for an
// unknown class, and the layer's errors.
Layer make_layer(const nlohmann::json& described);

// The parts of make_layer().
Layer make_convolution(const std::string& name, const nlohmann::json& options);
Layer make_image_layer(const std::string& name, const nlohmann::json& options);
Layer make_recurrent(const std::string& name, const nlohmann::json& options);
Layer make_attention(const std::string& name, const nlohmann::json& options);
Layer make_plain_layer(const std::string& name, const nlohmann::json& options);

// The penalty of {"l1": 0.1, "l2": 0.2}.
Regularizer make_penalty(const nlohmann::json& options);
// The constraints and regularizers of the classes of tf.keras that `options` names.
Constraint make_constraint(const nlohmann::json& options);
Regularizer make_regularizer(const nlohmann::json& options);

}  // namespace muster::inline v0_1
