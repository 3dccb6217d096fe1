// A vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image
// Recognition at Scale", 2021).
// Thread safety: functions that return immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/activations.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of VisionTransformer(). The defaults are those of ViT-B/16. Fields shared with
// ResNetOptions have the same meaning.
struct VisionTransformerOptions {
  Shape input_shape{};      // empty: {224, 224, 3}; multiples of the patch size
  int64_t patch_size = 16;  // rows and columns of a patch
  int64_t layers = 12;
  int64_t heads = 12;        // must divide the width
  int64_t width = 768;       // of a patch's vector
  int64_t mlp_width = 3072;  // between the two dense layers of a block
  double dropout = 0;        // after positions, attention and dense layers, in training
  double epsilon = 1e-6;     // of normalizations; Hugging Face's models have 1e-12
  // False removes the classifier, and returns the normalized vector of the class token: [batch,
  // width].
  bool include_top = true;
  int64_t classes = 1000;
  Activation classifier_activation = Activation::kSoftmax;
  // With our own names, as in our checkpoints, with torchvision's, or with those of Hugging Face's
  // transformers.
  std::string weights{};
  std::string name{};
};

// Maps images [batch, height, width, channels] -> [batch, classes]. Normalize images yourself.
// Layers: "patch_embedding", "class_token", "position_embedding", "block_0_norm_1",
// "block_0_attention", "block_0_norm_2", "block_0_mlp_1", "block_0_mlp_2", "norm", "head". Throws
// as ResNet50() does.
MUSTER_EXPORT Functional VisionTransformer(VisionTransformerOptions options = {});

}  // namespace muster::inline v0_1::applications
