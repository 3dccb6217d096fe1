// n workers, each with a part of the examples, train as one process with all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <mutex>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/parallel/cluster.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using testing::alone;
using testing::random;
using testing::run_workers;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : hidden(register_module("hidden", torch::nn::Linear(6, 16))),
        spare(register_module("spare", torch::nn::Linear(16, 16))),
        last(register_module("last", torch::nn::Linear(16, 3))) {}
  Tensor forward(Tensor x, bool use_spare = false) {
    x = torch::tanh(hidden(x));
    if (use_spare) x = torch::tanh(spare(x));
    return last(x);
  }
  torch::nn::Linear hidden, spare, last;
};
TORCH_MODULE(Net);

Net make_net(uint64_t seed) {
  Net net;
  torch::NoGradGuard no_grad;
  uint64_t number = seed;
  for (Tensor& parameter : net->parameters())
    parameter.copy_(random(parameter.sizes().vec(), ++number) * 0.3);
  return net;
}

std::vector<Tensor> values_of(const torch::nn::Module& module) {
  std::vector<Tensor> values;
  for (const Tensor& parameter : module.parameters()) values.push_back(parameter.detach().clone());
  return values;
}

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                 double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE((got[i] - expected[i]).abs().max().item<double>(), tolerance) << "parameter " << i;
  }
}

