#include "muster/tensorflow/tensorflow_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/bundles/export_bundle.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/bundles/variable_names.h"
#include "muster/checkpoint/manager.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using tensorflow::export_bundle;
using tensorflow::open_tensorflow_checkpoint;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

FileSystem& files() { return local_file_system(); }

std::string golden(const std::string& name) {
  return join_path(Environment::process().get("MUSTER_SOURCE_DIR").value(),
                   "muster/tensorflow/golden/" + name);
}

// The values that TensorFlow read from the checkpoint it wrote.
json expected_of(const std::string& folder) {
  return json::parse(files().read_file(join_path(folder, "expected.json")).value());
}

std::unique_ptr<CheckpointReader> open_golden(const std::string& name) {
  const std::string folder = golden(name);
  return open_tensorflow_checkpoint(
      files(), join_path(folder, expected_of(folder).at("prefix").get<std::string>()));
}

Tensor tensor_of(const json& expected) {
  const auto shape = expected.at("shape").get<std::vector<int64_t>>();
  const auto dtype = expected.at("dtype").get<std::string>();
  if (dtype.starts_with("complex")) {
    const auto pairs = expected.at("values").get<std::vector<std::vector<double>>>();
    std::vector<c10::complex<double>> values;
    for (const auto& pair : pairs) values.emplace_back(pair[0], pair[1]);
    return torch::tensor(values).view(shape);
  }
  if (dtype.starts_with("int") || dtype.starts_with("uint") || dtype == "bool")
    return torch::tensor(expected.at("values").get<std::vector<int64_t>>(), at::kLong).view(shape);
  return torch::tensor(expected.at("values").get<std::vector<double>>(), at::kDouble).view(shape);
}

// Checkpoints that TensorFlow wrote by its Estimators: names of ours, values of theirs.
class Goldens : public ::testing::TestWithParam<const char*> {};

TEST_P(Goldens, HaveTheValuesThatTensorFlowReads) {
  const json expected = expected_of(golden(GetParam())).at("tensors");
  const auto reader = open_golden(GetParam());
  std::set<std::string> theirs;
  for (const auto& [name, tensor] : expected.items()) {
    if (tensor.at("dtype") != "string") theirs.insert(name);
  }
  size_t compared = 0;
  const auto specs = reader->specs();
  for (const auto& [name, here] : tensorflow::muster_names(theirs)) {
    const Tensor read = reader->read(here);
    const Tensor wanted = tensor_of(expected.at(name));
    EXPECT_EQ(read.sizes(), wanted.sizes()) << name;
    EXPECT_TRUE(read.to(wanted.scalar_type()).equal(wanted)) << name;
    EXPECT_EQ(specs.at(here), (TensorSpec{read.sizes().vec(), read.scalar_type()})) << name;
    if (read.dim() > 0 && read.size(0) > 1) {
      EXPECT_TRUE(reader->read_rows(here, 1, read.size(0)).equal(read.slice(0, 1, read.size(0))))
          << name;
    }
    ++compared;
  }
  EXPECT_GE(compared, 3u);
  reader->verify();
}

INSTANTIATE_TEST_SUITE_P(All, Goldens,
                         ::testing::Values("dtypes", "partitioned", "estimator_adagrad",
                                           "estimator_adam", "estimator_ftrl", "estimator_rmsprop",
                                           "estimator_linear_and_deep"));

TEST(TensorflowCheckpoint, KnowsTheSlotsOfEstimators) {
  const auto adam = open_golden("estimator_adam");
  EXPECT_EQ(adam->header().global_step, 5);
  EXPECT_THAT(adam->names(),
              IsSupersetOf({"dnn/hiddenlayer_0/kernel", "Adam/m/dnn/hiddenlayer_0/kernel",
                            "Adam/v/dnn/hiddenlayer_0/kernel", "Adam/iterations", "global_step"}));
  EXPECT_THAT(adam->names(), Not(Contains(HasSubstr("beta1_power"))));
  EXPECT_EQ(adam->read("Adam/iterations").item<int64_t>(), 5);
  const auto both = open_golden("estimator_linear_and_deep");
  EXPECT_THAT(both->names(), IsSupersetOf({"Ftrl/linear/linear/linear_model/c/weights",
                                           "Adagrad/accumulator/dnn/logits/bias", "Ftrl/iterations",
                                           "Adagrad/iterations"}));
}

TEST(TensorflowCheckpoint, KnowsTheVariablesOfKerasByTheirNames) {
  for (const char* name : {"keras_adam", "keras_legacy_adam"}) {
    const auto reader = open_golden(name);
    EXPECT_THAT(reader->names(), IsSupersetOf({"first/kernel", "last/bias", "Adam/m/first/kernel",
                                               "Adam/v/last/bias", "Adam/iterations"}))
        << name;
    EXPECT_EQ(reader->read("Adam/iterations").item<int64_t>(), 4) << name;
    EXPECT_EQ(reader->read("first/kernel").sizes(), (std::vector<int64_t>{2, 3})) << name;
  }
  EXPECT_THAT(open_golden("keras_sgd")->names(),
              IsSupersetOf({"first/kernel", "SGD/momentum/first/kernel", "SGD/iterations"}));
}

TEST(TensorflowCheckpoint, IsFoundWhereverACheckpointIsNamed) {
  const std::string folder = golden("estimator_adagrad");
  EXPECT_EQ(open_checkpoint(files(), folder + "/model.ckpt-5")->header().global_step, 5);
  EXPECT_EQ(CheckpointManager(folder).latest(), folder + "/model.ckpt-5");
  const auto loaded = CheckpointManager(folder).load_latest();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->checkpoint.global_step, 5);
  EXPECT_TRUE(loaded->checkpoint.tensors.contains("dnn/logits/bias"));
}

