// TensorFlow, PyTorch and the Keras of today give some optimizers the same name and several
// formulas. Thread safety: a value.
#pragma once

namespace muster::inline v0_1::optim {

// Whose formula it is; each optimizer's header tells both. Defaults of other options stay Keras's.
// kTensorFlow: those of TensorFlow 2.0, which are called tf.keras.optimizers.legacy since 2.11 and
// which Estimators use. kKeras: those of tf.keras.optimizers since 2.11 and of Keras 3; where an
// optimizer's header names no formula of its own for it, it is that of kTensorFlow.
enum class Convention { kTensorFlow, kPyTorch, kKeras };

}  // namespace muster::inline v0_1::optim
