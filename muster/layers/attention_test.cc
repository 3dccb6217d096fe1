#include "muster/layers/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "muster/layers/internal/dot_product_attention.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/masking.h"
#include "muster/layers/regularizers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using ::testing::HasSubstr;
using testing::numbers;
using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(const Tensor& x) {
  Matrix rows(static_cast<size_t>(x.size(0)));
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(1); ++j) {
      rows[static_cast<size_t>(i)].push_back(x[i][j].item<double>());
    }
  }
  return rows;
}

// Gives softmax(scores) of the columns that `counts` lets through, times value, in plain loops.
Matrix plain_attention(const Matrix& scores, const Matrix& value, const Matrix& counts) {
  Matrix result;
  for (size_t t = 0; t < scores.size(); ++t) {
    double sum = 0;
    std::vector<double> row(value[0].size(), 0.0);
    for (size_t s = 0; s < value.size(); ++s) {
      if (counts[t][s] == 0) continue;
      const double weight = std::exp(scores[t][s]);
      sum += weight;
      for (size_t j = 0; j < row.size(); ++j) row[j] += weight * value[s][j];
    }
    for (double& number : row) number /= sum;
    result.push_back(row);
  }
  return result;
}

// Calls score(one row of the query, one row of the key) for all pairs.
template <typename Score>
Matrix scores_of(const Matrix& query, const Matrix& key, Score score) {
  Matrix scores;
  for (const auto& q : query) {
    scores.emplace_back();
    for (const auto& k : key) scores.back().push_back(score(q, k));
  }
  return scores;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void expect_matrix(const Tensor& given, const Matrix& expected) {
  const Matrix values = matrix_of(given);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t j = 0; j < expected[i].size(); ++j) {
      EXPECT_NEAR(values[i][j], expected[i][j], 1e-12) << i << ", " << j;
    }
  }
}

constexpr int64_t kExamples = 2, kQueries = 3, kValues = 4, kDim = 5;

struct Tensors {
  Tensor query = numbers({kExamples, kQueries, kDim});
  Tensor value = numbers({kExamples, kValues, 6}, 1.2);
  Tensor key = numbers({kExamples, kValues, kDim}, 2.2);
};

TEST(Attention, ComputesKerasFormulas) {
  const Tensors x;
  const Matrix all(kQueries, std::vector<double>(kValues, 1.0));
  for (const bool use_scale : {false, true}) {
    for (const ScoreMode mode : {ScoreMode::kDot, ScoreMode::kConcat}) {
      Fixture fixture;
      const Layer layer = Attention({.use_scale = use_scale, .score_mode = mode});
      const LayerInputs inputs{.tensors = {x.query, x.value, x.key}};
      layer(inputs, fixture.context);
      double scale = 1, weight = 1;
      torch::NoGradGuard no_grad;
      if (use_scale) {
        ASSERT_EQ(fixture.store.value("attention/scale").dim(), 0);
        EXPECT_EQ(fixture.store.value("attention/scale").item<double>(), 1);
        fixture.store.value("attention/scale").fill_(scale = 0.7);
      }
      if (mode == ScoreMode::kConcat) {
        EXPECT_EQ(fixture.store.value("attention/concat_score_weight").item<double>(), 1);
        fixture.store.value("attention/concat_score_weight").fill_(weight = 1.3);
      }
      const Tensor y = layer(inputs, fixture.context).tensors[0];
      const auto score = [&](const std::vector<double>& q, const std::vector<double>& k) {
        if (mode == ScoreMode::kDot) return scale * dot(q, k);
        double sum = 0;
        for (size_t i = 0; i < q.size(); ++i) sum += std::tanh(scale * (q[i] + k[i]));
        return weight * sum;
      };
      for (int64_t b = 0; b < kExamples; ++b) {
        expect_matrix(y[b],
                      plain_attention(scores_of(matrix_of(x.query[b]), matrix_of(x.key[b]), score),
                                      matrix_of(x.value[b]), all));
      }
    }
  }
}

