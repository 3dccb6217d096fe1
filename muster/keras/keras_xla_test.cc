// fit() on the CPU device of XLA. MUSTER_PYTHON names the Python with the packages; without it
// these tests are skipped. `./dev check xla` builds and runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/keras/testing/test_models.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dropout.h"
#include "muster/tensor/device.h"

namespace muster::inline v0_1::keras {
namespace {

using distribute::mirrored;
using distribute::one_device;
using testing::alone;
using testing::compiled;
using testing::difference;
using testing::points;
using testing::rows_of;
using testing::settings;
using testing::weights_of;

// A step's sums are made in another order there. Float32 rounds at 6e-8, and ten steps of a small
// model amplify this.
constexpr double kRounding = 1e-5;

class KerasXlaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // These tests need torch_xla, and a LibTorch of its version.
    if (std::getenv("MUSTER_PYTHON") == nullptr)
      GTEST_SKIP() << "MUSTER_PYTHON is not set: ./dev check xla runs this with the packages";
    setenv("PJRT_DEVICE", "CPU", /*overwrite=*/0);
    setenv("CPU_NUM_DEVICES", "2", /*overwrite=*/1);
    // LibTorch's threads for gradients know the devices that were there at the first backward().
    parse_device("xla:0");
  }

  static History fit(Model& model) {
    return model.fit(
        rows_of(53).shuffle(53).batch(12),
        {.epochs = 2, .validation_data = rows_of(20, 99).batch(8), .verbose = Verbose::kSilent});
  }

  TempDirectory folder_;
};

TEST_F(KerasXlaTest, FitsWhatTheCpuFits) {
  Model here = compiled(one_device());
  const History expected = fit(here);
  for (const auto& strategy : {one_device("xla:0"), mirrored({.devices = {"xla"}})}) {
    Model there = compiled(strategy);
    const History history = fit(there);
    EXPECT_LT(difference(weights_of(there), weights_of(here)), kRounding);
    for (const char* name : {"loss", "accuracy", "val_loss", "val_accuracy"}) {
      for (size_t e = 0; e < 2; ++e) EXPECT_NEAR(history[name][e], expected[name][e], kRounding);
    }
    const Tensor x = points(7, 3).x;
    const Tensor logits = there.predict(x);
    EXPECT_TRUE(logits.is_cpu());
    EXPECT_TRUE(logits.allclose(here.predict(x), kRounding, kRounding));
  }
}

// Layers with statistics and with random numbers.
TEST_F(KerasXlaTest, NormalizesAndDropsAsTheCpuDoes) {
  const auto trained = [](const distribute::StrategyPtr& strategy) {
    Model model(Sequential({Dense(8), BatchNormalization(), Dropout(0.3), Dense(2)}),
                alone(strategy));
    model.compile(settings("sgd"));
    fit(model);
    return weights_of(model);
  };
  EXPECT_LT(difference(trained(one_device("xla:0")), trained(one_device())), kRounding);
}

TEST_F(KerasXlaTest, WeightsAndExportsAreForTheCpu) {
  Model there = compiled(one_device("xla:0"));
  fit(there);
  const Tensor x = points(7, 3).x;
  const Tensor logits = there.predict(x);

  there.save_weights(folder_ / "w.safetensors");
  Model here = compiled(one_device());
  here.build({4});
  here.load_weights(folder_ / "w.safetensors");
  EXPECT_TRUE(here.predict(x).allclose(logits, kRounding, kRounding));

  const Servable served(there.export_model(folder_ / "export"));
  const auto& signature = served.signature(kServingDefault);
  const auto outputs = served.run(kServingDefault, {{signature.inputs.begin()->first, x}});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_TRUE(outputs.begin()->second.allclose(logits, kRounding, kRounding));

  // The same model goes on there, with weights that came back.
  there.load_weights(folder_ / "w.safetensors");
  fit(there);
  EXPECT_EQ(there.step(), 20);
}

}  // namespace
}  // namespace muster::inline v0_1::keras
