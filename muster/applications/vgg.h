// VGG-16 (Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", 2015).
// Thread safety: functions that return immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of VGG16(). Fields shared with ResNetOptions have the same meaning.
struct VGGOptions {
  // With a top it decides the size of "fc1". Empty means {224, 224, 3}, the shape that published
  // weights with a top require.
  Shape input_shape{};
  bool include_top = true;
  int64_t classes = 1000;
  std::string pooling{};
  Activation classifier_activation = Activation::kSoftmax;
  int64_t units = 4096;  // of "fc1" and "fc2"
  // With Keras's names or, if torchvision = true, with torchvision's.
  std::string weights{};
  // True: "fc1" and "fc2" have a dropout of 0.5 in training; normalize images by mean and deviation
  // yourself. The rest is the same.
  bool torchvision = false;
  std::string name{};
};

// Maps images [batch, height, width, channels] -> [batch, classes]. Layers are named as in Keras:
// "block1_conv1", "block1_pool", "flatten", "fc1", "fc2", "predictions". Throws as ResNet50() does.
MUSTER_EXPORT Functional VGG16(VGGOptions options = {});

}  // namespace muster::inline v0_1::applications
