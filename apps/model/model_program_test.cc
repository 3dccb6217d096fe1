// `muster export onnx` and `muster inspect model` as commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/muster/run_muster.h"
#include "muster/base/temp_directory.h"
#include "muster/export/write_servable.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

// Writes the version 7 of a model into the folder.
void write_export(const std::string& folder) {
  const Tensor weight = torch::ones({4, 2});
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

TEST(ModelProgramTest, AFolderWithoutAnExportIsNamed) {
  const TempDirectory directory;
  const ShellOutput ran =
      run_muster("export onnx " + directory.path() + " " + (directory / "m.onnx"));
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, HasSubstr("holds no exported model"));
  EXPECT_FALSE(local_file_system().exists(directory / "m.onnx").value());
}

}  // namespace
}  // namespace muster::app
