// TensorFlow, PyTorch and today's Keras use different formulas for some optimizers of the same
// name. Thread safety: a value.
#pragma once

namespace muster::inline v0_1::optim {

// The library whose formula to use; each optimizer's header shows the formulas. Defaults of other
// options stay Keras's. kTensorFlow: TensorFlow 2.0, called tf.keras.optimizers.legacy since 2.11,
// which Estimators use. kKeras: tf.keras.optimizers since 2.11 and Keras 3; if an optimizer's
// header shows no separate formula, it is that of kTensorFlow.
enum class Convention { kTensorFlow, kPyTorch, kKeras };

}  // namespace muster::inline v0_1::optim