TEST(Attention, LooksOnlyAtWhatCounts) {
  const Tensors x;
  Fixture fixture;
  const Tensor queries = sequence_mask(torch::tensor({3, 2}));
  const Tensor values = sequence_mask(torch::tensor({4, 1}), kValues);
  const LayerOutputs outputs = Attention({.causal = true, .return_attention_scores = true})(
      {.tensors = {x.query, x.value, x.key}, .masks = {queries, values, Tensor()}},
      fixture.context);
  EXPECT_TRUE(outputs.masks[0].equal(queries));
  for (int64_t b = 0; b < kExamples; ++b) {
    Matrix counts;
    for (int64_t t = 0; t < kQueries; ++t) {
      counts.emplace_back();
      for (int64_t s = 0; s < kValues; ++s) {
        counts.back().push_back(s <= t && (b == 0 || s < 1) ? 1 : 0);
      }
    }
    const Matrix expected = plain_attention(
        scores_of(matrix_of(x.query[b]), matrix_of(x.key[b]), dot), matrix_of(x.value[b]), counts);
    const int64_t rows = b == 0 ? 3 : 2;
    expect_matrix(outputs.tensors[0][b].slice(0, 0, rows),
                  {expected.begin(), expected.begin() + rows});
    EXPECT_TRUE(outputs.tensors[0][b].slice(0, rows).eq(0).all().item<bool>());
    EXPECT_NEAR(outputs.tensors[1][b][1].sum().item<double>(), 1, 1e-12);
    EXPECT_EQ(outputs.tensors[1][b][0][1].item<double>(), 0);
  }
}

// What MultiHeadAttention computes, head by head, from the variables of the layer.
Matrix plain_heads(const Fixture& fixture, const Tensors& x, int64_t b, const Matrix& counts) {
  const auto named = [&](const std::string& name) {
    return fixture.store.value("multi_head_attention/" + name).detach();
  };
  const int64_t heads = named("query/kernel").size(1), key_dim = named("query/kernel").size(2);
  const auto projected = [&](const Tensor& input, const std::string& name, int64_t head) {
    return matrix_of(input.mm(named(name + "/kernel").select(1, head)) +
                     named(name + "/bias")[head]);
  };
  Tensor sum = named("attention_output/bias").expand({kQueries, -1}).clone();
  for (int64_t head = 0; head < heads; ++head) {
    Matrix scores =
        scores_of(projected(x.query[b], "query", head), projected(x.key[b], "key", head), dot);
    for (auto& row : scores) {
      for (double& score : row) score /= std::sqrt(static_cast<double>(key_dim));
    }
    const Matrix result = plain_attention(scores, projected(x.value[b], "value", head), counts);
    for (size_t t = 0; t < result.size(); ++t) {
      sum[static_cast<int64_t>(t)] +=
          torch::tensor(result[t], at::kDouble).matmul(named("attention_output/kernel")[head]);
    }
  }
  return matrix_of(sum);
}

const Initializer drawn_biases = initializers::random_uniform(-0.5, 0.5);

TEST(MultiHeadAttention, ComputesKerasFormula) {
  const Tensors x;
  for (const bool scores : {false, true}) {  // which takes another way through the code
    Fixture fixture;
    const Layer layer = MultiHeadAttention(3, 4,
                                           {.value_dim = 2,
                                            .bias_initializer = drawn_biases,
                                            .use_causal_mask = true,
                                            .return_attention_scores = scores});
    const Tensor values = sequence_mask(torch::tensor({4, 2}));
    const Tensor mask = torch::tensor({{{1, 1, 1, 1}, {1, 1, 0, 1}, {0, 1, 1, 1}}}).to(at::kBool);
    const LayerOutputs outputs = layer({.tensors = {x.query, x.value, x.key, mask},
                                        .masks = {Tensor(), values, Tensor(), Tensor()}},
                                       fixture.context);
    ASSERT_EQ(outputs.tensors[0].sizes(), (Shape{kExamples, kQueries, kDim}));
    for (int64_t b = 0; b < kExamples; ++b) {
      Matrix counts = matrix_of(mask[0].to(kFloat64));
      for (size_t t = 0; t < counts.size(); ++t) {
        for (size_t s = 0; s < counts[t].size(); ++s) {
          if (s > t || (b == 1 && s > 1)) counts[t][s] = 0;
        }
      }
      expect_matrix(outputs.tensors[0][b], plain_heads(fixture, x, b, counts));
    }
    if (scores) {
      ASSERT_EQ(outputs.tensors[1].sizes(), (Shape{kExamples, 3, kQueries, kValues}));
      EXPECT_TRUE(torch::allclose(outputs.tensors[1].sum(-1),
                                  torch::ones({kExamples, 3, kQueries}, at::kDouble)));
    }
  }
}

