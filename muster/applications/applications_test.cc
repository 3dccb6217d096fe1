#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "muster/applications/efficientnet.h"
#include "muster/applications/internal/test_store.h"
#include "muster/applications/mobilenet.h"
#include "muster/applications/resnet.h"
#include "muster/applications/vgg.h"
#include "muster/applications/vision_transformer.h"
#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::applications {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Training;

std::vector<std::string> layer_names(const Functional& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers()) names.push_back(layer.impl().identity().given_name);
  return names;
}

Shape output_shape(const Functional& model) { return model.outputs().at(0).shape(); }

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The elements of variables that do not train, of which PyTorch counts none.
int64_t moving(const Functional& model) {
  int64_t elements = 0;
  for (const VariableSpec& spec : testing::variables_of(model)) {
    if (!spec.trainable) elements += c10::multiply_integers(spec.shape);
  }
  return elements;
}

TEST(Applications, HaveKerasCounts) {
  EXPECT_EQ(ResNet50().count_params(), 25'636'712);
  EXPECT_EQ(ResNet101().count_params(), 44'707'176);
  EXPECT_EQ(ResNet152().count_params(), 60'419'944);
  EXPECT_EQ(VGG16().count_params(), 138'357'544);
  EXPECT_EQ(MobileNetV2().count_params(), 3'538'984);
  EXPECT_EQ(EfficientNetB0().count_params(), 5'330'571);
  // Without the top.
  EXPECT_EQ(ResNet50({.include_top = false}).count_params(), 23'587'712);
  EXPECT_EQ(VGG16({.include_top = false}).count_params(), 14'714'688);
  EXPECT_EQ(MobileNetV2({.include_top = false}).count_params(), 2'257'984);
  EXPECT_EQ(EfficientNetB0({.include_top = false}).count_params(), 4'049'571);
}

TEST(Applications, HaveTorchvisionsCounts) {
  const auto trainable = [](const Functional& model) {
    return model.count_params() - moving(model);
  };
  EXPECT_EQ(trainable(ResNet18()), 11'689'512);
  EXPECT_EQ(trainable(ResNet34()), 21'797'672);
  EXPECT_EQ(trainable(ResNet50({.torchvision = true})), 25'557'032);
  EXPECT_EQ(trainable(ResNet101({.torchvision = true})), 44'549'160);
  EXPECT_EQ(trainable(ResNet152({.torchvision = true})), 60'192'808);
  EXPECT_EQ(trainable(MobileNetV2({.torchvision = true})), 3'504'872);
  EXPECT_EQ(trainable(EfficientNetB0({.torchvision = true})), 5'288'548);
  EXPECT_EQ(trainable(VGG16({.torchvision = true})), 138'357'544);
  EXPECT_EQ(trainable(VisionTransformer()), 86'567'656);
}

TEST(Applications, NameLayersAsKerasDoes) {
  const std::vector<std::string> resnet = layer_names(ResNet50());
  EXPECT_EQ(resnet.front(), "conv1_pad");
  EXPECT_EQ(resnet[1], "conv1_conv");
  EXPECT_EQ(resnet.back(), "predictions");
  EXPECT_EQ(resnet.size(), 176u);  // Keras lists 177, with the input
  for (const char* name : {"conv1_bn", "pool1_pool", "conv2_block1_0_conv", "conv2_block1_1_relu",
                           "conv5_block3_3_bn", "conv5_block3_add", "conv5_block3_out", "avg_pool"})
    EXPECT_TRUE(has(resnet, name)) << name;
  const std::vector<std::string> mobile = layer_names(MobileNetV2());
  EXPECT_EQ(mobile.front(), "Conv1");
  EXPECT_EQ(mobile.size(), 155u);
  for (const char* name :
       {"bn_Conv1", "expanded_conv_depthwise", "expanded_conv_project_BN", "block_1_pad",
        "block_2_add", "block_16_project", "Conv_1", "Conv_1_bn", "out_relu", "predictions"})
    EXPECT_TRUE(has(mobile, name)) << name;
  const std::vector<std::string> efficient = layer_names(EfficientNetB0());
  EXPECT_EQ(efficient.front(), "rescaling");
  EXPECT_EQ(efficient.size(), 239u);
  for (const char* name :
       {"normalization", "stem_conv_pad", "stem_conv", "block1a_dwconv", "block2a_dwconv_pad",
        "block2b_drop", "block7a_se_excite", "top_conv", "avg_pool", "top_dropout", "predictions"})
    EXPECT_TRUE(has(efficient, name)) << name;
  EXPECT_THAT(
      layer_names(VGG16({.include_top = false})),
      ElementsAre("block1_conv1", "block1_conv2", "block1_pool", "block2_conv1", "block2_conv2",
                  "block2_pool", "block3_conv1", "block3_conv2", "block3_conv3", "block3_pool",
                  "block4_conv1", "block4_conv2", "block4_conv3", "block4_pool", "block5_conv1",
                  "block5_conv2", "block5_conv3", "block5_pool"));
  EXPECT_TRUE(has(layer_names(VGG16()), "fc1"));
}

