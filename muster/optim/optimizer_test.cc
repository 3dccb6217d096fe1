#include "muster/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/optim/internal/test_errors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

TEST(Optimizer, NamesAndDefaultsAreThoseOfKeras) {
  EXPECT_EQ(sgd().name(), "SGD");
  EXPECT_EQ(adam().name(), "Adam");
  EXPECT_EQ(sgd().rule().learning_rate(), 0.01);
  EXPECT_EQ(adam().rule().learning_rate(), 0.001);
  EXPECT_EQ(adagrad().name(), "Adagrad");
  EXPECT_EQ(adagrad().rule().learning_rate(), 0.001);
  EXPECT_TRUE(sgd().rule().slots().empty());
  const auto momentum = sgd({.momentum = 0.9}).rule().slots();
  ASSERT_EQ(momentum.size(), 1u);
  EXPECT_EQ(momentum[0].name, "momentum");
  EXPECT_EQ(momentum[0].initial_value, 0.0);
  const auto moments = adam().rule().slots();
  ASSERT_EQ(moments.size(), 2u);
  EXPECT_EQ(moments[0].name, "m");
  EXPECT_EQ(moments[1].name, "v");

  const Optimizer renamed = adam({.name = "fast"}).named("slow");
  EXPECT_EQ(renamed.name(), "slow");
  EXPECT_EQ(renamed.rule().name(), "Adam");
  EXPECT_EQ(sgd({.name = ""}).name(), "SGD");
}

TEST(Optimizer, NamesThatAreNoneAreRefused) {
  const std::string slash =
      "an optimizer is named \"a/b\" | names of optimizers contain no '/': it separates the names "
      "of a slot";
  EXPECT_EQ(message_of([] { adam().named("a/b"); }), slash);
  EXPECT_EQ(message_of([] { adam({.name = "a/b"}); }), slash);
  EXPECT_EQ(message_of([] { adam().named(""); }),
            "Adam: its new name is empty | say how it is called: optimizer.named(\"slow\")");
}

TEST(Optimizer, RefusedOptionsNameFieldValueAndRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string text = message_of([] { sgd({.learning_rate = -0.5}); });
  EXPECT_EQ(text, "sgd: learning_rate is -0.5 | learning_rate must be finite and at least 0");
  EXPECT_EQ(message_of([] { sgd({.momentum = 1.5}); }),
            "sgd: momentum is 1.5 | momentum must be between 0 and 1");
  EXPECT_NE(message_of([&] { sgd({.learning_rate = nan}); }).find("learning_rate"),
            std::string::npos);
  EXPECT_NE(message_of([&] { sgd({.momentum = nan}); }).find("momentum"), std::string::npos);
  EXPECT_NE(message_of([] { adam({.beta_1 = 1.0}); }).find("beta_1 is 1"), std::string::npos);
  EXPECT_NE(message_of([] { adam({.beta_2 = -0.1}); }).find("beta_2 is -0.1"), std::string::npos);
  EXPECT_NE(message_of([] { adam({.epsilon = 0}); }).find("epsilon is 0"), std::string::npos);
  EXPECT_NE(message_of([] { adagrad({.learning_rate = -1}); }).find("adagrad: learning_rate is -1"),
            std::string::npos);
  EXPECT_EQ(message_of([] { adagrad({.initial_accumulator_value = -0.1}); }),
            "adagrad: initial_accumulator_value is -0.1 | initial_accumulator_value must be finite "
            "and at least 0");
  EXPECT_NE(message_of([&] { adagrad({.epsilon = nan}); }).find("epsilon is nan"),
            std::string::npos);
  EXPECT_NO_THROW(sgd({.learning_rate = 0}));
}

TEST(Optimizer, IsDescribedInOneLine) {
  EXPECT_EQ(sgd({.learning_rate = 0.1}).describe(),
            "SGD: SGD(learning_rate=0.1, momentum=0, nesterov=false)");
  EXPECT_EQ(clip_by_global_norm(adam().named("fast"), 2.5).describe(),
            "fast: Adam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-07), "
            "clip_by_global_norm(2.5)");
  EXPECT_NE(adagrad().describe(), adagrad({.epsilon = 1e-6}).describe());
  EXPECT_NE(adam({.learning_rate = 0.1}).describe(),
            adam({.learning_rate = std::nextafter(0.1, 1.0)}).describe());

  // A rule of a program that does not describe itself.
  class Rule final : public UpdateRule {
   public:
    std::string name() const override { return "Own"; }
    std::vector<SlotSpec> slots() const override { return {}; }
    double learning_rate() const override { return 0.5; }
    void update(const Segment&, int64_t) const override {}
  };
  EXPECT_EQ(Optimizer(std::make_shared<Rule>()).describe(), "Own: Own(learning_rate=0.5)");
}

// Adds to the scale: the order is seen.
class AddToScale final : public GradientTransformation {
 public:
  explicit AddToScale(double number) : number_(number) {}
  std::string describe() const override { return "add"; }
  void transform(StepGradients& step) const override { step.scale += number_; }

 private:
  double number_;
};

// Multiplies in place.
class Double final : public GradientTransformation {
 public:
  std::string describe() const override { return "double"; }
  void transform(StepGradients& step) const override {
    step.scale *= 2;
    for (StepGradients::Item& item : step.items) item.gradient.mul_(2);
  }
};

TEST(Optimizer, TransformationsComposeAsValues) {
  const Optimizer plain = sgd();
  const Optimizer both =
      plain.with(std::make_shared<Double>()).with(std::make_shared<AddToScale>(3));
  EXPECT_TRUE(plain.transformations().empty());
  EXPECT_EQ(both.named("other").transformations().size(), 2u);
  EXPECT_EQ(both.describe(), plain.describe() + ", double, add");
  const Tensor gradient = torch::ones({2});
  StepGradients step{.optimizer = "SGD", .items = {{.gradient = gradient}}, .scale = 5};
  plain.transform(step);
  EXPECT_EQ(step.scale, 5);
  both.transform(step);
  EXPECT_EQ(step.scale, 13) << "first doubled, then 3 more";
  EXPECT_TRUE(gradient.eq(2).all().item<bool>());
  EXPECT_EQ(message_of([&] { plain.with(nullptr); }),
            "SGD: a gradient transformation is missing | ");
}

}  // namespace
}  // namespace muster::inline v0_1::optim