// What the workers left, in their order.
class Results {
 public:
  explicit Results(int n) : all_(static_cast<size_t>(n)) {}
  void set(int rank, std::vector<Tensor> values) {
    const std::lock_guard lock(mutex_);
    all_[static_cast<size_t>(rank)] = std::move(values);
  }
  const std::vector<Tensor>& operator[](int rank) const { return all_[static_cast<size_t>(rank)]; }
  void expect_equal() const {
    for (size_t r = 1; r < all_.size(); ++r) {
      ASSERT_EQ(all_[r].size(), all_[0].size());
      for (size_t i = 0; i < all_[r].size(); ++i) EXPECT_TRUE(all_[r][i].equal(all_[0][i]));
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<Tensor>> all_;
};

Tensor inputs(int step, int64_t rows) { return random({rows, 6}, 100 + uint64_t(step)); }
Tensor targets(int step, int64_t rows) { return random({rows, 3}, 900 + uint64_t(step)); }
Tensor loss_of(const Tensor& y, const Tensor& t) { return (y - t).pow(2).mean(); }

// A part of the rows of `all` for each worker.
Tensor part(const Tensor& all, const Cluster& cluster) {
  return all.chunk(cluster.size(), 0)[static_cast<size_t>(cluster.rank())];
}

class DataParallelLawTest : public ::testing::TestWithParam<int> {};

TEST_P(DataParallelLawTest, WorkersTrainAsOneProcess) {
  const auto train = [](Cluster& cluster) {
    Net plain = make_net(static_cast<uint64_t>(cluster.rank()));  // the chief's counts
    auto net = cluster.data_parallel(plain);
    torch::optim::Adam adam(plain->parameters(), torch::optim::AdamOptions(1e-2));
    for (int step = 0; step < 8; ++step) {
      adam.zero_grad();
      const bool use_spare = step % 3 == 1;
      loss_of(net(part(inputs(step, 12), cluster), use_spare), part(targets(step, 12), cluster))
          .backward();
      adam.step();
    }
    return values_of(*plain);
  };
  Cluster one(alone());
  const std::vector<Tensor> expected = train(one);
  const int n = GetParam();
  Results results(n);
  run_workers(n, [&](Cluster& cluster) { results.set(cluster.rank(), train(cluster)); });
  results.expect_equal();
  // Sums of float32 in another order, and Adam's division by small numbers in the first steps.
  expect_near(results[0], expected, 2e-5);
}

// Its step computes the loss several times, and looks at the value: the closure returns the mean
// over the workers, so that all of them go the same way.
TEST_P(DataParallelLawTest, LbfgsTakesTheMeanLossOfAClosure) {
  const auto train = [](Cluster& cluster) {
    Net plain = make_net(1);
    plain->to(torch::kFloat64);
    auto net = cluster.data_parallel(plain);
    torch::optim::LBFGS lbfgs(
        plain->parameters(),
        torch::optim::LBFGSOptions(1).max_iter(5).line_search_fn("strong_wolfe"));
    const Tensor x = part(inputs(0, 24), cluster).to(torch::kFloat64),
                 t = part(targets(0, 24), cluster).to(torch::kFloat64);
    Tensor loss;
    for (int step = 0; step < 4; ++step) {
      loss = lbfgs.step([&] {
        lbfgs.zero_grad();
        const Tensor mine = loss_of(net(x, /*use_spare=*/true), t);
        mine.backward();
        return cluster.all_reduce(mine.detach(), ReduceOp::kMean);
      });
    }
    std::vector<Tensor> values = values_of(*plain);
    values.push_back(loss.detach().clone());
    return values;
  };
  Cluster one(alone());
  const std::vector<Tensor> expected = train(one);
  const int n = GetParam();
  Results results(n);
  run_workers(n, [&](Cluster& cluster) { results.set(cluster.rank(), train(cluster)); });
  results.expect_equal();
  // Sums of float64 in another order, which 20 iterations of a quadratic model enlarge.
  expect_near(results[0], expected, 1e-6);
}

TEST_P(DataParallelLawTest, AccumulationWithoutSyncIsOneLargeBatch) {
  const auto train = [](Cluster& cluster, int parts) {
    Net plain = make_net(1);
    auto net = cluster.data_parallel(plain);
    torch::optim::SGD sgd(plain->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 5; ++step) {
      sgd.zero_grad();
      const Tensor x = part(inputs(step, 24), cluster), t = part(targets(step, 24), cluster);
      const auto xs = x.chunk(parts, 0), ts = t.chunk(parts, 0);
      for (int p = 0; p + 1 < parts; ++p) {
        const auto no_sync = net.no_sync();
        (loss_of(net(xs[size_t(p)]), ts[size_t(p)]) / parts).backward();
      }
      (loss_of(net(xs.back()), ts.back()) / parts).backward();
      sgd.step();
    }
    return values_of(*plain);
  };
  Cluster one(alone());
  const std::vector<Tensor> expected = train(one, 1);
  const int n = GetParam();
  Results results(n);
  run_workers(n, [&](Cluster& cluster) { results.set(cluster.rank(), train(cluster, 2)); });
  results.expect_equal();
  // Sums of float32 in another order.
  expect_near(results[0], expected, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Workers, DataParallelLawTest, ::testing::Values(1, 2, 3));

TEST(DataParallelTest, GradientsOfBackwardsWithoutSyncAreAveragedByTheNext) {
  run_workers(2, [](Cluster& cluster) {
    Net plain = make_net(1);
    auto net = cluster.data_parallel(plain);
    const double mine = cluster.rank() + 1;
    {
      const auto no_sync = net.no_sync();
      // This worker alone: d/dw = mine. The spare layer is in no other backward().
      (plain->spare->weight * mine).sum().backward();
      EXPECT_TRUE(plain->spare->weight.grad().eq(mine).all().item<bool>());
    }
    (plain->last->bias * mine).sum().backward();
    EXPECT_TRUE(plain->spare->weight.grad().eq(1.5).all().item<bool>());
    EXPECT_TRUE(plain->last->bias.grad().eq(1.5).all().item<bool>());
    EXPECT_FALSE(plain->hidden->weight.grad().defined());
    // A second backward() adds to the mean.
    (plain->last->bias * mine).sum().backward();
    EXPECT_TRUE(plain->last->bias.grad().eq(3).all().item<bool>());
    EXPECT_TRUE(plain->spare->weight.grad().eq(1.5).all().item<bool>());
  });
}

TEST(DataParallelTest, AParameterThatOneWorkerUsesIsAveragedOverAll) {
  run_workers(2, [](Cluster& cluster) {
    Net plain = make_net(1);
    auto net = cluster.data_parallel(plain);
    for (int step = 0; step < 3; ++step) {
      plain->zero_grad();
      Tensor loss = plain->last->bias.sum() * 2;
      if (cluster.rank() == step % 2) loss = loss + plain->hidden->bias.sum() * 4;
      loss.backward();
      EXPECT_TRUE(plain->last->bias.grad().eq(2).all().item<bool>());
      EXPECT_TRUE(plain->hidden->bias.grad().eq(2).all().item<bool>());
    }
  });
}

TEST(DataParallelTest, AGradientThatNoWorkerTouchesStaysAsItIs) {
  run_workers(3, [](Cluster& cluster) {
    Net plain = make_net(1);
    auto net = cluster.data_parallel(plain);
    const double mine = cluster.rank() + 1;
    (plain->hidden->bias * mine).sum().backward();
    const Tensor kept = torch::full({16}, 0.1f);  // three of which do not add up to 0.3
    plain->hidden->bias.mutable_grad().copy_(kept);
    for (int step = 0; step < 4; ++step) {
      plain->last->bias.mutable_grad().reset();
      (plain->last->bias * mine).sum().backward();
      EXPECT_TRUE(plain->last->bias.grad().eq(2).all().item<bool>());
      EXPECT_TRUE(plain->hidden->bias.grad().equal(kept)) << step;
      plain->hidden->bias.mutable_grad().copy_(kept);
      EXPECT_FALSE(plain->spare->bias.grad().defined());
    }
    // One worker touches it.
    if (cluster.rank() == 1) {
      (plain->hidden->bias * 3).sum().backward();
    } else {
      (plain->last->bias * 0).sum().backward();
    }
    EXPECT_NEAR(plain->hidden->bias.grad()[0].item<double>(), 0.1 + 1, 1e-6);
  });
}

TEST(DataParallelTest, AWorkerWithoutDataTakesPartWithWeightZero) {
  // Worker 0 has five batches, worker 1 two: the mean is over those that have one.
  const auto step_of = [](Net& net, torch::optim::SGD& sgd, const std::vector<Tensor>& losses) {
    sgd.zero_grad();
    torch::stack(losses).mean().backward();
    sgd.step();
    (void)net;
  };
  Net reference = make_net(1);
  torch::optim::SGD sgd(reference->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    std::vector<Tensor> losses;
    for (int rank = 0; rank < (step < 2 ? 2 : 1); ++rank) {
      losses.push_back(
          loss_of(reference->forward(inputs(10 * step + rank, 4)), targets(10 * step + rank, 4)));
    }
    step_of(reference, sgd, losses);
  }
  Results results(2);
  run_workers(2, [&](Cluster& cluster) {
    Net plain = make_net(1);
    auto net = cluster.data_parallel(plain);
    torch::optim::SGD mine(plain->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < (cluster.rank() == 0 ? 5 : 2); ++step) {
      mine.zero_grad();
      const int seed = 10 * step + cluster.rank();
      loss_of(net(inputs(seed, 4)), targets(seed, 4)).backward();
      mine.step();
    }
    cluster.join();
    results.set(cluster.rank(), values_of(*plain));
    // All are there again, and train on together.
    mine.zero_grad();
    loss_of(net(inputs(1, 4)), targets(1, 4)).backward();
  });
  results.expect_equal();
  expect_near(results[0], values_of(*reference), 1e-6);
}

TEST(DataParallelTest, AdversariesTrainInTurn) {
  // Generator and discriminator, each with an optimizer of its own: the backward() of the
  // generator goes through both.
  const auto train = [](Cluster& cluster) {
    auto make = [](int64_t from, int64_t to, uint64_t seed) {
      torch::nn::Linear layer(from, to);
      torch::NoGradGuard no_grad;
      layer->weight.copy_(random({to, from}, seed) * 0.3);
      layer->bias.zero_();
      return layer;
    };
    torch::nn::Linear plain_g = make(4, 6, 1), plain_d = make(6, 1, 2);
    auto g = cluster.data_parallel(plain_g, {.name = "generator"});
    auto d = cluster.data_parallel(plain_d, {.name = "discriminator"});
    torch::optim::Adam adam_g(plain_g->parameters(), torch::optim::AdamOptions(1e-2));
    torch::optim::Adam adam_d(plain_d->parameters(), torch::optim::AdamOptions(1e-2));
    const auto loss_when = [](const Tensor& logits, double is) {
      return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, is));
    };
    for (int step = 0; step < 6; ++step) {
      const Tensor real = part(random({12, 6}, 50 + uint64_t(step)), cluster);
      const Tensor noise = part(random({12, 4}, 70 + uint64_t(step)), cluster);
      adam_d.zero_grad();
      const Tensor fake = g(noise);
      loss_when(d(real), 1).backward();
      loss_when(d(fake.detach()), 0).backward();
      adam_d.step();
      adam_g.zero_grad();
      if (step % 2 == 0) {
        const auto rests = d.no_sync();  // gradients that nobody uses need not travel
        loss_when(d(fake), 1).backward();
      } else {
        loss_when(d(fake), 1).backward();
      }
      adam_g.step();
    }
    std::vector<Tensor> values = values_of(*plain_g);
    for (const Tensor& value : values_of(*plain_d)) values.push_back(value);
    return values;
  };
  Cluster one(alone());
  const std::vector<Tensor> expected = train(one);
  Results results(2);
  run_workers(2, [&](Cluster& cluster) { results.set(cluster.rank(), train(cluster)); });
  results.expect_equal();
  expect_near(results[0], expected, 2e-5);
}

TEST(DataParallelTest, ParametersThatAreFrozenAndMadeTrainableAreNoticed) {
  run_workers(2, [](Cluster& cluster) {
    Net plain = make_net(1);
    plain->hidden->weight.set_requires_grad(false);
    auto net = cluster.data_parallel(plain);
    const Tensor x = random({4, 6}, uint64_t(cluster.rank()));
    net(x).sum().backward();
    EXPECT_FALSE(plain->hidden->weight.grad().defined());
    plain->hidden->weight.set_requires_grad(true);
    plain->zero_grad();
    net(x).sum().backward();
    const Tensor mine = plain->hidden->weight.grad();
    EXPECT_TRUE(cluster.all_reduce(mine, ReduceOp::kMean).equal(mine));
  });
}

TEST(DataParallelTest, BuffersAreAveragedKeptOrTheChiefs) {
  using Buffers = DataParallelOptions::Buffers;
  run_workers(2, [](Cluster& cluster) {
    // The mean that BatchNorm has after one forward on ones times the worker's number plus one.
    const auto mean_after = [&](Buffers buffers) {
      torch::nn::BatchNorm1d plain(torch::nn::BatchNormOptions(1).momentum(1.0));
      auto net = cluster.data_parallel(plain, {.buffers = buffers});
      net(torch::full({4, 1}, cluster.rank() + 1.0));
      net.sync_buffers();
      if (buffers == Buffers::kBroadcast) {
        // The next forward begins with the chief's; momentum 0 changes nothing.
        plain->options.momentum(0.0);
        net(torch::zeros({4, 1}));
      }
      return plain->running_mean.item<double>();
    };
    EXPECT_EQ(mean_after(Buffers::kAverage), 1.5);
    EXPECT_EQ(mean_after(Buffers::kKeep), cluster.rank() + 1);
    EXPECT_EQ(mean_after(Buffers::kBroadcast), 1);
  });
}

// What `fn` makes two workers throw, one line each.
std::string thrown_on_both(const std::function<void(Cluster&)>& fn) {
  std::vector<std::string> messages(2);
  const testing::LocalCluster workers(2);
  testing::run_ranks(2, [&](int rank) {
    messages[static_cast<size_t>(rank)] = error_of([&] {
                                            Cluster cluster(testing::options_of(workers, rank));
                                            fn(cluster);
                                          }).message();
  });
  return messages[0] + "\n" + messages[1];
}

using ::testing::HasSubstr;

Tensor channels_last(const Tensor& value) {
  return value.detach().contiguous(at::MemoryFormat::ChannelsLast);
}

TEST(DataParallelTest, AGradientHasTheOrderInMemoryOfItsParameter) {
  run_workers(2, [](Cluster& cluster) {
    torch::nn::Conv2d layer(2, 3, 3);
    layer->weight.set_data(channels_last(layer->weight));
    auto net = cluster.data_parallel(layer);
    const Tensor x = random({2, 2, 5, 5}, 1 + uint64_t(cluster.rank()));
    net(channels_last(x)).pow(2).sum().backward();
    const Tensor mean = layer->weight.grad();
    EXPECT_EQ(mean.strides(), layer->weight.strides());
    layer->weight.mutable_grad().reset();
    layer->forward(x);
    const auto alone = torch::autograd::grad({layer->forward(x).pow(2).sum()}, {layer->weight});
    const Tensor expected = cluster.all_reduce(alone[0].contiguous(), ReduceOp::kMean);
    EXPECT_TRUE(torch::allclose(mean, expected, 1e-4, 1e-4));
  });
}

TEST(DataParallelTest, RefusesWhatCannotBeAveraged) {
  Cluster one(alone());
  EXPECT_THAT(error_of([&] { one.data_parallel(torch::nn::ReLU()); }).message(),
              HasSubstr("has no parameters that require a gradient"));
  Cluster another(alone());
  const torch::nn::Linear twice(2, 1);
  another.data_parallel(twice, {.name = "twice"});
  EXPECT_THAT(error_of([&] { another.data_parallel(twice); }).message(),
              HasSubstr("data_parallel() was given the module \"twice\" a second time"));
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                const torch::nn::Linear layer(4, cluster.rank() == 0 ? 2 : 3);
                cluster.data_parallel(layer, {.name = "head"});
              }),
              HasSubstr("workers have different modules \"head\": parameter 1 is weight "
                        "float32[2, 4] on the chief, weight float32[3, 4] on replica 1\nworkers "));
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                torch::nn::Conv2d layer(2, 3, 3);
                if (cluster.rank() == 1) layer->weight.set_data(channels_last(layer->weight));
                cluster.data_parallel(layer, {.name = "image"});
              }),
              HasSubstr("parameter 1 is weight float32[3, 2, 3, 3] on the chief, weight "
                        "float32[3, 2, 3, 3] with strides [18, 1, 6, 2] on replica 1"));
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                const torch::nn::Embedding rows(torch::nn::EmbeddingOptions(5, 2).sparse(true));
                auto net = cluster.data_parallel(rows);
                net(torch::arange(3)).sum().backward();
              }),
              HasSubstr("not dense"));
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                const torch::nn::Linear layer(4, 2);
                auto net = cluster.data_parallel(layer);
                net(torch::ones({1, 4})).sum().backward({}, {}, /*create_graph=*/true);
              }),
              HasSubstr("not supported: backward() with create_graph"));
}

