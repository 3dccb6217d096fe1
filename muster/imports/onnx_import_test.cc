#include "muster/imports/onnx_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "muster/base/error_of.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx {
namespace {

using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::testing::HasSubstr;

NodeProto& add_node(GraphProto& graph, const char* operation,
                    const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
  NodeProto& node = *graph.add_node();
  node.set_op_type(operation);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

TensorProto& add_weight(GraphProto& graph, const std::string& name, const Tensor& value) {
  TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  const bool floats = value.scalar_type() == at::kFloat;
  tensor.set_data_type(floats ? TensorProto::FLOAT : TensorProto::INT64);
  for (const int64_t size : value.sizes()) tensor.add_dims(size);
  tensor.set_raw_data(value.contiguous().data_ptr(), value.nbytes());
  return tensor;
}

void add_info(::onnx::ValueInfoProto& info, const std::string& name, const Shape& shape) {
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(TensorProto::FLOAT);
  for (const int64_t size : shape) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (size < 0) {
      dim->set_dim_param("batch");
    } else {
      dim->set_dim_value(size);
    }
  }
}

// y = x w + b, for rows of 3 numbers.
ModelProto small_model() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  GraphProto& graph = *model.mutable_graph();
  graph.set_name("small");
  add_weight(graph, "net/kernel", torch::arange(6, at::kFloat).reshape({3, 2}));
  add_weight(graph, "net/bias", torch::tensor({0.5F, -1.0F}));
  add_info(*graph.add_input(), "x", {-1, 3});
  add_info(*graph.add_output(), "y", {-1, 2});
  add_node(graph, "MatMul", {"x", "net/kernel"}, {"product"});
  add_node(graph, "Add", {"product", "net/bias"}, {"y"});
  return model;
}

class OnnxImportTest : public ::testing::Test {
 protected:
  std::string write(const std::string& bytes) const {
    local_file_system().write_atomically(path_, bytes).value();
    return path_;
  }
  std::string write(const ModelProto& model) const { return write(model.SerializeAsString()); }
  Error error_of_model(const ModelProto& model) const {
    return error_of_bytes(model.SerializeAsString());
  }
  Error error_of_bytes(const std::string& bytes) const {
    write(bytes);
    return error_of([&] { (void)load_model(local_file_system(), path_); });
  }

  const TempDirectory directory_;
  const std::string path_ = directory_ / "m.onnx";
};

TEST_F(OnnxImportTest, AServableRunsAFile) {
  const Servable model(write(small_model()));
  const Tensor x = torch::ones({2, 3});
  const auto outputs = model.run(kServingDefault, {{"x", x}});
  EXPECT_TRUE(outputs.at("y").equal(torch::tensor({6.5F, 8.0F}).expand({2, 2})));
  EXPECT_EQ(model.signature(kServingDefault).inputs.at("x").describe(), "float32[-1, 3]");
  EXPECT_FALSE(model.version());
  EXPECT_TRUE(model_versions(path_).empty());
}

TEST_F(OnnxImportTest, AFolderThatHasAFileIsLoaded) {
  const std::string folder = directory_ / "7";
  local_file_system().make_directories(folder).value();
  local_file_system()
      .write_atomically(folder + "/model.onnx", small_model().SerializeAsString())
      .value();
  EXPECT_EQ(Servable(folder).version(), 7);
}

TEST_F(OnnxImportTest, WeightsKeepTheirNames) {
  const OnnxModel model = load_model(local_file_system(), write(small_model()));
  EXPECT_EQ(model.weights.at("net/kernel").numel(), 6);
  EXPECT_EQ(model.weights.size(), 2U);
  EXPECT_EQ(model.inputs.at(0).first, "x");
  EXPECT_EQ(model.outputs.at(0).second.describe(), "float32[-1, 2]");
}

TEST_F(OnnxImportTest, AnUnknownOperationIsNamedWithItsNode) {
  ModelProto model = small_model();
  NodeProto& node = *model.mutable_graph()->mutable_node(1);
  node.set_op_type("Frobnicate");
  node.set_name("the_node");
  EXPECT_THAT(
      error_of_model(model).message(),
      HasSubstr("not supported: ONNX: the operation of the node \"the_node\" (Frobnicate)"));
}

TEST_F(OnnxImportTest, CyclesAndUnknownValuesAreNamed) {
  ModelProto cyclic = small_model();
  cyclic.mutable_graph()->mutable_node(0)->set_input(0, "y");
  EXPECT_THAT(error_of_model(cyclic).message(), HasSubstr("\"product\" (MatMul) takes \"y\""));
  ModelProto unknown = small_model();
  unknown.mutable_graph()->mutable_output(0)->set_name("z");
  EXPECT_THAT(error_of_model(unknown).message(), HasSubstr("no node makes the output \"z\""));
  ModelProto twice = small_model();
  twice.mutable_graph()->mutable_node(1)->set_output(0, "product");
  EXPECT_THAT(error_of_model(twice).message(), HasSubstr("has the name \"product\""));
}

TEST_F(OnnxImportTest, OpsetsAreNamed) {
  for (const int64_t version : {12, 29}) {
    ModelProto model = small_model();
    model.mutable_opset_import(0)->set_version(version);
    EXPECT_THAT(error_of_model(model).message(), HasSubstr("has opset " + std::to_string(version)));
  }
}

