#include "muster/savedmodel/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/export/write_servable.h"
#include "muster/savedmodel/saved_model_description.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::saved_model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Features = ServableSource::Tensors;

// relu(x w) + 0.5, with the signatures "serving_default" and "classify".
class SavedModelTest : public ::testing::Test {
 protected:
  SavedModelTest() {
    weight_ = torch::arange(8, kFloat32).reshape({4, 2}) / 7;
    source_.receiver = raw_serving_input_receiver({{"x", {kFloat32, {4}}}});
    source_.weights = {{"net/dense/kernel", weight_}};
    source_.function = [this](const Features& features) {
      const Tensor logits = features.at("x").matmul(weight_).relu() + 0.5;
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput({{"logits", logits}})},
          {"classify", ClassificationOutput(logits.softmax(-1), {"no", "yes"})}};
    };
  }

  // Writes the export and the SavedModel, and returns what that contains.
  SavedModelDescription written() {
    local_file_system().make_directories(version_).value();
    write_servable(local_file_system(), version_, source_);
    files_ = export_saved_model(local_file_system(), version_, folder_);
    return read(folder_);
  }
  static SavedModelDescription read(const std::string& folder) {
    const std::string bytes = local_file_system().read_file(folder + "/saved_model.pb").value();
    return describe_saved_model(bytes_of(bytes));
  }
  // The same function with another body, of the feature and the weight.
  void compute(std::function<Tensor(const Tensor&)> body) {
    source_.function = [body = std::move(body)](const Features& features) {
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput({{"y", body(features.at("x"))}})}};
    };
  }

  const TempDirectory directory_;
  const std::string version_ = directory_ / "7", folder_ = directory_ / "saved";
  Tensor weight_;
  ServableSource source_;
  std::vector<std::string> files_;
};

TEST_F(SavedModelTest, HasTheSignaturesOfTheExport) {
  const SavedModelDescription model = written();
  EXPECT_THAT(files_, ElementsAre("saved_model.pb", "variables/variables.index",
                                  "variables/variables.data-00000-of-00001"));
  EXPECT_THAT(model.tags, ElementsAre("serve"));
  const auto& serving = model.signatures.at(kServingDefault);
  EXPECT_EQ(serving.method, "tensorflow/serving/predict");
  EXPECT_THAT(serving.inputs, ElementsAre(Pair("x", "float32[-1, 4]")));
  EXPECT_THAT(serving.outputs, ElementsAre(Pair("logits", "float32[-1, 2]")));
  const auto& classify = model.signatures.at("classify");
  EXPECT_EQ(classify.method, "tensorflow/serving/classify");
  EXPECT_THAT(classify.outputs,
              ElementsAre(Pair("classes", "string[-1, 2]"), Pair("scores", "float32[-1, 2]")));
}

TEST_F(SavedModelTest, TheGraphComputesWithVariables) {
  const SavedModelDescription model = written();
  EXPECT_THAT(model.nodes.at("net/dense/MatMul"),
              ElementsAre("x", "net/dense/kernel/Read/ReadVariableOp"));
  EXPECT_THAT(model.nodes.at("net/dense/Relu"), ElementsAre("net/dense/MatMul"));
  EXPECT_THAT(model.nodes.at("logits"), ElementsAre("net/dense/AddV2"));
  EXPECT_TRUE(model.nodes.contains("classes/BroadcastTo"));
}

TEST_F(SavedModelTest, WeightsAreACheckpointOfTensorflow) {
  (void)written();
  const tensorflow::BundleReader bundle(local_file_system(), folder_ + "/variables/variables");
  ASSERT_THAT(bundle.entries(), ElementsAre(Pair("net/dense/kernel", ::testing::_)));
  const auto& entry = bundle.entries().begin()->second;
  EXPECT_THAT(entry.shape, ElementsAre(4, 2));
  Tensor read = torch::empty({4, 2});
  bundle.read("net/dense/kernel", entry.pieces.at(0),
              {static_cast<std::byte*>(read.data_ptr()), static_cast<size_t>(read.nbytes())});
  EXPECT_TRUE(torch::equal(read, weight_));
}

TEST_F(SavedModelTest, AModelWithoutWeightsHasNoVariables) {
  compute([](const Tensor& x) { return x * 2; });
  source_.weights.clear();
  const SavedModelDescription model = written();
  EXPECT_THAT(files_, ElementsAre("saved_model.pb"));
  EXPECT_FALSE(model.operations.contains("RestoreV2"));
}

TEST_F(SavedModelTest, TheSameExportIsTheSameFile) {
  (void)written();
  const std::string path = folder_ + "/saved_model.pb";
  const std::string first = local_file_system().read_file(path).value();
  export_saved_model(local_file_system(), version_, folder_);
  EXPECT_EQ(local_file_system().read_file(path).value(), first);
}

// TensorFlow has channels last, as Muster's layers: no transposes are left.
TEST_F(SavedModelTest, ConvolutionsOfMustersLayersNeedNoTransposes) {
  source_.receiver = raw_serving_input_receiver({{"x", {kFloat32, {8, 8, 3}}}});
  const Tensor kernel = torch::ones({3, 3, 3, 5});
  source_.weights = {{"conv/kernel", kernel}};
  compute([kernel](const Tensor& x) {
    return torch::conv2d(x.permute({0, 3, 1, 2}), kernel.permute({3, 2, 0, 1}), {}, 1, 1)
        .permute({0, 2, 3, 1});
  });
  const SavedModelDescription model = written();
  EXPECT_EQ(model.operations.at("Conv2D"), 1);
  EXPECT_FALSE(model.operations.contains("Transpose"));
  EXPECT_FALSE(model.operations.contains("PadV2"));  // the padding is "SAME"
}

TEST_F(SavedModelTest, AnUnknownOperationIsNamedWithTheWeightBeforeIt) {
  compute([this](const Tensor& x) { return x.matmul(weight_).erfinv(); });
  const Error error = error_of([&] { (void)written(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("aten::erfinv"), HasSubstr("\"net/dense/kernel\"")));
  EXPECT_FALSE(local_file_system().exists(folder_ + "/saved_model.pb").value());
}

// TensorFlow Serving takes the parent folder, which has numbered versions.
TEST_F(SavedModelTest, AnExportMayBeASavedModelToo) {
  source_.formats = {"saved_model"};
  local_file_system().make_directories(version_).value();
  write_servable(local_file_system(), version_, source_);
  EXPECT_TRUE(read(version_).signatures.contains("classify"));
  // Its digests are checked with the others.
  (void)read_export(local_file_system(), version_);
  local_file_system()
      .write_atomically(version_ + "/variables/variables.index", std::string_view("no"))
      .value();
  EXPECT_EQ(error_of([&] { (void)read_export(local_file_system(), version_); }).kind(),
            ErrorKind::kCorrupt);
}

TEST_F(SavedModelTest, CutFilesAreCorrupt) {
  (void)written();
  const std::string bytes = local_file_system().read_file(folder_ + "/saved_model.pb").value();
  EXPECT_EQ(error_of([&] {
              (void)describe_saved_model(bytes_of(std::string_view(bytes).substr(0, 100)));
            }).kind(),
            ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1::saved_model
