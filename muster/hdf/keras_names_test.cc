#include "muster/hdf/keras_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/formats/keras_file.h"

namespace muster::inline v0_1::hdf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HdfListing listing_of(const std::vector<std::string>& paths) {
  HdfListing listing;
  for (const std::string& path : paths) listing.arrays.push_back({.path = path});
  std::ranges::sort(listing.arrays, {}, &HdfArray::path);
  return listing;
}

std::vector<std::string> names_in(const KerasNames& names) {
  std::vector<std::string> all;
  for (const auto& [name, place] : names.places) all.push_back(name);
  return all;
}

const std::vector<std::string> kLayers = {"layers/batch_normalization/vars/0",
                                          "layers/batch_normalization/vars/1",
                                          "layers/batch_normalization/vars/2",
                                          "layers/dense/vars/0",
                                          "layers/dense/vars/1",
                                          "layers/dense_1/vars/0"};

TEST(KerasNames, WithoutNamesLayersAreTheirClasses) {
  const KerasNames names = name_weights(listing_of(kLayers), "", "it");
  EXPECT_TRUE(names.by_class);
  // Which of scale and offset is there, three numbers do not say.
  EXPECT_THAT(names_in(names),
              ElementsAre("batch_normalization/0", "batch_normalization/1", "batch_normalization/2",
                          "dense/bias", "dense/kernel", "dense_1/kernel"));
}

TEST(KerasNames, TheConfigurationKnowsLayersAndWhatTheyHave) {
  const std::string config = R"({"class_name": "Sequential", "config": {"layers": [
      {"class_name": "Dense", "config": {"name": "first"}},
      {"class_name": "BatchNormalization", "config": {"name": "norm", "scale": false}},
      {"class_name": "Dense", "config": {"name": "last", "use_bias": false}}]}})";
  const KerasNames names = name_weights(listing_of(kLayers), config, "it");
  EXPECT_FALSE(names.by_class);
  EXPECT_THAT(names_in(names), ElementsAre("first/bias", "first/kernel", "last/kernel", "norm/beta",
                                           "norm/moving_mean", "norm/moving_variance"));
}

TEST(KerasNames, ALayerOfAnUnknownClassNumbersItsWeights) {
  HdfListing listing = listing_of({"layers/my_layer/vars/0", "layers/my_layer/inner/vars/0"});
  listing.texts["layers/my_layer/vars"]["name"] = {"mine"};
  EXPECT_THAT(names_in(name_weights(listing, "", "it")), ElementsAre("mine/0", "mine/inner/0"));
}

TEST(KerasNames, WhatIsNoWeightIsCounted) {
  const KerasNames names =
      name_weights(listing_of({"layers/dense/vars/0", "optimizer/vars/0", "optimizer/vars/1",
                               "metrics/mean/vars/0", "layers/dropout/seed_generator/vars/0"}),
                   "", "it");
  EXPECT_THAT(names_in(names), ElementsAre("dense/kernel"));
  EXPECT_EQ(names.of_optimizer, 2u);
  EXPECT_EQ(names.of_others, 2u);
}

TEST(KerasNames, OfLegacyFilesAreThoseOfTheLayers) {
  HdfListing listing = listing_of(
      {"a/net/a/kernel:0", "b/b/lstm_cell_1/kernel:0", "c/dense/kernel:0", "d/dense/kernel:0"});
  listing.texts[""]["layer_names"] = {"a", "b", "c", "d"};
  listing.texts["a"]["weight_names"] = {"net/a/kernel:0"};
  listing.texts["b"]["weight_names"] = {"b/lstm_cell_1/kernel:0"};
  listing.texts["c"]["weight_names"] = {"dense/kernel:0"};
  listing.texts["d"]["weight_names"] = {"dense/kernel:0"};
  EXPECT_THAT(names_in(name_weights(listing, "", "it")),
              ElementsAre("a/kernel", "b/kernel", "d/dense/kernel", "dense/kernel"));
  listing.texts["d"]["weight_names"] = {"dense/other:0"};
  const Error error = error_of([&] { (void)name_weights(listing, "", "it"); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("the layer \"d\" names the weight \"dense/other:0\""));
}

TEST(KerasNames, OfAnotherFileArePaths) {
  EXPECT_THAT(names_in(name_weights(listing_of({"a", "b/c"}), "", "it")), ElementsAre("a", "b/c"));
}

TEST(KerasNames, AConfigurationThatIsNoJsonIsCorrupt) {
  EXPECT_EQ(error_of([] { (void)name_weights(listing_of(kLayers), "{", "it"); }).kind(),
            ErrorKind::kCorrupt);
}

// What keras.src.utils.naming.to_snake_case() of Keras 3 gives.
TEST(KerasGroup, IsTheClassInSnakeCase) {
  for (const auto& [name, group] : std::vector<std::pair<std::string, std::string>>{
           {"Dense", "dense"},
           {"Conv2D", "conv2d"},
           {"Conv2DTranspose", "conv2d_transpose"},
           {"DepthwiseConv2D", "depthwise_conv2d"},
           {"MaxPooling2D", "max_pooling2d"},
           {"LSTM", "lstm"},
           {"SimpleRNN", "simple_rnn"},
           {"PReLU", "p_re_lu"},
           {"MultiHeadAttention", "multi_head_attention"},
           {"My_Layer", "my__layer"},
           {"GPT2Block", "gpt2_block"},
           {"ABTest", "ab_test"},
           {"X2Y", "x2y"}})
    EXPECT_EQ(formats::keras_group(name), group);
}

}  // namespace
}  // namespace muster::inline v0_1::hdf
