// What a model function is called for.
#pragma once

#include <string_view>

namespace muster::inline v0_1 {

// What a model function is called for.
enum class Mode { kTrain, kEval, kPredict };

// "train", "eval", "predict".
constexpr std::string_view to_string(Mode mode) {
  return mode == Mode::kTrain ? "train" : mode == Mode::kEval ? "eval" : "predict";
}

}  // namespace muster::inline v0_1
