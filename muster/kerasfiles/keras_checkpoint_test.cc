#include "muster/kerasfiles/keras_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint_format.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using kerasfiles::open_keras_checkpoint;
using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

FileSystem& files() { return local_file_system(); }

std::string golden(const std::string& name) {
  return join_path(Environment::process().get("MUSTER_SOURCE_DIR").value(),
                   "muster/kerasfiles/golden/" + name);
}

json expected_of(const std::string& folder) {
  return json::parse(files().read_file(golden(folder + "/expected.json")).value());
}

Tensor tensor_of(const json& expected) {
  return torch::tensor(expected.at("values").get<std::vector<double>>(), at::kDouble)
      .view(expected.at("shape").get<std::vector<int64_t>>());
}

// The weights of a layer in Keras's order, as Muster names them.
const std::map<std::string, std::vector<std::string>> kWeights = {
    {"dense/first", {"kernel", "bias"}},
    {"dense/norm", {"beta", "moving_mean", "moving_variance"}},
    {"dense/last", {"kernel", "bias"}},
    {"parts/rows", {"embeddings"}},
    {"parts/attention",
     {"query/kernel", "query/bias", "key/kernel", "key/bias", "value/kernel", "value/bias",
      "attention_output/kernel", "attention_output/bias"}},
    {"parts/both",
     {"forward_gru/kernel", "forward_gru/recurrent_kernel", "forward_gru/bias",
      "backward_gru/kernel", "backward_gru/recurrent_kernel", "backward_gru/bias"}},
    {"parts/memory", {"kernel", "recurrent_kernel", "bias"}},
    {"parts/inner", {"inside/kernel", "inside/bias"}},
    {"parts/norm", {"gamma"}},
    {"image/first", {"kernel", "bias"}},
    {"image/each", {"depthwise_kernel", "bias"}},
    {"image/both", {"depthwise_kernel", "pointwise_kernel", "bias"}},
    {"image/dense", {"kernel", "bias"}}};

// Files of Keras 2.15 and Keras 3, and what layer.get_weights() gave for them.
class Goldens : public ::testing::TestWithParam<const char*> {};

TEST_P(Goldens, HaveTheWeightsThatKerasHas) {
  const std::string version = GetParam();
  size_t compared = 0;
  const json expected = expected_of(version);
  for (const auto& [model, said] : expected.items()) {
    for (const std::string file : said.at("files")) {
      const auto reader = open_keras_checkpoint(files(), golden(version + "/" + file));
      // Keras 2.15 writes .weights.h5 without names of layers.
      const bool by_class = reader->header().notes.contains(kLayersByClass);
      EXPECT_EQ(by_class, version == "keras2" && file.ends_with(".weights.h5")) << file;
      if (by_class) continue;
      for (const json& layer : said.at("layers")) {
        const auto name = layer.at("layer").get<std::string>();
        const auto& weights = kWeights.at(model + "/" + name);
        ASSERT_EQ(weights.size(), layer.at("values").size()) << file << " " << name;
        for (size_t i = 0; i < weights.size(); ++i) {
          std::string whole = name + "/" + weights[i];
          // A legacy file of Keras 2 has no name of the model in the model.
          if (version == "keras2" && file.ends_with(".h5") && name == "inner") whole = weights[i];
          SCOPED_TRACE(file + " " + whole);
          // One weight of a layer normalization is gamma or beta, which the class does not say.
          if (whole == "norm/gamma" && file == "parts.weights.h5") whole = "norm/0";
          if (model == "dense" && name == "norm" && file == "dense.weights.h5")
            whole = "norm/" + std::to_string(i);
          // As Keras 3 calls it, which a legacy file says.
          if (whole == "each/depthwise_kernel" && version == "keras3" && file.ends_with("e.h5"))
            whole = "each/kernel";
          const Tensor read = reader->read(whole);
          const Tensor wanted = tensor_of(layer.at("values")[i]);
          EXPECT_EQ(read.sizes(), wanted.sizes());
          EXPECT_TRUE(read.to(at::kDouble).equal(wanted));
          EXPECT_EQ(reader->specs().at(whole),
                    (TensorSpec{read.sizes().vec(), read.scalar_type()}));
          ++compared;
        }
      }
    }
  }
  EXPECT_GE(compared, 80u);
}