struct Moved : torch::nn::Module {
  Moved() { weight = register_parameter("weight", torch::ones({2})); }
  void move() { weight = parameters_["weight"] = torch::empty({2}, at::kMeta).requires_grad_(); }
  Tensor forward(const Tensor& x) { return x * weight; }
  Tensor weight;
};

TEST(DataParallelTest, RefusesAModuleThatWasMovedAndOneOfComplexNumbers) {
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                auto layer = std::make_shared<Moved>();
                auto net = cluster.data_parallel(layer, {.name = "net"});
                layer->move();
                net(torch::ones({2}));
              }),
              HasSubstr("the parameter weight of the module \"net\" is on meta, the Cluster's "
                        "device is cpu"));
  struct Waves : torch::nn::Module {
    Waves() { register_parameter("phase", torch::zeros({2}, at::kComplexFloat)); }
  };
  Cluster one(alone());
  EXPECT_THAT(error_of([&] { one.data_parallel(std::make_shared<Waves>()); }).message(),
              HasSubstr("not supported: training the parameter phase ComplexFloat[2]"));
}

TEST(DataParallelTest, AModuleOfAnotherDtypeIsNoticed) {
  run_workers(2, [](Cluster& cluster) {
    torch::nn::Linear layer(2, 1);
    auto net = cluster.data_parallel(layer);
    layer->to(kFloat64);
    net(torch::full({1, 2}, cluster.rank() + 1.0, kFloat64)).sum().backward();
    EXPECT_TRUE(layer->weight.grad().equal(torch::full({1, 2}, 1.5, kFloat64)));
  });
}

