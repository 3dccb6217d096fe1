#include "muster/train/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

TEST(PredictionTest, HoldsOutputsByName) {
  const Prediction prediction({{"logits", torch::ones({2})}, {"classes", torch::zeros({})}});
  EXPECT_EQ(prediction.at("logits").numel(), 2);
  EXPECT_EQ(prediction["classes"].numel(), 1);
  EXPECT_TRUE(prediction.contains("logits"));
  EXPECT_FALSE(prediction.contains("logit"));
  EXPECT_EQ(prediction.size(), 2u);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : prediction) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("classes", "logits"));
  EXPECT_TRUE(Prediction().empty());
}

TEST(PredictionTest, ANameThatNothingHasListsTheOthers) {
  // Not const: neither of them makes an output.
  Prediction prediction({{"logits", torch::ones({2})}, {"classes", torch::zeros({})}});
  for (const Error& error : {error_of([&] { (void)prediction["clases"]; }),
                             error_of([&] { (void)prediction.at("clases"); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.message(), "the prediction has no output 'clases'; it has 'classes', 'logits'");
    EXPECT_EQ(error.hint(), "did you mean 'classes'?");
  }
  EXPECT_THAT(error_of([&] { (void)prediction["x"]; }).hint(),
              ::testing::HasSubstr("predict_keys"));
  EXPECT_EQ(prediction.size(), 2u);
}

}  // namespace
}  // namespace muster::inline v0_1