// Later checkpoints are saved next to it, and no file of TensorFlow's is deleted.
TEST(TensorflowCheckpoint, StaysWhereARunSavesIntoItsFolder) {
  const TempDirectory directory;
  const std::string from = golden("estimator_adagrad");
  for (const std::string& name : files().list_directory(from).value()) {
    ASSERT_TRUE(files()
                    .write_atomically(join_path(directory.path(), name),
                                      files().read_file(join_path(from, name)).value())
                    .ok());
  }
  CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 1});
  for (const int64_t step : {6, 7, 8}) manager.save({.global_step = step});
  EXPECT_EQ(manager.latest(), directory.path() + "/model.ckpt-8");
  EXPECT_THAT(files().list_directory(directory.path()).value(),
              IsSupersetOf({"model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001",
                            "model.ckpt-8.safetensors"}));
}

// A checkpoint of Muster with the tensors of a golden one.
std::string save_as_ours(const CheckpointReader& reader, const std::string& folder) {
  Checkpoint checkpoint = reader.header();
  for (const std::string& name : reader.names()) {
    if (name != kGlobalStep) checkpoint.tensors[name] = reader.read(name);
  }
  return checkpoint_file(CheckpointManager(folder).save(checkpoint));
}

TEST(ExportBundle, GivesTheNamesOfVersion1) {
  for (const char* name : {"estimator_adam", "estimator_rmsprop", "estimator_linear_and_deep"}) {
    const TempDirectory directory;
    const auto first = open_golden(name);
    const std::string prefix = directory / "export/theirs";
    const auto written = export_bundle(files(), save_as_ours(*first, directory.path()), prefix);
    EXPECT_EQ(written.size(),
              first->names().size() - (name == std::string("estimator_linear_and_deep") ? 2 : 1));
    const auto second = open_tensorflow_checkpoint(files(), prefix);
    EXPECT_EQ(second->specs(), first->specs()) << name;
    for (const std::string& tensor : first->names())
      EXPECT_TRUE(second->read(tensor).equal(first->read(tensor))) << name << ": " << tensor;
  }
}

TEST(ExportBundle, DoesNotReplaceTheStateOfARun) {
  const TempDirectory directory;
  const std::string file = save_as_ours(*open_golden("estimator_adam"), directory.path());
  const Error error =
      error_of([&] { (void)export_bundle(files(), file, directory / "model.ckpt-9"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.hint(), HasSubstr("another folder"));
  EXPECT_EQ(CheckpointManager(directory.path()).latest(), directory / "model.ckpt-5");
}

// With a checkpoint of TensorFlow's as the model every key exists, and also variables that Muster
// does not keep.
TEST(ExportBundle, GivesTheKeysOfACheckpointThatTensorFlowWrote) {
  for (const char* name : {"estimator_adam", "estimator_linear_and_deep", "keras_adam",
                           "keras_legacy_adam", "keras_sgd"}) {
    const TempDirectory directory;
    const auto first = open_golden(name);
    Checkpoint later = first->header();
    for (const std::string& tensor : first->names()) {
      if (tensor != kGlobalStep) later.tensors[tensor] = first->read(tensor) + 1;
    }
    later.global_step = 9;
    const std::string file = checkpoint_file(CheckpointManager(directory.path()).save(later));
    const std::string folder = golden(name), prefix = directory / "export/theirs";
    const std::string like = join_path(folder, expected_of(folder).at("prefix").get<std::string>());
    (void)export_bundle(files(), file, prefix, {.like = like});
    const tensorflow::BundleReader theirs(files(), like), ours(files(), prefix);
    ASSERT_EQ(ours.entries().size(), theirs.entries().size()) << name;
    for (const auto& [key, entry] : theirs.entries()) {
      EXPECT_EQ(ours.entries().at(key).shape, entry.shape) << key;
      EXPECT_EQ(ours.entries().at(key).dtype, entry.dtype) << key;
    }
    const auto second = open_tensorflow_checkpoint(files(), prefix);
    for (const auto& [tensor, value] : later.tensors) {
      if (tensor.ends_with("/iterations")) continue;
      EXPECT_TRUE(second->read(tensor).equal(value)) << name << ": " << tensor;
    }
  }
}

TEST(ExportBundle, AnotherModelIsRefusedWithAllThatDiffers) {
  const TempDirectory directory;
  const std::string file = save_as_ours(*open_golden("estimator_adam"), directory.path());
  const Error error = error_of([&] {
    (void)export_bundle(files(), file, directory / "export/theirs",
                        {.like = golden("estimator_ftrl/model.ckpt-5")});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              HasSubstr("missing: 'Ftrl/linear/dnn/logits/kernel', float32[4, 1]"));
  EXPECT_FALSE(files().exists(directory / "export/theirs.index").value());
}

TEST(TensorflowCheckpoint, OfVersion1OrNoneIsRefused) {
  const TempDirectory directory;
  const std::string prefix = join_path(directory.path(), "model.ckpt-9");
  EXPECT_EQ(error_of([&] { (void)open_tensorflow_checkpoint(files(), prefix); }).kind(),
            ErrorKind::kNotFound);
  ASSERT_TRUE(files().write_atomically(prefix, std::string_view("a table")).ok());
  const Error error = error_of([&] { (void)open_tensorflow_checkpoint(files(), prefix); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("version 1"));
  EXPECT_THAT(error.hint(), HasSubstr("SaverDef.V2"));
}

TEST(TensorflowCheckpoint, ANameThatIsNotThereNamesTheNearest) {
  const Error error =
      error_of([] { (void)open_golden("estimator_adam")->read("dnn/logits/kernal"); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.hint(), HasSubstr("dnn/logits/kernel"));
}

}  // namespace
}  // namespace muster::inline v0_1
