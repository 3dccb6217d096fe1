// Heads on a device that is not the CPU: a stand-in whose tensors mix with no others. Texts are on
// the host, wherever logits are.
#include <gtest/gtest.h>

#include "muster/heads/binary_class_head.h"
#include "muster/heads/internal/test_batch.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/multi_head.h"
#include "muster/heads/multi_label_head.h"
#include "muster/heads/regression_head.h"
#include "tests/support/test_device.h"

namespace muster::inline v0_1 {
namespace {

using testing::numbers;
using testing::results_of;
using testing::test_device;

struct DeviceCase {
  const char* name{};
  Head head;
  Value labels{};
};

const std::vector<DeviceCase>& on_devices() {
  const std::vector<std::string> names{"ash", "elm", "oak"};
  static const std::vector<DeviceCase> cases = {
      {"binary", BinaryClassHead({.weight_column = "w", .thresholds = {0.3}, .name = "one"}),
       numbers({1, 0, 1, 0.5}, {4})},
      {"binary_names", BinaryClassHead({.label_vocabulary = {"no", "yes"}}),
       Strings({"yes", "no", "no", "yes"})},
      {"classes", MultiClassHead({.n_classes = 3, .weight_column = "w", .name = "two"}),
       torch::tensor({2, 0, 1, 1})},
      {"class_names", MultiClassHead({.n_classes = 3, .label_vocabulary = names}),
       Strings({"oak", "ash", "elm", "elm"})},
      {"multi_label", MultiLabelHead({.n_classes = 2, .classes_for_class_based_metrics = {1}}),
       numbers({1, 0, 1, 1, 0, 0, 0, 1}, {4, 2})},
      {"label_names", MultiLabelHead({.n_classes = 3, .label_vocabulary = names}),
       Strings({"oak", "", "elm", "ash"})},
      {"regression", RegressionHead({.label_dimension = 2, .weight_column = "w"}),
       numbers({1, 0, 2, 1, 0, 3, 0, 1}, {4, 2})},
      {"poisson", PoissonRegressionHead(), numbers({1, 0, 5, 2}, {4})},
      {"logistic", LogisticRegressionHead(), numbers({0.1, 0, 1, 0.5}, {4})},
  };
  return cases;
}

// Loss, its gradient, metrics and predictions of logits there.
struct Answers {
  double loss{};
  Tensor gradient{};
  std::map<std::string, double> metrics{};
  std::map<std::string, Tensor> predictions{};
};

Answers answers(const Head& head, const Labels& labels, const Tensor& logits_here, at::Device to) {
  const Tensor logits = logits_here.clone().to(to).requires_grad_();
  const Features features(Element::dict({{"w", numbers({1, 2, 0, 0.5}, {4}).to(to)}}));
  const Tensor loss = head.loss(features, labels, logits);
  EXPECT_EQ(loss.device(), to);
  loss.backward();
  Answers all{loss.item<double>(),
              logits.grad().cpu(),
              results_of(head.metrics(features, labels, logits)),
              {}};
  for (const auto& [key, tensor] : head.predictions(logits)) {
    EXPECT_EQ(tensor.device(), to) << key;
    all.predictions[key] = tensor.detach().cpu();
  }
  return all;
}

void expect_same(const Answers& there, const Answers& here) {
  EXPECT_NEAR(there.loss, here.loss, 1e-6);
  EXPECT_TRUE(torch::allclose(there.gradient, here.gradient, 1e-5, 1e-7));
  ASSERT_EQ(there.metrics.size(), here.metrics.size());
  for (const auto& [name, value] : here.metrics)
    EXPECT_NEAR(there.metrics.at(name), value, 1e-6) << name;
  ASSERT_EQ(there.predictions.size(), here.predictions.size());
  for (const auto& [key, tensor] : here.predictions)
    EXPECT_TRUE(torch::allclose(there.predictions.at(key), tensor)) << key;
}

class HeadOnADevice : public ::testing::TestWithParam<DeviceCase> {};

TEST_P(HeadOnADevice, GivesWhatItGivesOnTheCpu) {
  const auto& [name, head, labels] = GetParam();
  const Tensor logits = torch::arange(4 * head.logits_dimension(), kFloat32)
                            .sub(3)
                            .div(2)
                            .reshape({4, head.logits_dimension()});
  const Value there = labels.is_tensor() ? Value(labels.tensor().to(test_device())) : labels;
  expect_same(answers(head, Labels(Element(there)), logits, test_device()),
              answers(head, Labels(Element(labels)), logits, at::kCPU));
}

INSTANTIATE_TEST_SUITE_P(Cases, HeadOnADevice, ::testing::ValuesIn(on_devices()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MultiHeadOnADevice, GivesWhatItGivesOnTheCpu) {
  const Head& one = on_devices()[0].head;
  const Head& two = on_devices()[2].head;
  const Head head = MultiHead({.heads = {one, two}, .head_weights = {2, 1}});
  const Tensor logits = torch::arange(16, kFloat32).sub(7).div(3).reshape({4, 4});
  const auto labels = [](at::Device to) {
    return Labels(Element::dict({{"one", on_devices()[0].labels.tensor().to(to)},
                                 {"two", on_devices()[2].labels.tensor().to(to)}}));
  };
  expect_same(answers(head, labels(test_device()), logits, test_device()),
              answers(head, labels(at::kCPU), logits, at::kCPU));
}

}  // namespace
}  // namespace muster::inline v0_1
