// Invariants of row-sparse variables: the results of many replicas, rows that stay unchanged, and
// the comparison with a table that trains as a whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/embedding.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::make_optimizer;
using testing::quiet_config;
using testing::same_bits;

constexpr int64_t kWords = 40;  // rows of the table; the data knows the first 30 only
const std::string kTable = "net/embedding/embeddings";

// Sentences of 5 ids, most of them small, the same id often twice; labels 0 and 1.
Dataset sentences(int64_t rows) {
  Random random(derive_key(4, {id_of("sentences")}));
  Tensor ids = torch::empty({rows, 5}, kInt64), label = torch::empty({rows}, kInt64);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t sum = 0;
    for (int64_t j = 0; j < 5; ++j) {
      const double u = random.uniform();
      const auto id = static_cast<int64_t>(u * u * 30);
      ids[i][j] = id;
      sum += id;
    }
    label[i] = sum > 50 ? 1 : 0;
  }
  return Dataset::from_tensor_slices(Element::tuple({ids, label}));
}

// params: "optimizer", "dense": whether the table trains as a whole.
EstimatorSpec words(const Features& features, const Labels& labels, Mode mode,
                    ModelContext& context) {
  const bool dense = context.params().value("dense", false);
  const auto table = context.model(
      "net", [&] { return Sequential({Embedding(kWords, 4, {.row_sparse = !dense})}); });
  const auto top = context.model("top", [] { return Dense(2); });
  // The table is used twice in a step.
  const Tensor& ids = features;
  const Tensor meaning = table(ids.slice(1, 0, 3)).mean(1) + table(ids.slice(1, 3)).sum(1);
  const Tensor logits = top(meaning);
  const Tensor loss =
      losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  return EstimatorSpec::train(
      loss,
      context.optimizer(make_optimizer(context.params().value("optimizer", "sgd"))).minimize(loss));
}

Checkpoint train(const std::string& model_dir, const distribute::StrategyPtr& strategy,
                 const json& params, int64_t rows, int64_t accumulate_steps = 1,
                 const Environment& environment = {}, std::optional<int64_t> max_steps = {}) {
  RunConfig config = quiet_config(model_dir, strategy, environment);
  config.accumulate_steps = accumulate_steps;
  Estimator(words, config, params)
      .train([&] { return sentences(rows).shuffle(rows).repeat(2).global_batch(12); },
             {.max_steps = max_steps});
  return latest(model_dir);
}

struct RowSparseLawCase {
  std::string optimizer{};
  int64_t rows{};  // 53: a ragged last batch; 25: replicas without data in the last step
  int64_t accumulate_steps{};
};

class RowSparseLawTest : public ::testing::TestWithParam<RowSparseLawCase> {};

TEST_P(RowSparseLawTest, ReplicasComputeWhatOneComputes) {
  const RowSparseLawCase law = GetParam();
  TempDirectory directory;
  const json params{{"optimizer", law.optimizer}};
  const auto on = [&](int n) {
    return train(directory / std::to_string(n), distribute::mirrored({.replicas = n}), params,
                 law.rows, law.accumulate_steps);
  };
  const Checkpoint one = on(1);
  for (int n : {2, 3}) {
    const Checkpoint many = on(n);
    EXPECT_EQ(many.global_step, one.global_step);
    EXPECT_LT(largest_difference(many, one), 1e-5) << n << " replicas";
  }
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    train(directory / "workers", distribute::multi_worker_mirrored(), params, law.rows,
          law.accumulate_steps, cluster.environment(rank));
  });
  EXPECT_TRUE(same_bits(latest(directory / "workers"), latest(directory / "2")));
}
INSTANTIATE_TEST_SUITE_P(
    Cases, RowSparseLawTest,
    ::testing::Values(RowSparseLawCase{"sgd", 60, 1}, RowSparseLawCase{"momentum", 53, 1},
                      RowSparseLawCase{"adam", 25, 1}, RowSparseLawCase{"clipped", 53, 1},
                      RowSparseLawCase{"adam", 53, 3}, RowSparseLawCase{"adagrad", 53, 1}));

