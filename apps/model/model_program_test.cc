// `muster export onnx`, `muster inspect model` and `muster diff` of models as commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/muster/run_muster.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/export/write_servable.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

// Writes the version 7 of a model into the folder: x times a matrix of `number`.
void write_export(const std::string& folder, double number = 1) {
  const Tensor weight = torch::full({4, 2}, number);
  local_file_system().make_directories(folder + "/7").value();
  write_servable(
      local_file_system(), folder + "/7",
      {.function =
           [weight](const auto& features) {
             return std::map<std::string, ExportOutput>{
                 {kServingDefault, PredictOutput({{"y", features.at("x").matmul(weight)}})}};
           },
       .receiver = raw_serving_input_receiver({{"x", {kFloat32, {4}}}}),
       .weights = {{"dense/kernel", weight}}});
}

TEST(ModelProgramTest, AnExportBecomesAFileThatIsShown) {
  const TempDirectory directory;
  write_export(directory.path());
  const std::string file = directory / "m.onnx";
  const ShellOutput made = run_muster("export onnx " + directory.path() + " " + file);
  EXPECT_EQ(made.code, 0) << made.text;
  EXPECT_THAT(made.text, HasSubstr("wrote " + file));
  const ShellOutput shown = run_muster("inspect model " + file);
  EXPECT_EQ(shown.code, 0) << shown.text;
  EXPECT_THAT(shown.text, HasSubstr("float32[batch, 4]"));
}

TEST(ModelProgramTest, AnExportBecomesASavedModelThatIsShown) {
  const TempDirectory directory;
  write_export(directory.path());
  const std::string folder = directory / "served/1";
  const ShellOutput made = run_muster("export saved_model " + directory.path() + " " + folder);
  EXPECT_EQ(made.code, 0) << made.text;
  EXPECT_THAT(made.text, HasSubstr("wrote " + folder + "/saved_model.pb"));
  const ShellOutput shown = run_muster("inspect model " + folder);
  EXPECT_EQ(shown.code, 0) << shown.text;
  EXPECT_THAT(shown.text, HasSubstr("float32[-1, 4]"));
}

TEST(ModelProgramTest, AFolderWithoutAnExportIsNamed) {
  const TempDirectory directory;
  const ShellOutput ran =
      run_muster("export onnx " + directory.path() + " " + (directory / "m.onnx"));
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("holds no exported model"));
  EXPECT_FALSE(local_file_system().exists(directory / "m.onnx").value());
}

TEST(ModelProgramTest, ModelsAreCompared) {
  const TempDirectory directory;
  const std::string a = directory / "a", b = directory / "b", file = directory / "m.onnx";
  write_export(a);
  write_export(b, 1.5);
  ASSERT_EQ(run_muster("export onnx " + a + " " + file).code, 0);
  const ShellOutput same = run_muster("diff " + a + " " + file);
  EXPECT_EQ(same.code, 0) << same.text;
  EXPECT_THAT(same.text, HasSubstr("the models are equal on 8 rows"));
  const ShellOutput differ = run_muster("diff " + file + " " + b + " --rows=3");
  EXPECT_EQ(differ.code, 1) << differ.text;
  EXPECT_THAT(differ.text, HasSubstr("the models differ on 3 rows"));
  EXPECT_EQ(run_muster("diff " + a + " " + b + " --tolerance=1").code, 0);
  const std::string saved = directory / "saved";
  ASSERT_EQ(run_muster("export saved_model " + a + " " + saved).code, 0);
  const ShellOutput third = run_muster("diff " + a + " " + saved);
  EXPECT_EQ(third.code, 0) << third.text;
  EXPECT_THAT(third.text, HasSubstr("the models are equal on 8 rows"));
}

// The two columns of the output are equal, so the model says 0 for each row.
TEST(ModelProgramTest, AnExportWithFewerBitsShowsTheAccuracyOnData) {
  const TempDirectory directory;
  write_export(directory / "a");
  const std::string rows = directory / "rows.safetensors";
  write_checkpoint(
      local_file_system(), rows,
      {.tensors = {{"x", torch::rand({4, 4})}, {"label", torch::tensor({0, 1, 0, 0}, at::kLong)}}});
  const std::string command = "export onnx " + (directory / "a") + " " + (directory / "m.onnx") +
                              " --weights=int8 --data=" + rows;
  const ShellOutput ran = run_muster(command + " --label=label");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("y: accuracy 0.75 before, 0.75 after, 4 rows"));
  const ShellOutput unknown = run_muster(command + " --label=lable");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.text, HasSubstr("has no array \"lable\""));
  EXPECT_THAT(run_muster(command).text, HasSubstr("--data and --label belong together"));
}

TEST(ModelProgramTest, ModelsAreComparedOnGivenInputs) {
  const TempDirectory directory;
  const std::string a = directory / "a", b = directory / "b", rows = directory / "rows.safetensors";
  write_export(a);
  write_export(b, 1.5);
  write_checkpoint(local_file_system(), rows, {.tensors = {{"x", torch::full({2, 4}, 2.0F)}}});
  const ShellOutput ran = run_muster("diff " + a + " " + b + " --json --input=" + rows);
  EXPECT_EQ(ran.code, 1);
  // 4 numbers of 2, times 1 and 1.5.
  EXPECT_THAT(ran.text, HasSubstr("\"absolute\": 4.0"));
  EXPECT_THAT(ran.text, HasSubstr("\"rows\": 2"));
}

TEST(ModelProgramTest, WhatCannotBeComparedIsNamed) {
  const TempDirectory directory;
  const std::string a = directory / "a";
  write_export(a);
  const ShellOutput none = run_muster("diff " + a + " " + (directory / "none.onnx"));
  EXPECT_EQ(none.code, 2) << none.text;
  local_file_system().write_atomically(directory / "bad.onnx", "words").value();
  const ShellOutput bad = run_muster("diff " + a + " " + (directory / "bad.onnx"));
  EXPECT_EQ(bad.code, 2) << bad.text;
  EXPECT_THAT(bad.text, HasSubstr("is not an ONNX model"));
}

}  // namespace
}  // namespace muster::app