TEST(DataParallelTest, RefusesAStepWithGradientsThatWereNotAveraged) {
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                const torch::nn::Linear layer(4, 2);
                auto net = cluster.data_parallel(layer, {.name = "net"});
                torch::optim::SGD sgd(layer->parameters(), 0.1);
                const auto step = [&] {
                  const auto no_sync = net.no_sync();
                  net(torch::ones({1, 4})).sum().backward();
                };
                step();
                step();  // adding gradients up is right
                sgd.step();
                step();
              }),
              HasSubstr("the parameters of \"net\" were changed, by an optimizer's step()"));
}

TEST(DataParallelTest, RefusesSuchAStepAlsoWhereFewNumbersMove) {
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                const torch::nn::Embedding rows(5, 2);
                auto net = cluster.data_parallel(rows, {.name = "net"});
                torch::optim::SGD sgd(rows->parameters(), 0.1);
                {
                  const auto no_sync = net.no_sync();
                  net(torch::full({1}, 3, at::kLong)).sum().backward();
                }
                sgd.step();
                net(torch::zeros({1}, at::kLong));
              }),
              HasSubstr("the parameters of \"net\" were changed, by an optimizer's step()"));
}

TEST(DataParallelTest, WorkersInDifferentCallsAreNamed) {
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                const torch::nn::Linear layer(4, 2);
                auto net = cluster.data_parallel(layer, {.name = "net"});
                if (cluster.is_chief()) {
                  net(torch::ones({1, 4})).sum().backward();
                } else {
                  cluster.barrier();
                }
              }),
              HasSubstr("workers came to different calls: worker 0 to a backward() of \"net\", "
                        "worker 1 to barrier()\nworkers came"));
  EXPECT_THAT(thrown_on_both([](Cluster& cluster) {
                if (cluster.is_chief()) {
                  cluster.all_reduce(torch::ones({2}));
                } else {
                  cluster.join();
                }
              }),
              HasSubstr("worker 1"));
}

}  // namespace
}  // namespace muster::inline v0_1
