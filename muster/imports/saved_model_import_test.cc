#include "muster/imports/saved_model_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/export/servable.h"
#include "muster/imports/internal/small_saved_model.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::saved_model {
namespace {

using imports::small_function;
using imports::small_model;
using imports::small_tensor;
using imports::small_type;
using imports::SmallModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SavedModelImportTest : public ::testing::Test {
 protected:
  std::string write(const std::string& bytes) const {
    local_file_system().make_directories(folder_).value();
    local_file_system().write_atomically(folder_ + "/saved_model.pb", bytes).value();
    return folder_;
  }
  std::string write(const SmallModel& model) const { return write(model.bytes()); }
  Error error_of_model(const SmallModel& model) const { return error_of_bytes(model.bytes()); }
  Error error_of_bytes(const std::string& bytes) const {
    write(bytes);
    return error_of([&] { (void)load_model(local_file_system(), folder_); });
  }
  // y = x w, with w as a variable, without its checkpoint.
  static SmallModel model_of_variable(const std::string& shape_attribute = "") {
    SmallModel model;
    model.nodes = {{"x", "Placeholder"},
                   {"w", "VarHandleOp", {}, {{"dtype", small_type(1)}}},
                   {"read", "ReadVariableOp", {"w"}},
                   {"y", "MatMul", {"x", "read"}}};
    if (!shape_attribute.empty()) model.nodes[1].attributes.emplace_back("shape", shape_attribute);
    return model;
  }
  void write_variable(const std::string& name, tensorflow::BundleDtype dtype) const {
    const std::string prefix = folder_ + "/variables/variables";
    local_file_system().make_directories(folder_ + "/variables").value();
    tensorflow::BundleWriter writer(local_file_system(), prefix);
    const std::vector<float> numbers{1, 2, 3, 4};
    writer.add(name, dtype, {2, 2}, std::as_bytes(std::span(numbers)));
    writer.end();
  }

  const TempDirectory directory_;
  const std::string folder_ = directory_ / "7";
};

TEST_F(SavedModelImportTest, AServableRunsAFolder) {
  const Servable model(write(small_model()));
  const Tensor x = torch::tensor({{2.0F, 3.0F}, {-4.0F, -5.0F}});
  const auto outputs = model.run(kServingDefault, {{"x", x}});
  EXPECT_TRUE(outputs.at("y").equal(torch::tensor({{2.0F, 0.0F}, {0.0F, 5.0F}})));
  EXPECT_EQ(model.signature(kServingDefault).inputs.at("x").describe(), "float32[-1, 2]");
  EXPECT_EQ(model.version(), 7);
}

TEST_F(SavedModelImportTest, VariablesAreWeightsByName) {
  write(model_of_variable());
  write_variable("w", tensorflow::BundleDtype::kFloat);
  const SavedModel model = load_model(local_file_system(), folder_);
  EXPECT_TRUE(model.weights.at("w").equal(torch::tensor({{1.0F, 2.0F}, {3.0F, 4.0F}})));
  EXPECT_EQ(model.inputs.at(0).first, "x");
  EXPECT_EQ(model.outputs.at(0).second.describe(), "float32[-1, 2]");
}

TEST_F(SavedModelImportTest, VariablesThatAreNotThereAreNamed) {
  Error error = error_of_model(model_of_variable());
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("variables.index"), HasSubstr("\"w\"")));
  // A name of a folder is a name of a tensor, and no path.
  SmallModel model = model_of_variable();
  model.nodes[1].name = "../../w";
  model.nodes[2].inputs = {"../../w"};
  write_variable("w", tensorflow::BundleDtype::kFloat);
  error = error_of_model(model);
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("no tensor \"../../w\""));
}

TEST_F(SavedModelImportTest, OtherDtypesAndShapesOfVariablesAreCorrupt) {
  write(model_of_variable());
  write_variable("w", tensorflow::BundleDtype::kInt32);
  Error error = error_of([&] { (void)load_model(local_file_system(), folder_); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("int32[2, 2] in the checkpoint, and float32"));
  imports::SmallMessage shape;
  shape.put_bytes(imports::SmallField::k7, formats::internal::encode_shape({3, 2}));
  write_variable("w", tensorflow::BundleDtype::kFloat);
  error = error_of_model(model_of_variable(shape.bytes()));
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("[3, 2] in the graph"));
}