TEST(MultiHeadAttention, HasKerasVariables) {
  const Tensors x;
  Fixture fixture;
  const Layer layer = MultiHeadAttention(2, 3, {.value_dim = 4, .output_shape = {7, 2}});
  const LayerInputs inputs{.tensors = {x.query, x.value}};
  EXPECT_EQ(layer(inputs, fixture.context).tensors[0].sizes(), (Shape{kExamples, kQueries, 7, 2}));
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"query/kernel", {kDim, 2, 3}},
      {"query/bias", {2, 3}},
      {"key/kernel", {6, 2, 3}},
      {"key/bias", {2, 3}},
      {"value/kernel", {6, 2, 4}},
      {"value/bias", {2, 4}},
      {"attention_output/kernel", {2, 4, 7, 2}},
      {"attention_output/bias", {7, 2}}};
  ASSERT_EQ(fixture.store.variables().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(fixture.store.variables()[i]->name(), "multi_head_attention/" + expected[i].first);
    EXPECT_EQ(fixture.store.variables()[i]->value().sizes(), expected[i].second);
  }
  // Keras takes the last two axes for in and out, and the others for a receptive field.
  EXPECT_LE(fixture.store.value("multi_head_attention/query/kernel").abs().max().item<double>(),
            std::sqrt(6.0 / (kDim * (2 + 3))));
  EXPECT_TRUE(fixture.store.value("multi_head_attention/key/bias").eq(0).all().item<bool>());
  Fixture bare;
  MultiHeadAttention(2, 3, {.use_bias = false})(inputs, bare.context);
  EXPECT_EQ(bare.store.variables().size(), 4u);
}

TEST(MultiHeadAttention, TakesInitializersOfSingleVariables) {
  const Tensors x;
  Fixture fixture;
  MultiHeadAttention(
      2, 3,
      {.variable_initializers = {{"key/kernel", initializers::constant(2)},
                                 {"attention_output/bias", initializers::constant(3)}}})(
      {.tensors = {x.query, x.value}}, fixture.context);
  for (const auto& variable : fixture.store.variables()) {
    const std::string name = variable->name().substr(variable->name().find('/') + 1);
    const double largest = variable->value().abs().max().item<double>();
    EXPECT_EQ(largest == 2, name == "key/kernel") << name;
    EXPECT_EQ(largest == 3, name == "attention_output/bias") << name;
  }
  EXPECT_EQ(message_of([] {
              MultiHeadAttention(2, 3,
                                 {.use_bias = false,
                                  .variable_initializers = {{"key/bias", initializers::zeros()}}});
            }),
            "MultiHeadAttention has no variable 'key/bias'; it has 'query/kernel', 'key/kernel', "
            "'value/kernel', 'attention_output/kernel'");
}

TEST(MultiHeadAttention, DropsWeightsInTraining) {
  const Tensors x;
  Fixture fixture;
  const Layer layer = MultiHeadAttention(2, 3, {.dropout = 0.5});
  const LayerInputs inputs{.tensors = {x.query, x.value}};
  const auto call = [&] { return layer(inputs, fixture.context).tensors[0].detach(); };
  const Tensor still = call();
  EXPECT_TRUE(call().equal(still));
  fixture.context.begin_step(true, 3, 0);
  const Tensor dropped = call();
  EXPECT_FALSE(torch::allclose(dropped, still));
  fixture.context.begin_step(true, 3, 0);
  EXPECT_TRUE(call().equal(dropped));
  fixture.context.begin_step(true, 3, 1);
  EXPECT_FALSE(torch::allclose(call(), dropped));
}

