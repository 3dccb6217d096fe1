// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2016): Keras's, and
// torchvision's.
// Thread safety: functions that give immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of the residual networks.
struct ResNetOptions {
  // {height, width, channels}; {224, 224, 3} where it is empty. Without a top, -1 is any size. At
  // least 32.
  Shape input_shape{};
  // false leaves the means of channels and the classes away, and gives [batch, height / 32, width /
  // 32, channels].
  bool include_top = true;
  int64_t classes = 1000;
  // Without a top, "avg" gives the mean of each channel, and "max" the largest value.
  std::string pooling{};
  // Of the classes. Losses that take logits want kLinear.
  Activation classifier_activation = Activation::kSoftmax;
  // A safetensors file with initial weights: of Keras's names, as our checkpoints have, or, with
  // torchvision = true, of torchvision's or those of Hugging Face's transformers. A checkpoint that
  // a run restores wins. The file is read when weights are made.
  std::string weights{};
  // true: torchvision's structure ("v1.5"). The stride of a block is that of its 3x3 convolution,
  // which pads both sides alike; convolutions have no bias; normalizations have an epsilon of 1e-5
  // and a momentum of 0.9. Images are normalized by mean and deviation outside of it.
  // false: Keras's. The stride is that of the first convolution; convolutions have a bias; 1.001e-5
  // and 0.99. ResNet18() and ResNet34() are not in Keras, and are torchvision's in any case.
  bool torchvision = false;
  // Each block, and what is in front of them, keeps only what goes into it and comes out of it, and
  // backward calls it once more (Recompute): the same bits in less memory and more time. layers()
  // then shows each as one.
  bool recompute = false;
  std::string name{};  // of the Functional
};

// Give images [batch, height, width, channels] -> [batch, classes]. Layers are named as in Keras:
// "conv1_conv", "conv2_block1_1_conv", "conv2_block1_0_bn", "avg_pool", "predictions". Throw
// InvalidArgument for options out of range and for weights that do not fit, with all that is
// missing, left over and of another shape; NotFound where there is no such file, or where it knows
// none of its names.
MUSTER_EXPORT Functional ResNet18(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet34(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet50(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet101(ResNetOptions options = {});
MUSTER_EXPORT Functional ResNet152(ResNetOptions options = {});

}  // namespace muster::inline v0_1::applications
