// A model function is called for training, evaluation or prediction. Thread safety: pure functions.
#pragma once

#include <string_view>

namespace muster::inline v0_1 {

// Why a model function is called.
enum class Mode { kTrain, kEval, kPredict };

// Returns "train", "eval", "infer": the words of tf.estimator.ModeKeys.
constexpr std::string_view to_string(Mode mode) {
  return mode == Mode::kTrain ? "train" : mode == Mode::kEval ? "eval" : "infer";
}
// Returns "train", "eval", "predict": the words in messages.
constexpr std::string_view describe(Mode mode) {
  return mode == Mode::kPredict ? "predict" : to_string(mode);
}

}  // namespace muster::inline v0_1