// Both ways through the code, also for gradients that are derived again.
TEST(DotProductAttention, HasTheGradientsOfItsOperations) {
  const Tensor offset = numbers({2, 1, 3, 4}, 0.4);
  for (const int64_t width : {2, 40}) {
    std::vector<Tensor> gradients[2];
    for (const bool composed : {false, true}) {
      const auto leaf = [](at::IntArrayRef shape, double phase) {
        return numbers(shape, phase).requires_grad_();
      };
      const std::vector<Tensor> leaves = {leaf({2, 3, 2, width}, 0.1), leaf({2, 4, 2, width}, 0.2),
                                          leaf({2, 4, 2, 5}, 0.3)};
      const Tensor y = internal::dot_product_attention(leaves[0], leaves[1], leaves[2], 0.6, offset,
                                                       Tensor(), composed)
                           .output;
      gradients[composed].push_back(y);
      const Tensor sum = (y * numbers(y.sizes(), 1.7)).sum();
      const auto fast = torch::autograd::grad({sum}, leaves, {}, true);
      const auto once = torch::autograd::grad({sum}, leaves, {}, true, true);
      Tensor squares = torch::zeros({}, kFloat64);
      for (const Tensor& each : once) squares = squares + each.square().sum();
      const auto twice = torch::autograd::grad({squares}, leaves);
      for (const auto& list : {fast, once, twice}) {
        gradients[composed].insert(gradients[composed].end(), list.begin(), list.end());
      }
    }
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      EXPECT_TRUE(torch::allclose(gradients[0][i], gradients[1][i], 1e-10, 1e-10)) << i;
    }
  }
}

// On a GPU it takes the place of the operations; LibTorch knows it on the CPU as well.
TEST(DotProductAttention, IsWhatLibTorchComputesInOneOperation) {
  const Tensor query = numbers({2, 4, 2, 8}, 0.1), key = numbers({2, 4, 2, 8}, 0.2),
               value = numbers({2, 4, 2, 8}, 0.3), offset = numbers({2, 1, 4, 4}, 0.4),
               causal = (1 - torch::ones({1, 1, 4, 4}, kFloat64).tril()) * -1e9;
  if (!internal::fused_attention(query, key, value, 0.6, {}, false).defined())
    GTEST_SKIP() << "this LibTorch has no scaled_dot_product_attention with a scale";
  const auto same = [&](const Tensor& given, bool is_causal) {
    const Tensor fused = internal::fused_attention(query, key, value, 0.6, given, is_causal);
    const Tensor composed =
        internal::dot_product_attention(query, key, value, 0.6, given, Tensor(), true).output;
    return torch::allclose(fused, composed, 1e-10, 1e-10);
  };
  EXPECT_TRUE(same({}, false));
  EXPECT_TRUE(same(offset, false));
  EXPECT_TRUE(same(causal, true));
}

