// n workers with SyncBatchNorm compute what one process computes with all of their examples.
#include "muster/parallel/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <mutex>
#include <sstream>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/parallel/cluster.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using testing::alone;
using ::testing::HasSubstr;
using testing::random;
using testing::run_workers;

template <typename Norm>
struct ImageNetImpl : torch::nn::Module {
  ImageNetImpl()
      : first(register_module("first", Norm(torch::nn::BatchNormOptions(2).affine(false)))),
        conv(register_module("conv", torch::nn::Conv2d(2, 3, 3))),
        norm(register_module("norm", Norm(torch::nn::BatchNormOptions(3).momentum(c10::nullopt)))),
        last(register_module("last", torch::nn::Linear(3, 4))) {
    torch::NoGradGuard no_grad;
    uint64_t seed = 0;
    for (Tensor& parameter : this->parameters())
      parameter.copy_(random(parameter.sizes().vec(), ++seed));
    this->to(kFloat64);
  }
  Tensor forward(const Tensor& x) { return last(torch::tanh(norm(conv(first(x)))).mean({2, 3})); }
  Norm first;
  torch::nn::Conv2d conv;
  Norm norm;
  torch::nn::Linear last;
};

struct Outcome {
  std::vector<Tensor> outputs{}, input_gradients{};  // by step: those of this worker
  std::vector<Tensor> state{};                       // parameters and buffers after training
};

// The rows of worker `rank` of n: 3, 4, 5, ... of them. Large means: differences of squares would
// lose their digits.
Tensor batch_of(int step, int rank) {
  return random({3 + rank, 2, 5, 5}, 100 * uint64_t(step) + uint64_t(rank)).to(kFloat64) * 3 + 1000;
}

