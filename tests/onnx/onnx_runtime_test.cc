// Exports as ONNX compute in onnxruntime what Muster computes. Needs ./dev peers onnx; ./dev check
// onnx looks at more models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/export/write_servable.h"
#include "muster/files/file_systems.h"
#include "muster/keras/model.h"
#include "muster/layers/dense.h"
#include "muster/layers/functional.h"
#include "muster/onnx/onnx_model.h"
#include "muster/tensor/libtorch.h"
#include "tests/onnx/exported_cases.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

std::string source_dir() { return Environment::process().get("MUSTER_SOURCE_DIR").value_or("."); }

class OnnxRuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!file_systems().exists(python_).value())
      GTEST_SKIP() << python_ << " is not here: ./dev peers onnx makes it";
  }

  // Converts the export in a folder.
  static void convert(const std::string& folder) {
    (void)onnx::export_onnx(file_systems(), folder, join_path(folder, "model.onnx"));
    write_batches(folder);
  }

  // Compares the models in all folders below `directory_`.
  void expect_same_numbers() const {
    const std::string log = directory_ / "log.txt";
    const std::string command = "'" + python_ + "' '" + source_dir() +
                                "/tools/peers/onnx_files.py' '" + directory_.path() + "' >'" + log +
                                "' 2>&1";
    const int status = std::system(command.c_str());
    EXPECT_EQ(status, 0) << file_systems().read_file(log).value();
  }

  const std::string python_ = join_path(source_dir(), "build/peers/onnx/bin/python");
  const TempDirectory directory_;
};

TEST_F(OnnxRuntimeTest, LayersComputeTheSame) {
  std::vector<ExportedCase> cases =
      layer_cases(join_path(source_dir(), "tests/peers/golden/layers"));
  std::ranges::move(libtorch_cases(), std::back_inserter(cases));
  for (const ExportedCase& exported : cases) {
    SCOPED_TRACE(exported.name);
    const std::string folder = directory_ / exported.name;
    file_systems().make_directories(folder).value();
    write_servable(file_systems(), folder, exported.source);
    convert(folder);
  }
  expect_same_numbers();
}

TEST_F(OnnxRuntimeTest, ModelsComputeTheSame) {
  for (const char* name :
       {"gpt_of_any_length", "steps_of_any_number", "images_of_any_size", "wide_and_deep",
        "rnn_gru", "kmeans", "trees_regressor", "trees_2_classes", "trees_3_classes"}) {
    SCOPED_TRACE(name);
    convert(export_one_model(name, directory_ / name));
  }
  expect_same_numbers();
}

TEST(OnnxFormatTest, AKerasModelIsSavedAsOneFile) {
  const TempDirectory directory;
  const SymbolicTensor x = Input({3}, {.name = "x"});
  keras::Model model(Functional({x}, {Dense(2)(x)}));
  const std::string exported = model.export_model(directory / "export", {"onnx"});
  const std::string path = directory / "dense.onnx";
  model.save(path);
  EXPECT_EQ(file_systems().read_file(path).value(),
            file_systems().read_file(exported + "/model.onnx").value());
  // Nothing else is left there.
  EXPECT_THAT(file_systems().list_directory(directory.path()).value(),
              ::testing::ElementsAre("dense.onnx", "export"));
  EXPECT_THAT(error_of([&] { model.load(path); }).message(), HasSubstr("not supported: load:"));
}

TEST(OnnxFormatTest, AKerasModelIsSavedAsASavedModel) {
  const TempDirectory directory;
  const SymbolicTensor x = Input({3}, {.name = "x"});
  keras::Model model(Functional({x}, {Dense(2)(x)}));
  const std::string exported = model.export_model(directory / "export", {"saved_model"});
  model.save(directory / "served/1/saved_model.pb");
  for (const char* file :
       {"saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"}) {
    EXPECT_EQ(file_systems().read_file(join_path(directory / "served/1", file)).value(),
              file_systems().read_file(join_path(exported, file)).value())
        << file;
  }
  EXPECT_THAT(file_systems().list_directory(directory / "served/1").value(),
              ::testing::UnorderedElementsAre("saved_model.pb", "variables"));
}

}  // namespace
}  // namespace muster::inline v0_1