// Each place in the axes next to attends for itself.
TEST(AttentionAxes, AreAttendedOverOneByOne) {
  const Tensor query = numbers({2, 3, 4, 5}), value = numbers({2, 6, 4, 5}, 0.9);
  const Tensor mask = numbers({2, 4, 3, 6}, 0.2).gt(-0.5);
  const auto layer = [](std::vector<int64_t> axes) {
    return MultiHeadAttention(2, 3,
                              {.output_shape = {2, 2},
                               .attention_axes = std::move(axes),
                               .activity_regularizer = regularizers::l2(1),
                               .return_attention_scores = true});
  };
  Fixture first, second, alone;
  const LayerOutputs over_1 = layer({1})({.tensors = {query, value, mask}}, first.context);
  const LayerOutputs over_2 =
      layer({2})({.tensors = {query.transpose(1, 2), value.transpose(1, 2), mask}}, second.context);
  EXPECT_EQ(over_1.tensors[0].sizes(), (Shape{2, 3, 4, 2, 2}));
  EXPECT_EQ(over_1.tensors[1].sizes(), (Shape{2, 4, 2, 3, 6}));
  EXPECT_TRUE(torch::allclose(over_2.tensors[0].transpose(1, 2), over_1.tensors[0], 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(over_2.tensors[1], over_1.tensors[1], 1e-12, 1e-12));
  const Layer one = layer({});
  for (int64_t place = 0; place < 4; ++place) {
    const LayerOutputs part =
        one({.tensors = {query.select(2, place), value.select(2, place), mask.select(1, place)}},
            alone.context);
    EXPECT_TRUE(torch::allclose(over_1.tensors[0].select(2, place), part.tensors[0], 1e-12, 1e-12));
    EXPECT_TRUE(torch::allclose(over_1.tensors[1].select(1, place), part.tensors[1], 1e-12, 1e-12));
  }
  const auto sum_of = [](Fixture& fixture) {
    double sum = 0;
    for (const Tensor& loss : fixture.context.take_losses()) sum += loss.item<double>();
    return sum;
  };
  EXPECT_NEAR(sum_of(first), sum_of(alone), 1e-9);
}

TEST(AttentionAxes, AreAllOfThemWithoutAWord) {
  const Tensor query = numbers({2, 3, 2, 5}), value = numbers({2, 4, 2, 5}, 0.9);
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{}, {2, 1}}) {
    const Layer layer =
        MultiHeadAttention(2, 3, {.attention_axes = axes, .return_attention_scores = true});
    const Layer flat = MultiHeadAttention(2, 3, {.return_attention_scores = true});
    Fixture fixture, other;
    const LayerOutputs outputs = layer({.tensors = {query, value}}, fixture.context);
    const LayerOutputs steps =
        flat({.tensors = {query.flatten(1, 2), value.flatten(1, 2)}}, other.context);
    EXPECT_TRUE(torch::allclose(outputs.tensors[0].flatten(1, 2), steps.tensors[0], 1e-12, 1e-12));
    EXPECT_EQ(outputs.tensors[1].sizes(), (Shape{2, 2, 3, 2, 4, 2}));
    EXPECT_TRUE(
        torch::allclose(outputs.tensors[1].reshape({2, 2, 6, 8}), steps.tensors[1], 1e-12, 1e-12));
    EXPECT_EQ(layer({.tensors = {query.slice(0, 0, 0), value.slice(0, 0, 0)}}, fixture.context)
                  .tensors[0]
                  .sizes(),
              (Shape{0, 3, 2, 5}));
  }
}

TEST(AttentionAxes, RefuseWhatDoesNotFit) {
  Fixture fixture;
  const Tensor x = numbers({2, 3, 4, 5});
  const auto message = [&](const MultiHeadAttentionOptions& options, const LayerInputs& inputs) {
    return message_of([&] { MultiHeadAttention(2, 3, options)(inputs, fixture.context); });
  };
  EXPECT_THAT(message({.attention_axes = {3}}, {.tensors = {x, x}}),
              HasSubstr("a query [batch, axes..., features] with the axes [3], was given float64"));
  EXPECT_THAT(message({.attention_axes = {2}}, {.tensors = {x[0], x[0]}}), HasSubstr("axes [2]"));
  EXPECT_THAT(message({.attention_axes = {2}}, {.tensors = {x, numbers({2, 2, 4, 5})}}),
              HasSubstr("except [2], was given float64[2, 2, 4, 5]"));
  EXPECT_THAT(
      message({.attention_axes = {1}}, {.tensors = {x, x, torch::ones({2, 3, 3}, at::kBool)}}),
      HasSubstr("an attention_mask that stretches to [2, 4, 3, 3]"));
  EXPECT_THAT(message({}, {.tensors = {x, x}, .masks = {torch::ones({2, 3}, at::kBool), {}}}),
              HasSubstr("tensors without masks"));
  EXPECT_THAT(message({.use_causal_mask = true}, {.tensors = {x, x}}),
              HasSubstr("one attention axis with use_causal_mask"));
}

