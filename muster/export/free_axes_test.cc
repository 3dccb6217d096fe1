#include "muster/export/free_axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/export/write_servable.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = Servable::Tensors;

// Exports functions of features whose lengths a request chooses.
class FreeAxesTest : public ::testing::Test {
 protected:
  // The default signature gives the result of `function` as "y".
  std::string write(std::map<std::string, ServingFeature> features,
                    const std::function<Tensor(const Tensors&)>& function) {
    source_.receiver = raw_serving_input_receiver(std::move(features));
    source_.function = [function](const Tensors& given) {
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput({{"y", function(given)}})}};
    };
    const std::string folder = directory_ / std::to_string(++exports_);
    local_file_system().make_directories(folder).value();
    write_servable(local_file_system(), folder, source_);
    return folder;
  }

  Error write_error(std::map<std::string, ServingFeature> features,
                    const std::function<Tensor(const Tensors&)>& function) {
    return error_of([&] { write(std::move(features), function); });
  }

  // The model gives what `function` gives.
  static void agree(const Servable& model, const std::function<Tensor(const Tensors&)>& function,
                    const Tensors& features) {
    const torch::NoGradGuard no_grad;
    const Tensor expected = function(features), got = model.run(kServingDefault, features).at("y");
    ASSERT_EQ(got.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(got, expected, 1e-4, 1e-5)) << describe(features.begin()->second);
  }

  const TempDirectory directory_;
  int exports_ = 0;
  ServableSource source_;
};

TEST_F(FreeAxesTest, AreThoseOfMinusOneByFeature) {
  const ServingInputReceiver receiver =
      raw_serving_input_receiver({{"steps", {kFloat32, {-1, 8}}},
                                  {"image", {kFloat32, {-1, -1, 3}}},
                                  {"age", {kFloat32, {}}}});
  EXPECT_THAT(free_axes(receiver),
              ElementsAre(FreeAxis{"image", 1}, FreeAxis{"image", 2}, FreeAxis{"steps", 1}));
  EXPECT_THAT(batch_shape(receiver, "image", 4, {5, 6, 7}), ElementsAre(4, 5, 6, 3));
  EXPECT_THAT(batch_shape(receiver, "steps", 4, {5, 6, 7}), ElementsAre(4, 7, 8));
  EXPECT_THAT(batch_shape(receiver, "age", 4, {5, 6, 7}), ElementsAre(4));
}

TEST_F(FreeAxesTest, FirstLengthsAreThoseOfExamplesOrTheFirstThatIsTaken) {
  const ServingInputReceiver receiver = raw_serving_input_receiver(
      {{"a", {kFloat32, {-1}}}, {"b", {kFloat32, {-1}, torch::zeros({2, 5})}}});
  std::vector<std::vector<int64_t>> asked;
  const auto lengths = first_lengths(receiver, [&](const std::vector<int64_t>& given) {
    asked.push_back(given);
    if (given[0] < 20) throw invalid_argument("too short");
  });
  EXPECT_THAT(lengths, ElementsAre(33, 5));
  EXPECT_THAT(asked, ElementsAre(ElementsAre(7, 5), ElementsAre(33, 5)));
  EXPECT_EQ(message_of([&] {
              (void)first_lengths(receiver, [](const std::vector<int64_t>& given) {
                throw invalid_argument(std::to_string(given[0]));
              });
            }),
            "7");
}

// A function that asks for sizes, as C++ does, at random sizes.
TEST_F(FreeAxesTest, NumbersThatFollowSizesAreExpressionsOfThem) {
  const Tensor weight = torch::arange(12, kFloat32).reshape({4, 3}) / 7;
  source_.weights = {{"weight", weight}};
  const auto function = [weight](const Tensors& features) {
    const Tensor& x = features.at("x");  // [rows, steps, places, 4]
    const int64_t rows = x.size(0), steps = x.size(1), places = x.size(2);
    const Tensor flat = x.reshape({rows * steps * places, 4}).matmul(weight);
    const Tensor each = flat.view({rows, steps, places * 3}) + torch::arange(places * 3);
    const Tensor halves = at::max_pool1d(each.transpose(1, 2), 2, 2, 0, 1, /*ceil_mode=*/true);
    const Tensor ones = torch::ones({halves.size(2), 1});
    const Tensor sums = halves.matmul(ones).view({rows, places, 3}) / static_cast<double>(steps);
    return sums + static_cast<double>(2 * places + 1);
  };
  const Servable model(write({{"x", {kFloat32, {-1, -1, 4}}}}, function));
  EXPECT_EQ(model.signature(kServingDefault).inputs.at("x").describe(), "float32[-1, -1, -1, 4]");
  EXPECT_EQ(model.signature(kServingDefault).outputs.at("y").describe(), "float32[-1, -1, 3]");
  Random random(derive_key(7, {}));
  for (int i = 0; i < 60; ++i) {
    const auto size = [&] { return static_cast<int64_t>(random.uniform_below(12)) + 1; };
    agree(model, function, {{"x", torch::rand({size(), size(), size(), 4})}});
  }
}

