#include "muster/onnx/onnx_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/export/write_servable.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Features = ServableSource::Tensors;

// relu(x w) + b, with the signatures "serving_default" and "classify".
class OnnxModelTest : public ::testing::Test {
 protected:
  OnnxModelTest() {
    weight_ = torch::arange(8, kFloat32).reshape({4, 2}) / 7;
    source_.receiver = raw_serving_input_receiver({{"x", {kFloat32, {4}}}});
    source_.weights = {{"net/dense/kernel", weight_}};
    source_.global_step = 7;
    source_.function = [this](const Features& features) {
      const Tensor logits = features.at("x").matmul(weight_).relu() + 0.5;
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput({{"logits", logits}})},
          {"classify", ClassificationOutput(logits.softmax(-1), {"no", "yes"})}};
    };
  }

  // Writes the export and the file, and returns the model in the file.
  ::onnx::ModelProto written(const OnnxOptions& options = {}) {
    local_file_system().make_directories(folder_).value();
    write_servable(local_file_system(), folder_, source_);
    files_ = export_onnx(local_file_system(), folder_, path_, options);
    return read();
  }
  ::onnx::ModelProto read() const {
    ::onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(local_file_system().read_file(path_).value()));
    return model;
  }
  // The same function with another body, of the features and the weight.
  void compute(std::function<Tensor(const Tensor&)> body) {
    source_.function = [body = std::move(body)](const Features& features) {
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput({{"y", body(features.at("x"))}})}};
    };
  }

  const TempDirectory directory_;
  const std::string folder_ = directory_ / "7", path_ = directory_ / "m.onnx";
  Tensor weight_;
  ServableSource source_;
  std::vector<std::string> files_;
};

std::vector<std::string> operations_of(const ::onnx::ModelProto& model) {
  std::vector<std::string> operations;
  for (const auto& node : model.graph().node()) operations.push_back(node.op_type());
  return operations;
}