TEST_F(SavedModelImportTest, WhatIsNotRunIsNamed) {
  SmallModel model = small_model();
  model.functions[0].nodes[0].operation = "Betainc";
  Error error = error_of_model(model);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("not supported: SavedModel"), HasSubstr("\"out\" (Betainc)")));
  model = small_model();
  model.input_dtype = 7;
  EXPECT_THAT(error_of_model(model).message(), HasSubstr("the input \"x\""));
  model = small_model();
  model.nodes[1].operation = "Merge";
  EXPECT_THAT(error_of_model(model).message(), HasSubstr("a loop or a branch of version 1"));
  model = small_model();
  model.functions[0].nodes.push_back({"assign", "AssignVariableOp", {"a", "a"}});
  EXPECT_THAT(error_of_model(model).message(), HasSubstr("changes a variable"));
  // What no output needs may be anything.
  model = small_model();
  model.nodes.push_back({"z", "Betainc", {"x"}});
  write(model);
  EXPECT_EQ(load_model(local_file_system(), folder_).outputs.size(), 1U);
}

TEST_F(SavedModelImportTest, FunctionsThatCallThemselvesAreCorrupt) {
  SmallModel model = small_model();
  model.functions[0].nodes[0] = {"out", "PartitionedCall", {"a"}, {{"f", small_function("f")}}};
  Error error = error_of_model(model);
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("\"f\" calls itself"));
  // Each of 30 functions calls the next one four times.
  model = {.nodes = {{"x", "Placeholder"}, {"y", "f0", {"x"}}}};
  for (int i = 0; i < 30; ++i) {
    const std::string next = "f" + std::to_string(i + 1);
    imports::SmallFunction function{"f" + std::to_string(i), {}, "n3:r:0"};
    for (int call = 0; call < 4; ++call)
      function.nodes.push_back({"n" + std::to_string(call),
                                next,
                                {call == 0 ? "a" : "n" + std::to_string(call - 1) + ":r:0"}});
    model.functions.push_back(function);
  }
  model.functions.push_back({"f30", {}, "a"});
  error = error_of_model(model);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("call each other so often"));
}

TEST_F(SavedModelImportTest, GraphsThatContradictThemselvesAreCorrupt) {
  const auto expect_corrupt = [&](const SmallModel& model, const char* what) {
    const Error error = error_of_model(model);
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(what));
  };
  SmallModel model = small_model();
  model.functions[0].nodes[1].inputs[0] = "out:activations:0";
  expect_corrupt(model, "made of its own result");
  model = small_model();
  model.functions[0].nodes[1].inputs.pop_back();
  expect_corrupt(model, "has 1 inputs, it needs 2");
  model = small_model();
  model.functions[0].nodes[1].inputs[1] = "v:output:0";
  expect_corrupt(model, "there is no node \"v\"");
  model = small_model();
  model.functions[0].name = "g";
  expect_corrupt(model, "calls a function that is not there");
  model = small_model();
  model.nodes[1].inputs.emplace_back("x");
  expect_corrupt(model, "takes 1 arguments, 2 are given");
  model = small_model();
  model.functions[0].nodes[2].attributes = {{"value", small_tensor({1}, {1, 2, 3})}};
  expect_corrupt(model, "more numbers than its shape");
  model = small_model();
  model.output = "y:99999999";
  expect_corrupt(model, "names no result");
  const std::string bytes = small_model().bytes();
  const Error error = error_of_bytes(bytes.substr(0, bytes.size() - 9));
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("is not a SavedModel, or it is cut off"));
}

TEST_F(SavedModelImportTest, LargeConstantsOfFewNumbersTakeNoMemory) {
  SmallModel model = small_model();
  model.functions[0].nodes[2].attributes = {
      {"value", small_tensor({int64_t{1} << 40, 2}, {1, 2, 3})}};
  EXPECT_THAT(error_of_model(model).message(), HasSubstr("a constant of 3 numbers"));
  model.functions[0].nodes[2].attributes = {{"value", small_tensor({int64_t{1} << 40, 2}, {1})}};
  write(model);
  EXPECT_EQ(load_model(local_file_system(), folder_).outputs.size(), 1U);
}

TEST_F(SavedModelImportTest, AnUnknownSignatureIsNamed) {
  write(small_model());
  const Error error = error_of(
      [&] { (void)load_model(local_file_system(), folder_, {.signature = "serving_defalt"}); });
  EXPECT_THAT(error.message(), HasSubstr("serving_defalt"));
}

}  // namespace
}  // namespace muster::inline v0_1::saved_model