TEST(RowSparseTest, WithSgdAndAdagradItIsTheTableThatTrainsAsAWhole) {
  for (const char* optimizer : {"sgd", "clipped", "adagrad"}) {
    TempDirectory directory;
    const Checkpoint sparse =
        train(directory / "sparse", distribute::one_device(), {{"optimizer", optimizer}}, 53);
    const Checkpoint dense = train(directory / "dense", distribute::one_device(),
                                   {{"optimizer", optimizer}, {"dense", true}}, 53);
    EXPECT_LT(largest_difference(sparse, dense), 1e-6) << optimizer;
    EXPECT_FALSE(sparse.tensors.at(kTable).slice(0, 0, 30).equal(
        train(directory / "start", distribute::one_device(), {{"optimizer", optimizer}}, 53, 1, {},
              1)
            .tensors.at(kTable)
            .slice(0, 0, 30)));
  }
}

bool is_first() { return distribute::ReplicaContext::current().replica_id() == 0; }

// Word 1 is in every step, word 2 in the first and the last of four, word 3 in none.
TEST(RowSparseTest, RowsThatAreNotUsedStayAsTheyAreAndTheOthersFollowTheRule) {
  for (const char* optimizer : {"adam", "momentum", "adagrad"}) {
    const auto strategy = distribute::mirrored({.replicas = 2});
    const auto scope = strategy->scope({.environment = Environment()});
    const Layer table = Embedding(4, 2, {.dtype = kFloat64});
    const auto rule = make_optimizer(optimizer);
    // The gradient of a row is its use times this.
    const Tensor slope = torch::tensor({0.5, -2.0}, kFloat64);
    // By the formulas, row by row; Adam's counter counts all updates.
    Tensor expected, first = torch::zeros({4, 2}, kFloat64), second = first.clone();
    for (int step = 0; step < 4; ++step) {
      const bool both = step == 0 || step == 3;
      // Replica 0 sees word 1 once or twice, replica 1 sees both words.
      const auto use = [&] {
        std::vector<int64_t> ids{1};
        if (both && is_first()) ids.push_back(1);
        if (both && !is_first()) ids.push_back(2);
        const Tensor rows = table(torch::tensor(ids, kInt64));
        rule.minimize((rows * slope).sum());
      };
      if (step == 0) {
        strategy->run({.training = false}, [&] { (void)table(torch::zeros({1}, kInt64)); });
        expected = scope.variable("embedding/embeddings");
      }
      strategy->run({.loss_reduction = distribute::ReduceOp::kSum}, use);
      for (int64_t word : {1, 2}) {
        if (word == 2 && !both) continue;
        const double uses = word == 2 ? 1 : (both ? 3 : 2);
        const Tensor gradient = slope * uses;
        Tensor m = first[word], v = second[word], w = expected[word];
        if (std::string(optimizer) == "adam") {
          const double t = step + 1;
          m.add_((gradient - m) * 0.1);
          v.add_((gradient.square() - v) * 0.001);
          const double alpha = 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
          w.sub_(m * alpha / (v.sqrt() + 1e-7));
        } else if (std::string(optimizer) == "adagrad") {
          m.add_(gradient.square());
          w.sub_(0.05 * gradient / ((m + 0.1).sqrt() + 1e-7));
        } else {
          m.mul_(0.9).sub_(gradient * 0.05);
          w.add_(m);
        }
      }
      EXPECT_TRUE(torch::allclose(scope.variable("embedding/embeddings"), expected, 1e-12, 1e-14))
          << optimizer << " step " << step;
    }
    EXPECT_TRUE(scope.variable("embedding/embeddings")[3].equal(expected[3]));
  }
}

