#include "muster/estimator/permutation_importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "muster/base/error_of.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 400;

// Numbers a, b, c and texts; y = 3 a + b, and c is noise.
Element rows() {
  Tensor a = torch::empty({kRows}), b = torch::empty({kRows}), c = torch::empty({kRows});
  std::vector<std::string> texts;
  Random random(derive_key(1, {id_of("rows")}));
  for (int64_t i = 0; i < kRows; ++i) {
    a.data_ptr<float>()[i] = static_cast<float>(random.normal());
    b.data_ptr<float>()[i] = static_cast<float>(random.normal());
    c.data_ptr<float>()[i] = static_cast<float>(random.normal());
    texts.push_back(a.data_ptr<float>()[i] > 0 ? "plus" : "minus");
  }
  return Element::tuple(
      {Element::dict({{"a", a}, {"b", b}, {"c", c}, {"sign", Strings(texts)}}), 3 * a + b});
}

InputFn input(int64_t batch = 64) {
  return [batch] { return Dataset::from_tensor_slices(rows()).batch(batch); };
}

// The errors of the model 3 a + b, and how often the text says the sign of a.
EvalResult evaluate(const InputFn& input_fn) {
  double squares = 0, right = 0;
  int64_t count = 0;
  const auto iterator = input_fn({}).iterator();
  while (const auto element = iterator->next()) {
    const Batch batch = to_batch(*element);
    const Tensor made = 3 * batch.features["a"] + batch.features["b"];
    squares += (made - batch.labels.tensor()).square().sum().item<double>();
    const Strings& texts = batch.features.value("sign").strings();
    for (int64_t i = 0; i < texts.size(); ++i)
      right += (texts[i] == "plus") == (batch.features["a"][i].item<float>() > 0) ? 1 : 0;
    count += batch.rows();
  }
  return {{"loss", squares / static_cast<double>(count)},
          {"accuracy", right / static_cast<double>(count)},
          {"prediction/mean", 0}};
}

double importance(const Explanation& all, const std::string& column) {
  for (const Explanation::Row& row : all.rows)
    if (row.column == column) return row.numbers[0];
  ADD_FAILURE() << "no row " << column;
  return 0;
}

// Shuffling x makes the error of w x the mean of w^2 (x - x')^2: on average 2 w^2 times the
// variance of x.
TEST(PermutationImportanceTest, IsWhatTheModelLoses) {
  const Explanation all = permutation_importance(evaluate, input());
  EXPECT_EQ(all.measures, (std::vector<std::string>{"importance", "deviation"}));
  ASSERT_EQ(all.rows.size(), 4u);
  EXPECT_EQ(all.rows[0].column, "a");
  EXPECT_EQ(all.rows[1].column, "b");
  const auto expected = [](const char* name, double w) {
    return 2 * w * w * rows().part(0).at(name).value().tensor().var().item<double>();
  };
  EXPECT_NEAR(all.rows[0].numbers[0], expected("a", 3), 0.1 * expected("a", 3));
  EXPECT_NEAR(all.rows[1].numbers[0], expected("b", 1), 0.1 * expected("b", 1));
  EXPECT_GT(all.rows[0].numbers[1], 0);
  // A feature that the model does not use.
  EXPECT_EQ(importance(all, "c"), 0);
  EXPECT_EQ(importance(all, "sign"), 0);
}

TEST(PermutationImportanceTest, TextsAreShuffledAndMoreAccuracyIsBetter) {
  const Explanation all =
      permutation_importance(evaluate, input(), {.metric = "accuracy", .repeats = 8});
  // Two halves: a shuffled text is right for every other row.
  EXPECT_NEAR(importance(all, "sign"), 0.5, 0.05);
  EXPECT_NEAR(importance(all, "a"), 0.5, 0.05);
  EXPECT_EQ(importance(all, "b"), 0);
}

TEST(PermutationImportanceTest, IsTheSameOnEveryRunAndForEveryBatchSize) {
  const PermutationImportanceOptions options{.columns = {"b", "a"}, .repeats = 2, .seed = 3};
  const Explanation once = permutation_importance(evaluate, input(), options);
  EXPECT_EQ(permutation_importance(evaluate, input(), options), once);
  ASSERT_EQ(once.rows.size(), 2u);
  const Explanation others = permutation_importance(evaluate, input(37), options);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(others.rows[i].numbers[0], once.rows[i].numbers[0], 1e-5);
  EXPECT_NE(permutation_importance(evaluate, input(), {.columns = {"a"}, .repeats = 2, .seed = 4})
                .rows[0],
            once.rows[0]);
}

