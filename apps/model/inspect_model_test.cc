#include "apps/model/inspect_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/export/write_servable.h"
#include "muster/onnx/onnx_model.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

// An export of x w, with the files of ONNX and of a SavedModel.
class InspectModelTest : public ::testing::Test {
 protected:
  InspectModelTest() {
    const Tensor weight = torch::ones({4, 2});
    ServableSource source{
        .function =
            [weight](const auto& features) {
              return std::map<std::string, ExportOutput>{
                  {kServingDefault, PredictOutput({{"y", features.at("x").matmul(weight)}})}};
            },
        .receiver = raw_serving_input_receiver({{"x", {kFloat32, {4}}}}),
        .weights = {{"dense/kernel", weight}},
        .formats = {"onnx", "saved_model"}};
    local_file_system().make_directories(folder_).value();
    write_servable(local_file_system(), folder_, source);
  }

  ModelFile read(const std::string& name) const {
    return read_model_file(local_file_system(), folder_ + "/" + name);
  }
  std::string bytes() const {
    return local_file_system().read_file(folder_ + "/model.onnx").value();
  }
  Error error_of_bytes(std::string_view changed) const {
    local_file_system().write_atomically(folder_ + "/changed.onnx", changed).value();
    return error_of([&] { (void)read("changed.onnx"); });
  }

  const TempDirectory directory_;
  const std::string folder_ = directory_ / "7";
};

TEST_F(InspectModelTest, OfASavedModel) {
  for (const char* name : {"", "saved_model.pb"}) {
    const ModelFile model = read(name);
    EXPECT_EQ(model.kind, "SavedModel, serve");
    EXPECT_EQ(model.inputs.at(0),
              std::pair(std::string("serving_default: x"), std::string("float32[-1, 4]")));
    EXPECT_EQ(model.operations.at("MatMul"), 1);
    EXPECT_EQ(model.weights, 1);
    EXPECT_EQ(model.numbers, 8);
    EXPECT_EQ(model.weight_bytes, 32U);
  }
  const std::string path = folder_ + "/saved_model.pb";
  const std::string whole = local_file_system().read_file(path).value();
  local_file_system().write_atomically(path, std::string_view(whole).substr(0, 50)).value();
  EXPECT_THAT(error_of([&] { (void)read("saved_model.pb"); }).message(),
              HasSubstr("is not a SavedModel, or it is cut off"));
}

TEST_F(InspectModelTest, OfOnnx) {
  const ModelFile model = read("model.onnx");
  EXPECT_EQ(model.kind, "ONNX, opset 17");
  EXPECT_EQ(model.inputs.at(0), std::pair(std::string("x"), std::string("float32[batch, 4]")));
  EXPECT_EQ(model.outputs.at(0), std::pair(std::string("y"), std::string("float32[batch, 2]")));
  EXPECT_EQ(model.operations, (std::map<std::string, int64_t>{{"MatMul", 1}}));
  EXPECT_EQ(model.numbers, 8);
  EXPECT_EQ(model.file_bytes, bytes().size());
}

TEST_F(InspectModelTest, OfTorchScriptAndOfWeights) {
  const ModelFile script = read("model.pt");
  EXPECT_EQ(script.weights, 1);
  EXPECT_EQ(script.numbers, 8);
  EXPECT_EQ(script.weight_bytes, 32u);
  // With the step, an int64.
  const ModelFile weights = read("model.safetensors");
  EXPECT_EQ(weights.weights, 2);
  EXPECT_EQ(weights.numbers, 9);
  EXPECT_EQ(weights.weight_bytes, 40u);
  EXPECT_EQ(read("model.pt").operations, (std::map<std::string, int64_t>{{"matmul", 1}}));
}

TEST_F(InspectModelTest, TheTextAndTheDocumentSayTheSame) {
  const ModelFile model = read("model.onnx");
  EXPECT_THAT(text_of(model, "m.onnx"), HasSubstr("1 tensors of weights, 8 numbers"));
  const auto document = nlohmann::json::parse(json_of(model, "m.onnx"));
  EXPECT_EQ(document["weights"]["numbers"], 8);
  EXPECT_EQ(document["notes"]["producer"], "muster");
}

TEST_F(InspectModelTest, DamageIsNamed) {
  const std::string whole = bytes();
  EXPECT_EQ(error_of_bytes("words").kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(error_of_bytes("").kind(), ErrorKind::kCorrupt);
  for (const size_t kept : {whole.size() / 4, whole.size() / 2, whole.size() - 1})
    EXPECT_EQ(error_of_bytes(std::string_view(whole).substr(0, kept)).kind(), ErrorKind::kCorrupt)
        << kept;
}

// Any bytes are a model, or an error: nothing else happens.
TEST_F(InspectModelTest, ChangedBytesAreReadOrRefused) {
  const std::string whole = bytes();
  int refused = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    Random random(derive_key(i, {id_of("changed")}));
    std::string changed = whole;
    for (uint64_t places = 1 + random.uniform_below(4); places > 0; --places)
      changed[random.uniform_below(changed.size())] = static_cast<char>(random.uniform_below(256));
    try {
      (void)text_of(onnx_model_of(changed, "changed.onnx"), "changed.onnx");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << i;
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(InspectModelTest, ImpossibleSizesAreNamed) {
  ::onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes()));
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t{1} << 62);
  EXPECT_THAT(error_of_bytes(model.SerializeAsString()).message(), HasSubstr("impossible shape"));
}

TEST_F(InspectModelTest, AnotherKindIsRefused) {
  EXPECT_THAT(error_of([&] { (void)read("signatures.json"); }).message(),
              HasSubstr("not supported"));
  EXPECT_EQ(error_of([&] { (void)read("none.onnx"); }).kind(), ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::app
