// Tests of properties that the program needs to make sense; ctest runs them.
#include <muster/muster.h>

#include <cstdio>
#include <filesystem>

#include "input.h"
#include "model.h"

using namespace muster;

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what);
  ++failures;
}

void test_shapes_of_the_data() {
  const auto batch = training_data().batch(8).iterator()->next();
  expect(batch.has_value(), "there is data");
  const Batch parts = to_batch(*batch);
  expect(parts.rows() == 8, "a batch has the rows that were asked for");
  expect(parts.features["point"].sizes() == at::IntArrayRef({8, 2}), "points have two numbers");
  const Tensor& labels = parts.labels;
  expect(labels.sizes() == at::IntArrayRef({8}) && labels.dtype() == kInt64, "one label each");
  expect(labels.min().item<int64_t>() >= 0 && labels.max().item<int64_t>() < kClasses,
         "labels are classes");
}

void test_training_helps() {
  const InputFn train_input = [] {
    return training_data().shuffle(6000, {.seed = 1}).repeat().batch(100);
  };
  const InputFn test_input = [] { return test_data().batch(500); };
  const std::string folder = "test-model";  // in the build folder
  std::filesystem::remove_all(folder);
  Estimator classifier(make_model_fn({}), {.model_dir = folder, .random_seed = 1});
  const auto measure = [&] { return classifier.evaluate(test_input); };
  const auto before = classifier.evaluate(test_input, {.allow_untrained = true});
  classifier.train(train_input, {.max_steps = 50});
  const auto soon = measure();
  classifier.train(train_input, {.max_steps = 600});
  const auto after = measure();
  expect(soon.at("loss") < before.at("loss"), "some steps lower the loss");
  expect(after.at("accuracy") > 0.9, "the trained model tells the classes apart");
  std::printf("accuracy %.4f before, %.4f after 50 steps, %.4f after 600\n", before.at("accuracy"),
              soon.at("accuracy"), after.at("accuracy"));
  std::filesystem::remove_all(folder);
}

}  // namespace

int main() {
  try {
    test_shapes_of_the_data();
    test_training_helps();
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  return failures == 0 ? 0 : 1;
}
