// The options that layers of many kinds have.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "muster/layers/activations.h"
#include "muster/layers/resize_images.h"
#include "muster/layers/window.h"
#include "tests/peers/layer_maker.h"
#include "tests/peers/options.h"

namespace muster::inline v0_1 {

inline Padding padding_of(const std::string& name) {
  if (name == "same") return Padding::kSame;
  return name == "causal" ? Padding::kCausal : Padding::kValid;
}

inline Interpolation interpolation_of(const std::string& name) {
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "bicubic") return Interpolation::kBicubic;
  if (name == "area") return Interpolation::kArea;
  if (name == "lanczos3") return Interpolation::kLanczos3;
  if (name == "lanczos5") return Interpolation::kLanczos5;
  if (name == "gaussian") return Interpolation::kGaussian;
  return Interpolation::kMitchellCubic;
}

inline void take_size(const nlohmann::json& size, int64_t& field) {
  field = size.is_array() ? size.at(0).get<int64_t>() : size.get<int64_t>();
}
inline void take_size(const nlohmann::json& size, Size2D& field) {
  field = size.is_array() ? Size2D(size.at(0), size.at(1)) : Size2D(size.get<int64_t>());
}
inline void take_size(const nlohmann::json& size, Size3D& field) {
  field =
      size.is_array() ? Size3D(size.at(0), size.at(1), size.at(2)) : Size3D(size.get<int64_t>());
}
template <typename Size>
void take_size(const nlohmann::json& size, std::optional<Size>& field) {
  Size made = 1;
  take_size(size, made);
  field = made;
}
// A size of the options, or `otherwise`.
template <typename Size>
Size size_of(const nlohmann::json& options, const char* name, Size otherwise) {
  if (options.contains(name)) take_size(options.at(name), otherwise);
  return otherwise;
}

// Sets the options that layers of many kinds have, each if the layer has it.
template <typename Options>
void take_common(const nlohmann::json& given, Options& made) {
  if constexpr (requires { made.activation; }) {
    if (given.contains("activation"))
      made.activation = activation(given.at("activation").template get<std::string>());
  }
  if constexpr (requires { made.recurrent_activation; }) {
    if (given.contains("recurrent_activation"))
      made.recurrent_activation =
          activation(given.at("recurrent_activation").template get<std::string>());
  }
  if constexpr (requires { made.padding; }) {
    if (given.contains("padding")) made.padding = padding_of(given.at("padding"));
  }
  if constexpr (requires { made.strides; }) {
    if (given.contains("strides")) take_size(given.at("strides"), made.strides);
  }
  if constexpr (requires { made.dilation_rate; }) {
    if (given.contains("dilation_rate")) take_size(given.at("dilation_rate"), made.dilation_rate);
  }
  if constexpr (requires { made.pool_size; }) {
    if (given.contains("pool_size")) take_size(given.at("pool_size"), made.pool_size);
  }
  if constexpr (requires { made.groups; }) take(given, "groups", made.groups);
  if constexpr (requires { made.depth_multiplier; })
    take(given, "depth_multiplier", made.depth_multiplier);
  if constexpr (requires { made.use_bias; }) take(given, "use_bias", made.use_bias);
  if constexpr (requires { made.keepdims; }) take(given, "keepdims", made.keepdims);
  if constexpr (requires { made.epsilon; }) take(given, "epsilon", made.epsilon);
  if constexpr (requires { made.center; }) take(given, "center", made.center);
  if constexpr (requires { made.scale; }) take(given, "scale", made.scale);
  if constexpr (requires { made.momentum; }) take(given, "momentum", made.momentum);
  if constexpr (requires { made.return_sequences; }) {
    take(given, "return_sequences", made.return_sequences);
    take(given, "return_state", made.return_state);
    take(given, "go_backwards", made.go_backwards);
    take(given, "stateful", made.stateful);
    take(given, "time_major", made.time_major);
    take(given, "zero_output_for_mask", made.zero_output_for_mask);
  }
  if constexpr (requires { made.reset_after; }) take(given, "reset_after", made.reset_after);
  const auto penalty = [&given](const char* name, Regularizer& field) {
    if (given.contains(name)) field = make_penalty(given.at(name));
  };
  if constexpr (requires { made.kernel_regularizer; })
    penalty("kernel_regularizer", made.kernel_regularizer);
  if constexpr (requires { made.bias_regularizer; })
    penalty("bias_regularizer", made.bias_regularizer);
  if constexpr (requires { made.recurrent_regularizer; })
    penalty("recurrent_regularizer", made.recurrent_regularizer);
  if constexpr (requires { made.activity_regularizer; })
    penalty("activity_regularizer", made.activity_regularizer);
}

// The options of a kind of layers, as the program has them.
template <typename Options>
Options common(const nlohmann::json& given) {
  Options made;
  take_common(given, made);
  return made;
}

}  // namespace muster::inline v0_1
