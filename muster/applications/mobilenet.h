// MobileNetV2 (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018).
// Thread safety: functions that return immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of MobileNetV2(). Fields shared with ResNetOptions have the same meaning.
struct MobileNetV2Options {
  Shape input_shape{};
  double alpha = 1;  // multiplies the channels, rounded to multiples of 8; above 0
  bool include_top = true;
  int64_t classes = 1000;
  std::string pooling{};
  Activation classifier_activation = Activation::kSoftmax;
  // With Keras's names or, if torchvision = true, with torchvision's.
  std::string weights{};
  // True: torchvision's network: a stride pads both sides equally, normalizations have an epsilon
  // of 1e-5 and a momentum of 0.9, and there is a dropout of 0.2 before the classifier. False:
  // Keras's padding, 1e-3 and 0.999.
  bool torchvision = false;
  std::string name{};
};

// Maps images [batch, height, width, channels] -> [batch, classes]. Layers are named as in Keras:
// "Conv1", "bn_Conv1", "expanded_conv_depthwise", "block_1_expand", "Conv_1", "predictions". Throws
// as ResNet50() does.
MUSTER_EXPORT Functional MobileNetV2(MobileNetV2Options options = {});

}  // namespace muster::inline v0_1::applications