TEST(AttentionLayers, RefuseWhatDoesNotFit) {
  EXPECT_EQ(message_of([] { Attention({.dropout = 1}); }), "Attention: dropout is 1");
  EXPECT_EQ(message_of([] { MultiHeadAttention(0, 3); }), "MultiHeadAttention: num_heads is 0");
  EXPECT_EQ(message_of([] { MultiHeadAttention(2, 3, {.value_dim = 0}); }),
            "MultiHeadAttention: value_dim is 0");
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2, 0}, {2, 1, 2}}) {
    EXPECT_EQ(message_of([&] { MultiHeadAttention(2, 3, {.attention_axes = axes}); }),
              "MultiHeadAttention: attention_axes is " + describe(axes));
  }
  const Tensors x;
  Fixture fixture;
  const Layer heads = MultiHeadAttention(2, 3), attention = Attention();
  const auto message = [&](const Layer& layer, const LayerInputs& inputs) {
    return message_of([&] { layer(inputs, fixture.context); });
  };
  EXPECT_EQ(message(heads, {.tensors = {x.query}}),
            "layer multi_head_attention: expected {query, value} or {query, value, key}, was given "
            "float64[2, 3, 5]");
  EXPECT_EQ(
      message(heads, {.tensors = {x.query, x.value.slice(0, 0, 1)}}),
      "layer multi_head_attention: expected tensors [batch, steps, features] of one batch and "
      "one dtype, was given float64[2, 3, 5], float64[1, 4, 6]");
  EXPECT_EQ(message(attention, {.tensors = {x.query, x.value}}),
            "layer attention: expected a key [batch, steps, 5], as the query float64[2, 3, 5] is, "
            "was given float64[2, 4, 6]");
  EXPECT_EQ(message(attention, {.tensors = {x.query, x.value, x.key.slice(1, 0, 2)}}),
            "layer attention: expected a value and a key with the same steps, was given "
            "float64[2, 3, 5], float64[2, 4, 6], float64[2, 2, 5]");
  EXPECT_EQ(
      message(heads, {.tensors = {x.query, x.value, torch::ones({2, 2, 4}, at::kBool)}}),
      "layer multi_head_attention: expected an attention_mask that stretches to [2, 2, 3, 4], "
      "was given bool[2, 2, 4]");
}

// Keras casts masks of any dtype. Here one that is not bool would be taken for a key.
TEST(MultiHeadAttentionTest, TellsAMaskOfAnotherDtypeFromAKey) {
  const Tensors x;  // query [2, 3, 5], value [2, 4, 6], key [2, 4, 5]
  Fixture fixture;
  const Layer heads = MultiHeadAttention(2, 3, {.name = "heads"});
  const auto error = [&](const Layer& layer, const std::vector<Tensor>& tensors) {
    return error_of([&] { layer({.tensors = tensors}, fixture.context); });
  };
  const Tensor mask = torch::ones({2, 3, 4}, at::kBool);
  for (const auto dtype : {kInt64, kInt32, kUInt8}) {
    const Error refused = error(heads, {x.query, x.value, mask.to(dtype)});
    EXPECT_EQ(refused.message(),
              "layer heads: expected a bool attention_mask as the last tensor, was given " +
                  describe(mask.to(dtype)));
    EXPECT_EQ(refused.hint(), "attention_mask is bool, true where it counts: mask.to(kBool)");
  }
  const Error third = error(heads, {x.query, x.value, mask.to(kFloat64)});
  EXPECT_EQ(
      third.message(),
      "layer heads: expected a key with the features of the value float64[2, 4, 6], or a bool "
      "attention_mask, was given float64[2, 3, 4]");
  EXPECT_TRUE(third.hint().starts_with("attention_mask is bool, true where it counts: "));
  const Error fourth = error(heads, {x.query, x.value, x.key, mask.to(kFloat64)});
  EXPECT_TRUE(fourth.message().starts_with("layer heads: expected a bool attention_mask"));
  const Error four_axes = error(heads, {x.query, x.value, mask.to(kFloat64).unsqueeze(1)});
  EXPECT_TRUE(four_axes.message().ends_with("was given float64[2, 1, 3, 4]"));
  // A key as wide as there are steps, which the hint says how to give.
  const Tensor steps = numbers({2, 4, 5}), wide = numbers({2, 4, 4}, 0.7);
  EXPECT_THROW(heads({.tensors = {steps, x.value, wide}}, fixture.context), Error);
  Fixture other;
  EXPECT_NO_THROW(
      heads({.tensors = {steps, x.value, wide, torch::ones({1, 1, 1}, at::kBool)}}, other.context));
  const Error none = error(Attention({.name = "dot"}), {x.query, x.key, mask});
  EXPECT_TRUE(none.message().starts_with("layer dot: expected {query, value} or"));
  EXPECT_TRUE(none.hint().starts_with("it takes no attention_mask: LayerInputs.masks"));
}

}  // namespace
}  // namespace muster::inline v0_1