TEST(RowSparseTest, ResumeIsBitForBitAndTheCheckpointHoldsTheTable) {
  const auto strategy = distribute::mirrored({.replicas = 2});
  for (const auto& [optimizer, slot] :
       {std::pair("adam", "Adam/v/"), std::pair("adagrad", "Adagrad/accumulator/")}) {
    TempDirectory directory;
    const json params{{"optimizer", optimizer}};
    train(directory / "whole", strategy, params, 53);
    train(directory / "parts", strategy, params, 53, 1, {}, 4);
    const Checkpoint parts = train(directory / "parts", strategy, params, 53);
    EXPECT_TRUE(same_bits(parts, latest(directory / "whole")));
    EXPECT_EQ(parts.tensors.at(kTable).sizes(), at::IntArrayRef({kWords, 4}));
    EXPECT_EQ(parts.tensors.at(slot + kTable).sizes(), at::IntArrayRef({kWords, 4}));
    // A table that trains as a whole has the same names.
    const Checkpoint dense = train(directory / "dense", distribute::one_device(),
                                   {{"optimizer", optimizer}, {"dense", true}}, 53);
    for (const auto& [name, tensor] : dense.tensors)
      EXPECT_EQ(parts.tensors.count(name), 1u) << name;
    Estimator estimator(words, quiet_config(directory / "parts"), params);
    EXPECT_TRUE(estimator.evaluate([] { return sentences(20).batch(10); }).contains("loss"));
  }
}

// Only a table: the numbers of a step are sent without gradients.
TEST(RowSparseTest, AModelOfATableAlone) {
  std::vector<Tensor> tables;
  for (int n : {1, 2, 3}) {
    const auto strategy = distribute::mirrored({.replicas = n});
    const auto scope = strategy->scope({.environment = Environment()});
    const Layer table = Embedding(30, 1);
    const auto sgd = optim::sgd({.learning_rate = 0.5});
    for (const auto& batch : strategy->distribute(sentences(31).batch(6))) {
      strategy->run(
          [&](const Features& ids, const Labels& y) {
            const Tensor& labels = y;
            sgd.minimize(
                losses::mean_squared_error(labels.to(kFloat32).unsqueeze(1), table(ids).sum(1)));
          },
          batch);
    }
    tables.push_back(scope.variable("embedding/embeddings"));
  }
  for (size_t n : {1, 2}) EXPECT_TRUE(torch::allclose(tables[0], tables[n], 1e-5, 1e-6));
}

TEST(RowSparseTest, MistakesAreRefused) {
  const auto strategy = distribute::one_device();
  const auto message = [&](const std::function<void(const Layer&)>& use) {
    const auto scope = strategy->scope({.environment = Environment()});
    const Layer table = Embedding(10, 2);
    return error_of([&] { strategy->run([&] { use(table); }); }).message();
  };
  EXPECT_THAT(
      message([](const Layer& table) {
        table(torch::tensor({{1, 2}, {3, 12}}, kInt64));
      }),
      HasSubstr("the id 12 at [1, 1] of int64[2, 2] is outside of the table embedding/embeddings "
                "float32[10, 2] row-sparse: it has 10 rows"));
  EXPECT_THAT(message([](const Layer& table) { table(torch::tensor({-1}, kInt32)); }),
              HasSubstr("the id -1 at [0]"));
  EXPECT_THAT(message([](const Layer& table) { table(torch::ones({2})); }),
              HasSubstr("expected int64 or int32 ids [batch, ...], was given float32[2]"));
  EXPECT_THAT(message([](const Layer& table) {
                (void)table(torch::ones({2}, kInt64));
                const Tensor whole = distribute::ReplicaContext::current().variable(
                    {.name = "embedding/embeddings", .shape = {10, 2}});
                optim::sgd().minimize(whole.sum());
              }),
              HasSubstr("the row-sparse variable embedding/embeddings was used as a whole"));
  EXPECT_THAT(error_of([] { Embedding(0, 2); }).message(), HasSubstr("input_dim is 0"));
}

}  // namespace
}  // namespace muster::inline v0_1