TEST(PermutationImportanceTest, OneRepeatHasNoDeviation) {
  EXPECT_EQ(permutation_importance(evaluate, input(), {.columns = {"a"}, .repeats = 1})
                .rows[0]
                .numbers[1],
            0);
}

// Ids of rows of unequal length, with weights, move together; labels stay.
TEST(PermutationImportanceTest, EntriesOfAFeatureMoveTogether) {
  const auto batches = std::make_shared<std::vector<Element>>();
  for (int64_t width : {1, 3, 2}) {
    const Tensor ids = torch::arange(4 * width, kInt64).reshape({4, width}) + 100 * width;
    batches->push_back(Element::tuple(
        {Element::dict({{"x/ids", ids}, {"x/weights", ids.to(kFloat32)}, {"y", torch::ones({4})}}),
         torch::arange(4) + 4 * width}));
  }
  const InputFn input_fn = [batches] {
    return Dataset::from_generator([batches]() -> Dataset::Generator {
      return [batches, next = size_t{0}]() mutable -> std::optional<Element> {
        if (next == batches->size()) return std::nullopt;
        return (*batches)[next++];
      };
    });
  };
  std::vector<std::multiset<int64_t>> seen;
  const auto evaluate = [&](const InputFn& given) {
    seen.emplace_back();
    const auto iterator = given({}).iterator();
    while (const auto element = iterator->next()) {
      const Batch batch = to_batch(*element);
      const Tensor ids = batch.features["x/ids"], weights = batch.features["x/weights"];
      EXPECT_EQ(ids.size(1), 3);
      for (int64_t i = 0; i < ids.numel(); ++i) {
        const int64_t id = ids.reshape(-1)[i].item<int64_t>();
        seen.back().insert(id);
        EXPECT_EQ(weights.reshape(-1)[i].item<float>(), id < 0 ? 0.0F : static_cast<float>(id));
      }
    }
    return EvalResult{{"loss", 1.0}};
  };
  const Explanation all = permutation_importance(evaluate, input_fn, {.repeats = 1});
  EXPECT_EQ(all.rows.size(), 2u);  // x and y
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[1], seen[0]);
  EXPECT_EQ(seen[0].count(-1), 8u + 4u);  // two places of 4 rows, and one of 4 rows
}

TEST(PermutationImportanceTest, TheTransformComesAfterTheShuffling) {
  const auto doubled = [](const Element& batch) {
    return Element::tuple(
        {Element::dict({{"twice", batch.part(0).at("a").value().tensor() * 2}}), batch.part(1)});
  };
  const auto of_twice = [](const InputFn& input_fn) {
    double loss = 0;
    const auto iterator = input_fn({}).iterator();
    while (const auto element = iterator->next()) {
      const Batch batch = to_batch(*element);
      loss += (1.5 * batch.features["twice"] - batch.labels.tensor()).square().sum().item<double>();
    }
    return EvalResult{{"loss", loss / kRows}};
  };
  const Explanation all =
      permutation_importance(of_twice, input(), {.columns = {"a", "b"}, .transform = doubled});
  EXPECT_NEAR(importance(all, "a"), 18, 3);
  EXPECT_EQ(importance(all, "b"), 0);
}

TEST(PermutationImportanceTest, SaysWhatIsWrong) {
  const auto fails = [](const PermutationImportanceOptions& options, const InputFn& input_fn) {
    return std::string(
        error_of([&] { (void)permutation_importance(evaluate, input_fn, options); }).what());
  };
  EXPECT_THAT(fails({.repeats = 0}, input()), HasSubstr("repeats = 0"));
  EXPECT_THAT(
      fails({.columns = {"sing"}}, input()),
      AllOf(HasSubstr("the input has no feature 'sing'"), HasSubstr("did you mean 'sign'")));
  EXPECT_THAT(fails({.metric = "prediction/mean"}, input()), HasSubstr("larger_is_better"));
  EXPECT_THAT(fails({.metric = "los"}, input()), HasSubstr("larger_is_better"));
  EXPECT_THAT(fails({.metric = "auc"}, input()), HasSubstr("the evaluation has no metric 'auc'"));
  EXPECT_THAT(fails({}, [] { return Dataset::from_tensor_slices(rows()).repeat().batch(4); }),
              HasSubstr("without end"));
  EXPECT_THAT(fails({}, [] { return Dataset::from_tensor_slices(rows()).take(0).batch(4); }),
              HasSubstr("gave no data"));
  EXPECT_THAT(fails({}, [] { return Dataset::from_tensor_slices(torch::ones({3})).batch(2); }),
              HasSubstr("features by name"));
}

}  // namespace
}  // namespace muster::inline v0_1
