#include "muster/estimator/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::kFeatures;

class PredictorTest : public ::testing::Test {
 protected:
  PredictorTest()
      : estimator_(testing::two_layers, testing::quiet_config(directory_ / "m"),
                   {{"optimizer", "sgd"}}) {}
  void train_to(int64_t step) {
    estimator_.train(testing::shuffled_batches(64, 8), {.max_steps = step});
  }
  void export_model() {
    estimator_.export_model(directory_ / "export",
                            raw_serving_input_receiver({{"x", {kFloat32, {kFeatures}}}}));
  }
  Tensor expected(const std::string& name) {
    std::optional<Prediction> given;
    EXPECT_TRUE((given = estimator_
                             .predict([] { return testing::examples(16).batch(16); },
                                      {.yield_single_examples = false})
                             .next()));
    return given->at(name);
  }
  Tensor rows() {
    std::optional<Element> batch;
    EXPECT_TRUE(batch = testing::examples(16).batch(16).iterator()->next());
    return batch->part(0).at("x").value().tensor();
  }
  // A batch, and single examples.
  void check(const Predictor& predictor) {
    const Tensor x = rows(), logits = expected("logits");
    EXPECT_TRUE(predictor.predict_batch({{"x", x}}).at("logits").allclose(logits, 1e-4, 1e-5));
    const auto one = predictor.predict({{"x", x[3]}});
    EXPECT_TRUE(one.at("logits").allclose(logits[3], 1e-4, 1e-5));
    EXPECT_EQ(one.at("class").dim(), 0);
  }

  const TempDirectory directory_;
  Estimator estimator_;
};

TEST_F(PredictorTest, AnswersFromACheckpoint) {
  EXPECT_EQ(error_of([&] { Predictor{estimator_}; }).kind(), ErrorKind::kNotFound);
  train_to(10);
  Predictor predictor(estimator_);
  check(predictor);
  EXPECT_THAT(predictor.source(), HasSubstr("model.ckpt-10"));
  EXPECT_FALSE(predictor.reload());
  train_to(20);
  EXPECT_TRUE(predictor.reload());
  EXPECT_THAT(predictor.source(), HasSubstr("model.ckpt-20"));
  check(predictor);
  // One checkpoint stays what it is.
  Predictor first(estimator_, {.checkpoint_path = directory_ / "m/model.ckpt-10"});
  EXPECT_FALSE(first.reload());
  const Tensor x = rows();
  EXPECT_FALSE(first.predict_batch({{"x", x}})
                   .at("logits")
                   .equal(predictor.predict_batch({{"x", x}}).at("logits")));
  EXPECT_THAT(error_of([&] { predictor.predict({{"y", x[0]}}); }).message(), HasSubstr("x"));
}

TEST_F(PredictorTest, AnswersFromAnExport) {
  EXPECT_EQ(error_of([&] { Predictor(directory_ / "export"); }).kind(), ErrorKind::kNotFound);
  train_to(10);
  export_model();
  Predictor predictor(directory_ / "export");
  check(predictor);
  Predictor one(predictor.source());  // the folder of one version
  EXPECT_FALSE(predictor.reload());
  train_to(20);
  export_model();
  EXPECT_TRUE(predictor.reload());
  check(predictor);
  EXPECT_FALSE(one.reload());
  EXPECT_THAT(
      error_of([&] { Predictor(directory_ / "export", {.signature = "clases"}); }).message(),
      HasSubstr("'clases'"));
}

// Every answer comes from one of the two models, while the second replaces the first one.
TEST_F(PredictorTest, NoRequestIsLostWhileItReloads) {
  train_to(10);
  Predictor predictor(estimator_);
  const Tensor x = rows();
  const Tensor before = predictor.predict_batch({{"x", x}}).at("logits");
  train_to(20);
  const Tensor after = expected("logits");
  std::atomic<bool> done{false};
  std::atomic<int> answered{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!done) {
        const Tensor got = predictor.predict_batch({{"x", x}}).at("logits");
        if (!got.allclose(before, 1e-4, 1e-5) && !got.allclose(after, 1e-4, 1e-5)) ++wrong;
        ++answered;
      }
    });
  }
  await([&] { return answered >= 10; });
  EXPECT_TRUE(predictor.reload());
  const int reloaded = answered;
  await([&] { return answered >= reloaded + 10; });
  done = true;
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
  check(predictor);
}

}  // namespace
}  // namespace muster::inline v0_1
