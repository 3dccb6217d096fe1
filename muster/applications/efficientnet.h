// EfficientNet-B0 (Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
// Networks", 2019).
// Thread safety: functions that return immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of EfficientNetB0(). Fields shared with ResNetOptions have the same meaning.
struct EfficientNetOptions {
  Shape input_shape{};
  bool include_top = true;
  int64_t classes = 1000;
  std::string pooling{};
  Activation classifier_activation = Activation::kSoftmax;
  double dropout = 0.2;       // before the classifier
  double drop_connect = 0.2;  // of the last block, in training: the fraction of examples that skip
                              // it
  // With Keras's names or, if torchvision = true, with torchvision's.
  std::string weights{};
  // True: torchvision's network: normalize images by mean and deviation yourself; a stride pads
  // both sides equally, and normalizations have an epsilon of 1e-5 and a momentum of 0.9.
  // False: Keras's network: images are bytes 0 ... 255, as float32; "rescaling" and "normalization"
  // scale them to mean 0, by "normalization/mean" and "normalization/variance", which are initially
  // 0 and 1 and do not train. Epsilon 1e-3 and momentum 0.99.
  bool torchvision = false;
  std::string name{};
};

// Maps images [batch, height, width, channels] -> [batch, classes]. Layers are named as in Keras:
// "stem_conv", "block1a_dwconv", "block2a_se_reduce", "top_conv", "predictions". Throws as
// ResNet50() does.
MUSTER_EXPORT Functional EfficientNetB0(EfficientNetOptions options = {});

}  // namespace muster::inline v0_1::applications