std::string metadata_of(const ::onnx::ModelProto& model, const std::string& key) {
  for (const auto& entry : model.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return "";
}

TEST_F(OnnxModelTest, HasTheNamesAndAFreeBatch) {
  const auto model = written();
  EXPECT_THAT(files_, ElementsAre("m.onnx"));
  EXPECT_EQ(model.opset_import(0).version(), 17);
  const auto& graph = model.graph();
  ASSERT_EQ(graph.input_size(), 1);
  EXPECT_EQ(graph.input(0).name(), "x");
  const auto& dims = graph.input(0).type().tensor_type().shape();
  EXPECT_EQ(dims.dim(0).dim_param(), "batch");
  EXPECT_EQ(dims.dim(1).dim_value(), 4);
  ASSERT_EQ(graph.output_size(), 2);
  EXPECT_EQ(graph.output(0).name(), "logits");
  EXPECT_EQ(graph.output(1).name(), "scores");
  EXPECT_EQ(graph.output(1).type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_THAT(operations_of(model), ElementsAre("MatMul", "Relu", "Add", "Softmax"));
}

TEST_F(OnnxModelTest, WeightsKeepTheirNames) {
  const auto model = written();
  std::vector<std::string> names;
  for (const auto& tensor : model.graph().initializer()) names.push_back(tensor.name());
  EXPECT_THAT(names, ::testing::Contains("net/dense/kernel"));
}

TEST_F(OnnxModelTest, MetadataSaysWhatTheSignaturesAre) {
  const auto model = written();
  EXPECT_EQ(metadata_of(model, "muster.global_step"), "7");
  const auto signatures = nlohmann::json::parse(metadata_of(model, "muster.signatures"));
  EXPECT_EQ(signatures["classify"]["classes"], (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(signatures["classify"]["outputs"]["scores"], "scores");
  EXPECT_EQ(signatures[kServingDefault]["inputs"]["x"]["dtype"], "float32");
}

TEST_F(OnnxModelTest, TheSameExportIsTheSameFile) {
  (void)written();
  const std::string first = local_file_system().read_file(path_).value();
  export_onnx(local_file_system(), folder_, path_);
  EXPECT_EQ(local_file_system().read_file(path_).value(), first);
}

TEST_F(OnnxModelTest, ManyWeightsAreInAFileOfTheirOwn) {
  const auto whole = written();
  const auto model = written({.external_data_from = 1});
  EXPECT_THAT(files_, ElementsAre("m.onnx", "m.onnx.data"));
  const std::string data = local_file_system().read_file(path_ + ".data").value();
  ASSERT_EQ(model.graph().initializer_size(), whole.graph().initializer_size());
  for (int i = 0; i < model.graph().initializer_size(); ++i) {
    const auto& tensor = model.graph().initializer(i);
    ASSERT_EQ(tensor.external_data_size(), 3);
    EXPECT_EQ(tensor.external_data(0).value(), "m.onnx.data");
    const size_t offset = std::stoul(tensor.external_data(1).value());
    const size_t length = std::stoul(tensor.external_data(2).value());
    EXPECT_EQ(data.substr(offset, length), whole.graph().initializer(i).raw_data());
  }
}

// What the inputs do not change is computed once, when the file is written.
TEST_F(OnnxModelTest, ConstantsAreFolded) {
  compute([this](const Tensor& x) { return x.matmul((weight_ * 2).t().contiguous().t()); });
  EXPECT_THAT(operations_of(written()), ElementsAre("MatMul"));
}

TEST_F(OnnxModelTest, ATransposedWeightIsNotThereTwice) {
  compute([this](const Tensor& x) { return x.matmul(weight_).matmul(weight_.t()); });
  const auto model = written();
  EXPECT_EQ(model.graph().initializer_size(), 1);
  EXPECT_THAT(operations_of(model),
              ::testing::UnorderedElementsAre("MatMul", "Transpose", "MatMul"));
}

TEST_F(OnnxModelTest, AnUnknownOperationIsNamedWithTheWeightBeforeIt) {
  compute([this](const Tensor& x) { return x.matmul(weight_).erfinv(); });
  const Error error = error_of([&] { (void)written(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("not supported: ONNX: the operation aten::erfinv"),
                                     HasSubstr("\"net/dense/kernel\"")));
  EXPECT_FALSE(local_file_system().exists(path_).value());
}

TEST_F(OnnxModelTest, AnInputThatIsAnOutputIsRefused) {
  source_.function = [](const Features& features) {
    return std::map<std::string, ExportOutput>{
        {kServingDefault, PredictOutput({{"x", features.at("x") * 2}})}};
  };
  EXPECT_THAT(error_of([&] { (void)written(); }).message(),
              HasSubstr("\"x\" is an input and an output"));
}

TEST_F(OnnxModelTest, AnExportMayHaveOnnxToo) {
  source_.formats = {"onnx"};
  local_file_system().make_directories(folder_).value();
  write_servable(local_file_system(), folder_, source_);
  // Its digest is checked with the others.
  (void)read_export(local_file_system(), folder_);
  local_file_system().write_atomically(folder_ + "/model.onnx", std::string_view("no")).value();
  EXPECT_EQ(error_of([&] { (void)read_export(local_file_system(), folder_); }).kind(),
            ErrorKind::kCorrupt);
}

TEST_F(OnnxModelTest, AFolderWithoutAnExportIsNotFound) {
  EXPECT_EQ(
      error_of([&] { (void)export_onnx(local_file_system(), directory_ / "none", path_); }).kind(),
      ErrorKind::kNotFound);
}

TEST_F(OnnxModelTest, WeightsAreStoredInFewerBits) {
  const auto stored = [&](const char* kind) {
    const auto model = written({.weights = kind});
    for (const auto& tensor : model.graph().initializer()) {
      if (tensor.name() == "net/dense/kernel") return std::pair(model, tensor.raw_data().size());
    }
    return std::pair(model, size_t{0});
  };
  EXPECT_EQ(stored("float32").second, 32U);
  EXPECT_EQ(stored("float16").second, 16U);
  EXPECT_THAT(operations_of(stored("bfloat16").first), ::testing::Contains("Cast"));
  const auto [int8, bytes] = stored("int8");
  EXPECT_EQ(bytes, 8U);
  EXPECT_EQ(operations_of(int8).front(), "DequantizeLinear");
  const auto dynamic = operations_of(stored("int8_dynamic").first);
  EXPECT_THAT(dynamic, ::testing::IsSupersetOf({"DynamicQuantizeLinear", "MatMulInteger"}));
  EXPECT_THAT(dynamic, ::testing::Not(::testing::Contains("MatMul")));
  EXPECT_THAT(error_of([&] { (void)written({.weights = "int4"}); }).message(), HasSubstr("int4"));
}

}  // namespace
}  // namespace muster::inline v0_1::onnx