TEST_F(OnnxImportTest, SizesThatDoNotFitAreNamed) {
  ModelProto longer = small_model();
  longer.mutable_graph()->mutable_initializer(0)->set_dims(0, 4);
  EXPECT_THAT(error_of_model(longer).message(),
              HasSubstr("has 24 bytes; its shape and dtype need 32"));
  ModelProto huge = small_model();
  huge.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t{1} << 62);
  EXPECT_EQ(error_of_model(huge).kind(), ErrorKind::kCorrupt);
  ModelProto negative = small_model();
  negative.mutable_graph()->mutable_initializer(0)->set_dims(0, -3);
  EXPECT_THAT(error_of_model(negative).message(), HasSubstr("impossible shape"));
  ModelProto complex = small_model();
  complex.mutable_graph()->mutable_initializer(0)->set_data_type(TensorProto::COMPLEX64);
  EXPECT_THAT(error_of_model(complex).message(),
              HasSubstr("not supported: ONNX: the dtype COMPLEX64"));
}

// A model whose kernel is in another file.
ModelProto external_model(const std::string& location, const std::string& offset,
                          const std::string& length) {
  ModelProto model = small_model();
  TensorProto& tensor = *model.mutable_graph()->mutable_initializer(0);
  tensor.clear_raw_data();
  tensor.set_data_location(TensorProto::EXTERNAL);
  const std::pair<const char*, std::string> entries[] = {
      {"location", location}, {"offset", offset}, {"length", length}};
  for (const auto& [key, value] : entries) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  return model;
}

TEST_F(OnnxImportTest, ExternalDataAreReadAndChecked) {
  const Tensor kernel = torch::arange(6, at::kFloat).reshape({3, 2});
  std::string bytes(8, 'x');
  bytes.append(static_cast<const char*>(kernel.data_ptr()), kernel.nbytes());
  local_file_system().write_atomically(directory_ / "weights", bytes).value();
  const OnnxModel model =
      load_model(local_file_system(), write(external_model("weights", "8", "24")));
  EXPECT_TRUE(model.weights.at("net/kernel").equal(kernel));
  EXPECT_THAT(error_of_model(external_model("weights", "9", "24")).message(),
              HasSubstr("which has 32"));
  EXPECT_THAT(error_of_model(external_model("weights", "8", "25")).message(),
              HasSubstr("has 25 bytes of external data"));
  EXPECT_THAT(error_of_model(external_model("weights", "-8", "24")).message(), HasSubstr("\"-8\""));
  EXPECT_EQ(error_of_model(external_model("none", "0", "24")).kind(), ErrorKind::kNotFound);
  for (const char* outside : {"../weights", "/etc/passwd", "a/../../weights", "", "c:\\weights"}) {
    EXPECT_THAT(error_of_model(external_model(outside, "0", "24")).message(),
                HasSubstr("outside of the model's folder"))
        << outside;
  }
}

TEST_F(OnnxImportTest, DamageIsNamed) {
  const std::string whole = small_model().SerializeAsString();
  EXPECT_EQ(error_of_bytes("words").kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(error_of_bytes("").kind(), ErrorKind::kCorrupt);
  for (const size_t kept : {whole.size() / 4, whole.size() / 2, whole.size() - 1})
    EXPECT_EQ(error_of_bytes(whole.substr(0, kept)).kind(), ErrorKind::kCorrupt) << kept;
}

TEST_F(OnnxImportTest, InputsThatDoNotFitTheNodesAreNamed) {
  ModelProto model = small_model();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  add_info(*model.mutable_graph()->mutable_input(0), "x", {-1, -1});
  const Servable loaded(write(model));
  EXPECT_THAT(error_of([&] {
                (void)loaded.run(kServingDefault, {{"x", torch::ones({2, 5})}});
              }).message(),
              HasSubstr("\"product\" (MatMul)"));
}

TEST_F(OnnxImportTest, ALoopRunsItsBody) {
  // s = x, then s = s + s, three times; the sums are also a list.
  ModelProto model = small_model();
  GraphProto& graph = *model.mutable_graph();
  graph.clear_node();
  graph.clear_initializer();
  graph.clear_output();
  add_weight(graph, "three", torch::tensor(int64_t{3}));
  NodeProto& loop = add_node(graph, "Loop", {"three", "", "x"}, {"last", "all"});
  auto* body = loop.add_attribute();
  body->set_name("body");
  body->set_type(::onnx::AttributeProto::GRAPH);
  GraphProto& inner = *body->mutable_g();
  for (const char* name : {"step", "more", "s"}) inner.add_input()->set_name(name);
  add_node(inner, "Add", {"s", "s"}, {"sum"});
  add_node(inner, "Identity", {"more"}, {"still"});
  for (const char* name : {"still", "sum", "sum"}) inner.add_output()->set_name(name);
  add_info(*graph.add_output(), "last", {-1, 3});
  add_info(*graph.add_output(), "all", {3, -1, 3});
  const auto outputs = Servable(write(model)).run(kServingDefault, {{"x", torch::ones({2, 3})}});
  EXPECT_TRUE(outputs.at("last").equal(torch::full({2, 3}, 8.0F)));
  EXPECT_TRUE(outputs.at("all").select(0, 1).equal(torch::full({2, 3}, 4.0F)));
}

}  // namespace
}  // namespace muster::inline v0_1::onnx
