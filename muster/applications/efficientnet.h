// EfficientNet-B0 (Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
// Networks", 2019).
// Thread safety: functions that give immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of EfficientNetB0(). Those of ResNetOptions' names mean the same.
struct EfficientNetOptions {
  Shape input_shape{};
  bool include_top = true;
  int64_t classes = 1000;
  std::string pooling{};
  Activation classifier_activation = Activation::kSoftmax;
  double dropout = 0.2;       // in front of the classes
  double drop_connect = 0.2;  // of the last block, in training: how many examples skip it
  // Of Keras's names or, with torchvision = true, of torchvision's.
  std::string weights{};
  // true: images are normalized by mean and deviation outside of it, a stride pads both sides
  // alike, and normalizations have an epsilon of 1e-5 and a momentum of 0.9.
  // false: images are bytes 0 ... 255, as float32; "rescaling" and "normalization" bring them to
  // mean 0, by "normalization/mean" and "normalization/variance", which are 0 and 1 at first and do
  // not train. 1e-3 and 0.99.
  bool torchvision = false;
  std::string name{};
};

// Gives images [batch, height, width, channels] -> [batch, classes]. Layers are named as in Keras:
// "stem_conv", "block1a_dwconv", "block2a_se_reduce", "top_conv", "predictions". Throws as
// ResNet50() does.
MUSTER_EXPORT Functional EfficientNetB0(EfficientNetOptions options = {});

}  // namespace muster::inline v0_1::applications
