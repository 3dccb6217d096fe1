// LibTorch reads an Estimator's export without Muster, and computes the same with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::two_layers;

TEST(ExportTorchTest, LibTorchComputesTheSameWithIt) {
  const TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"), {{"optimizer", "adam"}});
  const Error early = error_of([&] { estimator.export_torch(directory / "out.pt"); });
  EXPECT_EQ(early.kind(), ErrorKind::kNotFound);
  estimator.train(shuffled_batches(64, 8), {.max_steps = 20});
  const auto exported = estimator.export_torch(directory / "out.pt");
  ASSERT_EQ(exported.size(), 4u);
  EXPECT_EQ(exported[1].torch_name, "dense.weight");

  const std::string bytes = local_file_system().read_file(directory / "out.pt").value();
  const auto state = torch::jit::pickle_load({bytes.begin(), bytes.end()}).toGenericDict();
  ASSERT_EQ(state.size(), 4u);
  const auto weight = [&](const char* name) { return state.at(name).toTensor(); };
  std::optional<Prediction> given;
  const PredictOptions whole{.yield_single_examples = false};
  ASSERT_TRUE(
      (given = estimator.predict([] { return testing::examples(16).batch(16); }, whole).next()));
  std::optional<Element> batch;
  ASSERT_TRUE(batch = testing::examples(16).batch(16).iterator()->next());
  const Tensor x = batch->part(0).at("x").value().tensor();
  const Tensor hidden = torch::linear(x, weight("dense.weight"), weight("dense.bias")).relu();
  const Tensor logits = torch::linear(hidden, weight("dense_1.weight"), weight("dense_1.bias"));
  EXPECT_TRUE(logits.allclose(given->at("logits"), 1e-5, 1e-6));

  // An earlier checkpoint, and a missing one.
  estimator.export_torch(directory / "early.pt", directory / "m/model.ckpt-10");
  EXPECT_NE(local_file_system().read_file(directory / "early.pt").value(), bytes);
  EXPECT_THAT(error_of([&] {
                estimator.export_torch(directory / "x.pt", directory / "m/model.ckpt-11");
              }).message(),
              HasSubstr("model.ckpt-11"));
}

}  // namespace
}  // namespace muster::inline v0_1