TEST(Applications, GiveShapes) {
  EXPECT_EQ(output_shape(ResNet50({.classes = 7})), (Shape{-1, 7}));
  EXPECT_EQ(output_shape(ResNet18({.input_shape = {65, 64, 1}, .include_top = false})),
            (Shape{-1, 3, 2, 512}));
  EXPECT_EQ(output_shape(ResNet50({.input_shape = {-1, -1, 3}, .include_top = false})),
            (Shape{-1, -1, -1, 2048}));
  EXPECT_EQ(output_shape(ResNet50({.include_top = false, .pooling = "avg"})), (Shape{-1, 2048}));
  EXPECT_EQ(output_shape(MobileNetV2({.input_shape = {96, 96, 3}, .include_top = false})),
            (Shape{-1, 3, 3, 1280}));
  EXPECT_EQ(output_shape(MobileNetV2({.alpha = 1.4, .include_top = false, .pooling = "max"})),
            (Shape{-1, 1792}));
  EXPECT_EQ(output_shape(EfficientNetB0({.include_top = false})), (Shape{-1, 7, 7, 1280}));
  EXPECT_EQ(output_shape(VGG16({.include_top = false})), (Shape{-1, 7, 7, 512}));
  EXPECT_EQ(output_shape(VisionTransformer({.include_top = false})), (Shape{-1, 768}));
}

// A few steps on as many images learn them by heart.
void expect_to_learn(const Functional& model, double learning_rate, double scale = 1, int steps = 8,
                     double share = 0.7) {
  Training training(model);
  const Tensor images = scale * torch::rand({8, 32, 32, 3}, testing::generator(1));
  const Tensor labels = torch::arange(8).remainder(4);
  const double before = training.step(images, labels, learning_rate);
  double after = before;
  for (int i = 0; i < steps; ++i) after = training.step(images, labels, learning_rate);
  EXPECT_LT(after, share * before) << model.impl().identity().given_name;
}

TEST(Applications, Learn) {
  const Shape shape{32, 32, 3};
  const Activation linear = Activation::kLinear;
  expect_to_learn(ResNet18({.input_shape = shape, .classes = 4, .classifier_activation = linear}),
                  0.02);
  expect_to_learn(
      MobileNetV2(
          {.input_shape = shape, .alpha = 0.35, .classes = 4, .classifier_activation = linear}),
      0.01);
  expect_to_learn(EfficientNetB0({.input_shape = shape,
                                  .classes = 4,
                                  .classifier_activation = linear,
                                  .dropout = 0,
                                  .drop_connect = 0}),
                  0.02, 255);
  expect_to_learn(VisionTransformer({.input_shape = shape,
                                     .patch_size = 8,
                                     .layers = 2,
                                     .heads = 4,
                                     .width = 32,
                                     .mlp_width = 64,
                                     .classes = 4,
                                     .classifier_activation = linear}),
                  0.05, 255, 40, 0.97);  // plain descent is slow for it
}

TEST(Applications, ABlockThatIsRecomputedLearnsTheSame) {
  for (const auto make : {ResNet18, ResNet50}) {
    ResNetOptions options{.input_shape = {32, 32, 3}, .classes = 4};
    options.classifier_activation = Activation::kLinear;
    const Functional kept = make(options);
    options.recompute = true;
    const Functional recomputed = make(options);
    std::vector<std::string> names, others;
    for (const VariableSpec& spec : testing::variables_of(kept)) names.push_back(spec.describe());
    for (const VariableSpec& spec : testing::variables_of(recomputed))
      others.push_back(spec.describe());
    EXPECT_EQ(others, names);
    Training a(kept), b(recomputed);
    const Tensor images = torch::rand({4, 32, 32, 3}, testing::generator(1));
    for (int step = 0; step < 3; ++step)
      EXPECT_EQ(b.step(images, torch::arange(4), 0.02), a.step(images, torch::arange(4), 0.02));
  }
}

TEST(Applications, RefuseOptions) {
  EXPECT_EQ(message_of([] {
              ResNet50({.input_shape = {16, 64, 3}});
            }),
            "ResNet50: input_shape is [16, 64, 3]");
  EXPECT_EQ(message_of([] { ResNet18({.classes = 0}); }), "ResNet18: classes is 0");
  EXPECT_EQ(message_of([] { VGG16({.include_top = false, .pooling = "mean"}); }),
            "VGG16: pooling is \"mean\"");
  EXPECT_EQ(message_of([] { MobileNetV2({.pooling = "avg"}); }),
            "MobileNetV2: pooling is \"avg\", and include_top is true");
  EXPECT_EQ(message_of([] { MobileNetV2({.alpha = 0}); }), "MobileNetV2: alpha is 0");
  EXPECT_EQ(message_of([] { EfficientNetB0({.dropout = 1}); }), "EfficientNetB0: dropout is 1");
  EXPECT_EQ(message_of([] { VisionTransformer({.heads = 5}); }),
            "VisionTransformer: width is 768, and heads 5");
  EXPECT_EQ(message_of([] { VisionTransformer({.patch_size = 15}); }),
            "VisionTransformer: input_shape is [224, 224, 3], and patch_size 15");
}

}  // namespace
}  // namespace muster::inline v0_1::applications