TEST_F(FreeAxesTest, ALoopOverTheStepsIsRefusedByName) {
  const Error error = write_error({{"x", {kFloat32, {-1, 2}}}}, [](const Tensors& features) {
    Tensor sum = torch::zeros({2});
    for (const Tensor& step : features.at("x").unbind(1)) sum = (sum + step).tanh();
    return sum;
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("not supported: exporting any length of axis 1 of the feature \"x\""),
                    HasSubstr("at the length 10")));
  EXPECT_THAT(error.hint(), AllOf(HasSubstr("loop"), HasSubstr("RNN"), HasSubstr("pad")));
}

TEST_F(FreeAxesTest, ANumberThatFollowsNoSizeIsRefusedByName) {
  const Error error = write_error({{"x", {kFloat32, {-1}}}}, [](const Tensors& features) {
    const Tensor& x = features.at("x");
    return x.sum(1) * (1.0 / static_cast<double>(x.size(1)));
  });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("axis 1 of the feature \"x\""),
                                     HasSubstr("aten::mul is given the number 0.1 in place of")));
  const Error table = write_error({{"x", {kFloat32, {-1}}}}, [](const Tensors& features) {
    const std::vector<float> numbers(static_cast<size_t>(features.at("x").size(1)), 2);
    return features.at("x") * torch::tensor(numbers);
  });
  EXPECT_THAT(table.message(),
              AllOf(HasSubstr("axis 1 of the feature \"x\""), HasSubstr("tensor")));
}

// The branch takes one way at all lengths that are traced.
TEST_F(FreeAxesTest, ABranchOnALengthIsRefusedWithTheLength) {
  const Error error = write_error({{"x", {kFloat32, {-1}}}}, [](const Tensors& features) {
    const Tensor sum = features.at("x").sum(1);
    return features.at("x").size(1) > 40 ? sum * 2 : sum;
  });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("\"y\" differs"),
                                     HasSubstr("the length 50 of axis 1 of the feature \"x\"")));
}