INSTANTIATE_TEST_SUITE_P(All, Goldens, ::testing::Values("keras2", "keras3"));

TEST(KerasCheckpoint, ReadsEveryDtypeOfH5py) {
  const auto reader = open_keras_checkpoint(files(), golden("h5py/arrays.h5"));
  const std::map<std::string, DType> kOurs = {
      {"float16", at::kHalf}, {"float32", at::kFloat}, {"float64", at::kDouble},
      {"int8", at::kChar},    {"int16", at::kShort},   {"int32", at::kInt},
      {"int64", at::kLong},   {"uint8", at::kByte},    {"uint16", at::kInt},
      {"uint32", at::kLong},  {"uint64", at::kLong},   {"bool", at::kBool}};
  const json expected = expected_of("h5py");
  ASSERT_GE(expected.size(), 20u);
  for (const auto& [name, said] : expected.items()) {
    const Tensor read = reader->read(name), wanted = tensor_of(said);
    EXPECT_EQ(read.scalar_type(), kOurs.at(said.at("dtype").get<std::string>())) << name;
    EXPECT_EQ(read.sizes(), wanted.sizes()) << name;
    EXPECT_TRUE(read.to(at::kDouble).equal(wanted)) << name;
    if (read.dim() > 0 && read.size(0) > 1) {
      EXPECT_TRUE(reader->read_rows(name, 1, read.size(0)).equal(read.slice(0, 1, read.size(0))))
          << name;
    }
  }
  EXPECT_THAT(reader->names(), ::testing::Not(Contains("texts")));
  reader->verify();
}

TEST(KerasCheckpoint, ABfloat16OfKeras3IsOne) {
  const auto reader = open_keras_checkpoint(files(), golden("keras3/bfloat16.weights.h5"));
  EXPECT_EQ(reader->specs().at("short/kernel"), (TensorSpec{{2, 2}, at::kBFloat16}));
  EXPECT_TRUE(reader->read("short/bias").to(at::kFloat).equal(torch::zeros({2})));
}

TEST(KerasCheckpoint, IsFoundWhereverACheckpointIsNamed) {
  const std::string path = golden("keras3/dense.keras");
  EXPECT_TRUE(is_checkpoint(files(), path));
  EXPECT_THAT(open_checkpoint(files(), path)->names(), Contains("first/kernel"));
  EXPECT_EQ(open_checkpoint(files(), path)->header().global_step, 0);
  EXPECT_THAT(read_checkpoint(files(), path).tensors, ::testing::SizeIs(7));
}

TEST(KerasCheckpoint, ANameThatIsNotThereNamesTheNearest) {
  const Error error = error_of([] {
    (void)open_keras_checkpoint(files(), golden("keras3/dense.h5"))->read("first/kernal");
  });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.hint(), HasSubstr("first/kernel"));
}

TEST(KerasCheckpoint, WhatIsNoFileOfKerasIsRefused) {
  const TempDirectory directory;
  const std::string path = directory / "model.keras";
  EXPECT_EQ(error_of([&] { (void)open_keras_checkpoint(files(), path); }).kind(),
            ErrorKind::kNotFound);
  files().write_atomically(path, std::string_view("words")).value();
  EXPECT_THAT(error_of([&] { (void)open_keras_checkpoint(files(), path); }).message(),
              HasSubstr("is not a HDF5 file"));
  const std::string whole = files().read_file(golden("keras3/dense.keras")).value();
  files().write_atomically(path, std::string_view(whole).substr(0, whole.size() / 2)).value();
  EXPECT_EQ(error_of([&] { (void)open_keras_checkpoint(files(), path); }).kind(),
            ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1