template <typename Net>
Outcome train(Cluster& cluster, const std::shared_ptr<Net>& plain,
              const std::function<Tensor(int step)>& batch) {
  plain->train();
  auto net = cluster.data_parallel(plain, {.name = "net"});
  torch::optim::SGD sgd(plain->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  Outcome outcome;
  for (int step = 0; step < 4; ++step) {
    Tensor x = batch(step).requires_grad_();
    sgd.zero_grad();
    const Tensor y = net(x);
    // The mean over workers of n times their sums is the sum over all examples.
    (y.pow(3).sum() * cluster.size() / 10).backward();
    outcome.outputs.push_back(y.detach());
    outcome.input_gradients.push_back(x.grad() / cluster.size());
    sgd.step();
  }
  for (const Tensor& value : plain->parameters()) outcome.state.push_back(value.detach().clone());
  for (const Tensor& value : plain->buffers()) outcome.state.push_back(value.clone());
  return outcome;
}

void expect_near(const Tensor& got, const Tensor& expected, const std::string& what) {
  const double scale = std::max(1.0, expected.abs().max().item<double>());
  // Sums of float64 in another order, over four steps.
  EXPECT_LE((got - expected).abs().max().item<double>(), 1e-10 * scale) << what;
}

class SyncBatchNormLawTest : public ::testing::TestWithParam<int> {};

TEST_P(SyncBatchNormLawTest, WorkersWithUnevenBatchesTrainAsOneProcess) {
  const int n = GetParam();
  auto reference = std::make_shared<ImageNetImpl<torch::nn::BatchNorm2d>>();
  Cluster one(alone());
  const Outcome expected = train(one, reference, [&](int step) {
    std::vector<Tensor> rows;
    for (int r = 0; r < n; ++r) rows.push_back(batch_of(step, r));
    return torch::cat(rows);
  });
  std::mutex mutex;
  run_workers(n, [&](Cluster& cluster) {
    auto plain = std::make_shared<ImageNetImpl<SyncBatchNorm>>();
    const int rank = cluster.rank();
    const Outcome mine = train(cluster, plain, [&](int step) { return batch_of(step, rank); });
    const std::lock_guard lock(mutex);
    int64_t begin = 0;
    for (int r = 0; r < rank; ++r) begin += 3 + r;
    for (size_t step = 0; step < mine.outputs.size(); ++step) {
      const auto rows = [&](const Tensor& all) { return all.narrow(0, begin, 3 + rank); };
      expect_near(mine.outputs[step], rows(expected.outputs[step]), "outputs");
      expect_near(mine.input_gradients[step], rows(expected.input_gradients[step]),
                  "gradients of inputs");
    }
    ASSERT_EQ(mine.state.size(), expected.state.size());
    for (size_t i = 0; i < mine.state.size(); ++i)
      expect_near(mine.state[i], expected.state[i], "state " + std::to_string(i));
  });
}

INSTANTIATE_TEST_SUITE_P(Workers, SyncBatchNormLawTest, ::testing::Values(2, 3));

TEST(SyncBatchNormTest, AWorkerThatHasJoinedCountsAsNoExamples) {
  // Worker 0 has three batches, worker 1 one: the statistics are those of the examples there are.
  torch::nn::BatchNorm1d reference(2);
  reference->to(kFloat64);
  const auto rows = [](int step, int rank) {
    return random({4 + rank, 2}, 10 * uint64_t(step) + uint64_t(rank)).to(kFloat64);
  };
  reference(torch::cat({rows(0, 0), rows(0, 1)}));
  for (int step = 1; step < 3; ++step) reference(rows(step, 0));
  run_workers(2, [&](Cluster& cluster) {
    SyncBatchNorm plain(2);
    plain->to(kFloat64);
    auto net = cluster.data_parallel(plain, {.buffers = DataParallelOptions::Buffers::kKeep});
    for (int step = 0; step < (cluster.rank() == 0 ? 3 : 1); ++step)
      net(rows(step, cluster.rank()).requires_grad_()).pow(3).sum().backward();
    cluster.join();
    expect_near(plain->running_mean, reference->running_mean, "mean");
    expect_near(plain->running_var, reference->running_var, "variance");
  });
}

TEST(SyncBatchNormTest, AWorkerMayBringABatchWithoutRows) {
  run_workers(2, [&](Cluster& cluster) {
    SyncBatchNorm plain(2);
    auto net = cluster.data_parallel(plain);
    const Tensor x = random({cluster.rank() == 0 ? 4 : 0, 2}, 1).requires_grad_();
    net(x).pow(3).sum().backward();
    torch::nn::BatchNorm1d reference(2);
    reference(random({4, 2}, 1));
    EXPECT_LE((plain->running_mean - reference->running_mean).abs().max().item<double>(), 1e-7);
    EXPECT_EQ(x.grad().sizes(), x.sizes());
    EXPECT_TRUE(plain->weight.grad().isfinite().all().item<bool>());
  });
}

TEST(SyncBatchNormTest, GradientsAreThoseOfFiniteDifferencesOverWorkers) {
  run_workers(2, [](Cluster& cluster) {
    SyncBatchNorm plain(2);
    plain->to(kFloat64);
    auto net = cluster.data_parallel(plain);
    EXPECT_TRUE(plain->connected());
    const int rank = cluster.rank();
    const Tensor x = random({3 + rank, 2, 2}, uint64_t(rank)).to(kFloat64);
    const Tensor weights = random({3 + rank, 2, 2}, 7 + uint64_t(rank)).to(kFloat64);
    const auto loss_of = [&](const Tensor& input) { return (net(input).pow(2) * weights).sum(); };
    Tensor input = x.clone().requires_grad_();
    loss_of(input).backward();
    constexpr double kStep = 1e-5;
    for (int64_t i = 0; i < 12; ++i) {
      // An example of worker 0 moves the loss of both.
      const auto moved = [&](double by) {
        Tensor there = x.clone();
        if (rank == 0) there.view({-1})[i] += by;
        return cluster.all_reduce(loss_of(there).detach()).item<double>();
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      if (rank != 0) continue;
      // The error of the difference: kStep^2 times a third derivative below 10.
      EXPECT_NEAR(input.grad().view({-1})[i].item<double>(), slope, 1e-8) << i;
    }
  });
}

TEST(SyncBatchNormTest, BeforeDataParallelAndInEvaluationItIsABatchNorm) {
  torch::nn::BatchNorm3d reference(torch::nn::BatchNormOptions(2).eps(1e-3));
  SyncBatchNorm norm(torch::nn::BatchNormOptions(2).eps(1e-3));
  const Tensor x = random({2, 2, 3, 2, 2}, 1);
  EXPECT_TRUE(norm(x).equal(reference(x)));
  EXPECT_EQ(norm->named_parameters().keys(), reference->named_parameters().keys());
  EXPECT_EQ(norm->named_buffers().keys(), reference->named_buffers().keys());
  std::stringstream file;
  torch::save(reference, file);
  torch::load(norm, file);
  norm->eval();
  reference->eval();
  run_workers(2, [&](Cluster& cluster) {
    const auto copy = std::dynamic_pointer_cast<SyncBatchNormImpl>(norm->clone());
    auto net = cluster.data_parallel(copy);
    // Evaluation sends nothing: one worker alone may do it.
    if (cluster.is_chief()) {
      EXPECT_TRUE(net(x).equal(reference(x)));
    }
  });
}

struct Blocks : torch::nn::Cloneable<Blocks> {
  Blocks() { reset(); }
  void reset() override {
    body = register_module(
        "body",
        torch::nn::Sequential(torch::nn::Conv2d(1, 2, 3),
                              torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(2).eps(1e-2)),
                              torch::nn::Flatten(), torch::nn::BatchNorm1d(8)));
  }
  Tensor forward(const Tensor& x) { return body->forward(x); }
  torch::nn::Sequential body{nullptr};
};

TEST(SyncBatchNormTest, ConvertsTheLayersOfSequentials) {
  auto net = std::make_shared<Blocks>();
  net->forward(random({4, 1, 4, 4}, 1));
  auto before = std::dynamic_pointer_cast<Blocks>(net->clone());
  torch::optim::SGD sgd(net->parameters(), 0.1);
  convert_sync_batchnorm(*net);
  ASSERT_NE(net->body[1]->as<SyncBatchNormImpl>(), nullptr);
  ASSERT_NE(net->body[3]->as<SyncBatchNormImpl>(), nullptr);
  EXPECT_EQ(net->body[1]->as<SyncBatchNormImpl>()->options.eps(), 1e-2);
  EXPECT_EQ(net->named_parameters().keys(), before->named_parameters().keys());
  EXPECT_EQ(net->named_buffers().keys(), before->named_buffers().keys());
  const auto known = sgd.param_groups()[0].params(), now = net->parameters();
  ASSERT_EQ(known.size(), now.size());
  for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(known[i].is_same(now[i]));
  const Tensor x = random({4, 1, 4, 4}, 2);
  EXPECT_TRUE(net->forward(x).equal(before->forward(x)));
  net->eval();
  before->eval();
  EXPECT_TRUE(net->forward(x).equal(before->forward(x)));
  // A layer that is converted after data_parallel() is connected at the next forward().
  run_workers(2, [&](Cluster& cluster) {
    torch::nn::Sequential plain(torch::nn::BatchNorm1d(1));
    auto wrapped = cluster.data_parallel(plain);
    convert_sync_batchnorm(plain);
    wrapped->forward(torch::full({4, 1}, double(cluster.rank())));
    EXPECT_TRUE(plain[0]->as<SyncBatchNormImpl>()->running_mean.equal(torch::full({1}, 0.05)));
  });
}

TEST(SyncBatchNormTest, RefusesWhatItCannotConvert) {
  ImageNetImpl<torch::nn::BatchNorm2d> net;
  const Error error = error_of([&] { convert_sync_batchnorm(net); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("not part of a torch::nn::Sequential: first, norm"));
  EXPECT_THAT(error.hint(), HasSubstr("muster::SyncBatchNorm"));
}

// The message of the error that `fn` makes worker 0 of two throw.
std::string thrown_on_two(const std::function<void(Cluster&, SyncBatchNorm&)>& fn) {
  std::string message;
  const testing::LocalCluster workers(2);
  testing::run_ranks(2, [&](int rank) {
    const Error error = error_of([&] {
      Cluster cluster(testing::options_of(workers, rank));
      SyncBatchNorm norm(2);
      cluster.data_parallel(norm, {.name = "norm"});
      fn(cluster, norm);
    });
    if (rank == 0) message = error.message();
  });
  return message;
}

TEST(SyncBatchNormTest, RefusesByName) {
  SyncBatchNorm norm(2);
  EXPECT_THAT(error_of([&] {
                norm->forward(torch::ones({4, 3}));
              }).message(),
              HasSubstr("SyncBatchNorm(2) was given an input float32[4, 3]"));
  EXPECT_THAT(thrown_on_two([](Cluster& cluster, SyncBatchNorm& layer) {
                layer(torch::ones({cluster.is_chief() ? 1 : 0, 2}));
              }),
              HasSubstr("all workers together have 1 value for each channel"));
  EXPECT_THAT(thrown_on_two([](Cluster& cluster, SyncBatchNorm& layer) {
                if (cluster.is_chief()) {
                  layer(torch::ones({4, 2}));
                } else {
                  cluster.barrier();
                }
              }),
              HasSubstr("worker 0 to a forward() of the SyncBatchNorm \"norm\", worker 1 to "
                        "barrier()"));
  EXPECT_THAT(thrown_on_two([](Cluster&, SyncBatchNorm& layer) {
                const Tensor x = random({4, 2}, 1).requires_grad_();
                torch::autograd::grad({layer(x).pow(3).sum()}, {x}, {}, true,
                                      /*create_graph=*/true);
              }),
              HasSubstr("not supported: backward() with create_graph through a SyncBatchNorm"));
  SyncBatchNorm left(2);
  run_workers(2, [&](Cluster& cluster) {
    if (cluster.is_chief()) {
      cluster.data_parallel(left);
    } else {
      cluster.data_parallel(SyncBatchNorm(2));
    }
  });
  EXPECT_THAT(error_of([&] { left(torch::ones({4, 2})); }).message(), HasSubstr("is over"));
}

}  // namespace
}  // namespace muster::inline v0_1