TEST_F(FreeAxesTest, TheLengthsThatAModelTakesAreChecked) {
  const Tensor table = torch::rand({30, 4}), kernel = torch::rand({4, 4, 3});
  source_.weights = {{"table", table}, {"kernel", kernel}};
  const auto function = [=](const Tensors& features) {
    const Tensor& x = features.at("x");
    const Tensor places = torch::arange(x.size(1));
    const Tensor sum = (x + table.index_select(0, places)).transpose(1, 2);
    return at::conv1d(sum, kernel).mean(2);
  };
  const Servable model(write({{"x", {kFloat32, {-1, 4}}}}, function));
  for (const int64_t length : {3, 4, 17, 30})
    agree(model, function, {{"x", torch::rand({2, length, 4})}});
  EXPECT_THAT(model.smallest_batch(kServingDefault, "x"), ElementsAre(1, 3, 4));
  for (const int64_t length : {0, 2, 31}) {
    const Error error = error_of([&] {
      (void)model.run(kServingDefault, {{"x", torch::rand({2, length, 4})}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("axis 1 of the input \"x\" has the length " +
                                           std::to_string(length) + ", the model takes 3 to 30"));
    EXPECT_THAT(error.hint(),
                HasSubstr("x float32[-1, -1, 4]; -1 is the batch, and on other axes"));
  }
  EXPECT_THAT(message_of([&] { (void)model.smallest_batch(kServingDefault, "z"); }),
              HasSubstr("'z'"));
}

// A sum of nothing is 0, a mean of nothing is NaN.
TEST_F(FreeAxesTest, ALengthOfZeroIsTakenIfTheModelGivesNumbers) {
  const auto sum = [](const Tensors& features) { return features.at("x").sum(1); };
  const Servable adds(write({{"x", {kFloat32, {-1}}}}, sum));
  agree(adds, sum, {{"x", torch::zeros({3, 0})}});
  const Servable averages(write({{"x", {kFloat32, {-1}}}},
                                [](const Tensors& features) { return features.at("x").mean(1); }));
  EXPECT_THAT(message_of([&] {
                (void)averages.run(kServingDefault, {{"x", torch::zeros({3, 0})}});
              }),
              HasSubstr("has the length 0, the model takes 1 or more"));
}

TEST_F(FreeAxesTest, AxesThatAModelTakesTogetherHaveOneLength) {
  const auto function = [](const Tensors& features) {
    const Tensor weights = features.at("mask").to(kFloat32).unsqueeze(2);
    const Tensor sum = (features.at("x") * weights).sum(1);
    return sum + features.at("other").sum(1, true);
  };
  const Servable model(
      write({{"x", {kFloat32, {-1, 2}}}, {"mask", {kInt64, {-1}}}, {"other", {kFloat32, {-1}}}},
            function));
  const auto batch = [](int64_t x, int64_t mask, int64_t other) {
    return Tensors{{"x", torch::rand({3, x, 2})},
                   {"mask", torch::ones({3, mask}, kInt64)},
                   {"other", torch::rand({3, other})}};
  };
  agree(model, function, batch(5, 5, 9));
  agree(model, function, batch(20, 20, 1));
  EXPECT_THAT(
      message_of([&] { (void)model.run(kServingDefault, batch(5, 6, 5)); }),
      HasSubstr("axis 1 of the input \"x\" has the length 5, and axis 1 of the input \"mask\" "
                "has 6; the model takes equal lengths"));
}

TEST_F(FreeAxesTest, TwoAxesOfAnImageAreIndependent) {
  const auto function = [](const Tensors& features) {
    return features.at("image").movedim(-1, 1).matmul(features.at("right")).mean({2, 3});
  };
  const Servable model(
      write({{"image", {kFloat32, {-1, -1, 2}}}, {"right", {kFloat32, {1, -1, 3}}}}, function));
  agree(model, function,
        {{"image", torch::rand({4, 3, 9, 2})}, {"right", torch::rand({4, 1, 9, 3})}});
}

TEST_F(FreeAxesTest, AnExampleGivesTheFirstLength) {
  const auto function = [](const Tensors& features) {
    const Tensor& x = features.at("x");
    if (x.size(1) < 200) throw invalid_argument("at least 200 steps");
    return x.sum(1);
  };
  EXPECT_EQ(write_error({{"x", {kFloat32, {-1}}}}, function).message(), "at least 200 steps");
  const Servable model(write({{"x", {kFloat32, {-1}, torch::rand({2, 210})}}}, function));
  EXPECT_THAT(model.smallest_batch(kServingDefault, "x"), ElementsAre(1, 200));
}

TEST_F(FreeAxesTest, WhatTakesOneLengthAloneIsRefused) {
  const Tensor weight = torch::rand({7, 2});
  source_.weights = {{"weight", weight}};
  const Error error = write_error({{"x", {kFloat32, {-1}}}}, [weight](const Tensors& features) {
    return features.at("x").matmul(weight);
  });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("axis 1 of the feature \"x\", whose size is -1"),
                                     HasSubstr("no length near 7")));
  EXPECT_THAT(error.hint(), HasSubstr("give the axis this size"));
}

TEST_F(FreeAxesTest, AxisZeroOfAnOutputIsTheBatch) {
  const Error error = write_error({{"x", {kFloat32, {-1}}}}, [](const Tensors& features) {
    return features.at("x").transpose(0, 1) * 2;
  });
  EXPECT_THAT(error.message(), HasSubstr("axis 0 of the output \"y\" follows a length"));
}

TEST_F(FreeAxesTest, TextsMayHaveAnyLength) {
  const Tensor table = torch::rand({4, 2});
  source_.weights = {{"table", table}};
  const auto function = [table](const Tensors& features) {
    return at::embedding(table, features.at("words")).mean(1);
  };
  const Servable model(
      write({{"words", {.dtype = kInt64, .shape = {-1}, .texts = TextInput{{"a", "b", "c"}, 3}}}},
            function));
  const Tensor ids = model.text_ids("words", Strings({1, 2}, {0, 1, 4}, "bxyz"));
  agree(model, function, {{"words", ids}});
}

TEST_F(FreeAxesTest, SizesBelowMinusOneAndEmptyExamplesAreRefused) {
  const auto fails = [](const ServingFeature& feature) {
    return message_of([&] { (void)raw_serving_input_receiver({{"x", feature}}); });
  };
  EXPECT_THAT(fails({kFloat32, {-2}}), HasSubstr("\"x\" has the shape [-2]"));
  EXPECT_THAT(fails({kFloat32, {-1}, torch::zeros({2, 0})}), HasSubstr("has the example"));
  EXPECT_THAT(fails({kFloat32, {-1, 2}, torch::zeros({2, 5})}), HasSubstr("has the example"));
}

// A range of lengths that does not fit the inputs is damage, or another program's doing.
TEST_F(FreeAxesTest, TheDescriptionIsChecked) {
  const std::string folder = write({{"x", {kFloat32, {-1}}}},
                                   [](const Tensors& features) { return features.at("x").sum(1); });
  const std::string path = folder + "/signatures.json";
  auto json = nlohmann::json::parse(local_file_system().read_file(path).value());
  EXPECT_EQ(json["lengths"].dump(), R"([{"axes":[["x",1]],"least":0}])");
  json.erase("files");
  json.erase("seal");
  json["lengths"][0]["axes"][0][1] = 2;
  local_file_system().write_atomically(path, json.dump()).value();
  EXPECT_EQ(error_of([&] { Servable model(folder); }).kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1
