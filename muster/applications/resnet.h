// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2016), as in Keras
// and as in torchvision.
// Thread safety: functions that return immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of the residual networks.
struct ResNetOptions {
  // {height, width, channels}, at least 32; empty: {224, 224, 3}. Without a top, -1 means any size.
  Shape input_shape{};
  // False removes the pooling and the classifier, and returns [batch, height / 32, width / 32,
  // channels].
  bool include_top = true;
  int64_t classes = 1000;
  // Without a top: "avg" returns the mean of each channel, "max" the largest value.
  std::string pooling{};
  // Activation of the classifier. Use kLinear with losses that take logits.
  Activation classifier_activation = Activation::kSoftmax;
  // A safetensors file with initial weights: with Keras's names, as in our checkpoints, or, if
  // torchvision = true, with torchvision's names or those of Hugging Face's transformers. The file
  // is read when weights are created; a checkpoint that a run restores overwrites them.
  std::string weights{};
  // True: torchvision's network ("v1.5"). The stride of a block is that of its 3x3 convolution,
  // which pads both sides equally; convolutions have no bias; normalizations have an epsilon of
  // 1e-5 and a momentum of 0.9. Normalize images by mean and deviation yourself.
  // False: Keras's network. The stride is that of the first convolution; convolutions have a bias;
  // epsilon 1.001e-5 and momentum 0.99. Keras has no ResNet18() and ResNet34(): they are always
  // torchvision's.
  bool torchvision = false;
  // Whether each block, and the part before the blocks, keeps only its inputs and outputs, and the
  // backward pass computes the rest again (Recompute): the same bits with less memory and more
  // time. layers() then shows each block as one layer.
  bool recompute = false;
  std::string name{};  // of the Functional
};

// Map images [batch, height, width, channels] -> [batch, classes]. Layers are named as in Keras:
// "conv1_conv", "conv2_block1_1_conv", "conv2_block1_0_bn", "avg_pool", "predictions". Throw
// InvalidArgument for options out of range and for weights that do not fit, with all missing,
// unused and reshaped ones; NotFound for a missing weights file, or one without any of the
// network's names.
MUSTER_EXPORT Functional ResNet18(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet34(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet50(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet101(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet152(ResNetOptions options = {});

}  // namespace muster::inline v0_1::applications
