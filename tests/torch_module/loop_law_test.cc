// Modules and optimizers of LibTorch in loops by hand: a GAN with several steps of its critic, next
// to the same loop in LibTorch alone.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/loop/scope.h"
#include "muster/optim/torch_optimizer.h"
#include "tests/torch_module/nets.h"

namespace muster::torch_nets {
namespace {

using distribute::ReplicaContext;
using muster::testing::LocalCluster;
using muster::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kNoise = 3, kPoint = 2, kRows = 12;
constexpr int kCriticSteps = 2;

struct Generator : torch::nn::Module {
  Generator() {
    fc1 = register_module("fc1", torch::nn::Linear(kNoise, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, kPoint));
  }
  Tensor forward(const Tensor& z) { return fc2(torch::tanh(fc1(z))); }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

struct Critic : torch::nn::Module {
  Critic() {
    fc1 = register_module("fc1", torch::nn::Linear(kPoint, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 1));
  }
  Tensor forward(const Tensor& x) { return fc2(torch::relu(fc1(x))); }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

// Data of a step: a function of its number.
Tensor noise(int64_t step) {
  return torch::arange(kRows * kNoise)
      .to(kFloat32)
      .mul(0.37 + 0.01 * double(step))
      .sin()
      .view({kRows, kNoise});
}
Tensor real(int64_t step) {
  return torch::arange(kRows * kPoint)
      .to(kFloat32)
      .mul(0.21 + 0.01 * double(step))
      .cos()
      .view({kRows, kPoint});
}

template <typename MakeCritic, typename MakeFake>
Tensor critic_loss(MakeCritic& critic, MakeFake& generator, const Tensor& z, const Tensor& x) {
  return critic->forward(generator->forward(z).detach()).mean() - critic->forward(x).mean();
}
template <typename MakeCritic, typename MakeFake>
Tensor generator_loss(MakeCritic& critic, MakeFake& generator, const Tensor& z) {
  return -critic->forward(generator->forward(z)).mean();
}

bool of_critic(const VariableSpec& spec) { return spec.name.starts_with("critic/"); }
bool of_generator(const VariableSpec& spec) { return spec.name.starts_with("generator/"); }
const torch::optim::AdamOptions kCriticOptions = torch::optim::AdamOptions(2e-2).betas({0.5, 0.9});
const torch::optim::SGDOptions kGeneratorOptions = torch::optim::SGDOptions(5e-2).momentum(0.9);

// A loop in a scope. A step trains one of the two.
class Gan {
 public:
  explicit Gan(distribute::StrategyPtr strategy, const Environment& environment = {})
      : strategy_(std::move(strategy)),
        scope_(strategy_->scope({.seed = 5, .environment = environment})) {}

  // Steps until there are `last`.
  void train(int64_t last) {
    while (scope_.step() < last) {
      const int64_t step = scope_.step();
      if (step % (kCriticSteps + 1) < kCriticSteps) {
        strategy_->run([&] {
          auto& here = ReplicaContext::current();
          const auto generator = torch_module<Generator>(here, "generator");
          const auto critic = torch_module<Critic>(here, "critic");
          critic_adam_.minimize(critic_loss(critic, generator, part(noise(step)), part(real(step))),
                                of_critic);
        });
      } else {
        strategy_->run([&] {
          auto& here = ReplicaContext::current();
          const auto generator = torch_module<Generator>(here, "generator");
          const auto critic = torch_module<Critic>(here, "critic");
          generator_sgd_.minimize(generator_loss(critic, generator, part(noise(step))),
                                  of_generator);
        });
      }
    }
  }
  const distribute::Scope& scope() const { return scope_; }
  std::map<std::string, Tensor> tensors() const {
    std::map<std::string, Tensor> copies;
    for (const auto& [name, tensor] : scope_.state().tensors) copies[name] = tensor.clone();
    return copies;
  }

 private:
  // The rows of this replica.
  static Tensor part(const Tensor& all) {
    const ReplicaContext& here = ReplicaContext::current();
    const int64_t rows = all.size(0) / here.num_replicas_in_sync();
    return all.narrow(0, here.replica_id() * rows, rows);
  }

  const distribute::StrategyPtr strategy_;
  distribute::Scope scope_;
  const optim::Optimizer critic_adam_ = optim::torch_optimizer(kCriticOptions).named("D"),
                         generator_sgd_ = optim::torch_optimizer(kGeneratorOptions).named("G");
};

std::map<std::string, Tensor> trained(const distribute::StrategyPtr& strategy, int64_t last) {
  Gan gan(strategy);
  gan.train(last);
  return gan.tensors();
}

// The same loop without Muster, from the same initial values.
std::map<std::string, Tensor> plain_loop(int64_t last, const std::map<std::string, Tensor>& begin) {
  const auto generator = std::make_shared<Generator>();
  const auto critic = std::make_shared<Critic>();
  const auto all = [&](const auto& fn) {
    for (const auto& [prefix, module] :
         {std::pair<std::string, torch::nn::Module*>("generator/", generator.get()),
          {"critic/", critic.get()}}) {
      for (const auto& item : module->named_parameters()) {
        std::string name = prefix + item.key();
        std::ranges::replace(name, '.', '/');
        fn(name, item.value());
      }
    }
  };
  {
    const torch::NoGradGuard no_grad;
    all([&](const std::string& name, const Tensor& value) { Tensor(value).copy_(begin.at(name)); });
  }
  torch::optim::Adam adam(critic->parameters(), kCriticOptions);
  torch::optim::SGD sgd(generator->parameters(), kGeneratorOptions);
  for (int64_t step = 0; step < last; ++step) {
    if (step % (kCriticSteps + 1) < kCriticSteps) {
      adam.zero_grad();
      critic_loss(critic, generator, noise(step), real(step)).backward();
      adam.step();
    } else {
      sgd.zero_grad();
      generator_loss(critic, generator, noise(step)).backward();
      sgd.step();
    }
  }
  std::map<std::string, Tensor> values;
  all([&](const std::string& name, const Tensor& value) { values[name] = value.detach(); });
  return values;
}

// What modules of this seed begin with.
std::map<std::string, Tensor> initial_values() {
  const auto strategy = distribute::one_device();
  const auto scope = strategy->scope({.seed = 5, .environment = Environment()});
  std::map<std::string, Tensor> values;
  strategy->run({.training = false}, [&] {
    auto& here = ReplicaContext::current();
    (void)torch_module<Generator>(here, "generator");
    (void)torch_module<Critic>(here, "critic");
  });
  for (const std::string& name : scope.variable_names()) values[name] = scope.variable(name);
  return values;
}

TEST(LoopLaw, OneReplicaHasTheBitsOfThePlainLoop) {
  const auto mine = trained(distribute::one_device(), 9);
  for (const auto& [name, value] : plain_loop(9, initial_values()))
    EXPECT_TRUE(mine.at(name).equal(value)) << name;
  EXPECT_EQ(mine.at("D/iterations").item<int64_t>(), 6);
  EXPECT_EQ(mine.at("G/iterations").item<int64_t>(), 3);
}

// Replicas add in their order: the bits of two replicas are the same for threads and processes, and
// those of one to rounding.
TEST(LoopLaw, TwoReplicasAndTwoWorkersComputeWhatOneComputes) {
  const auto of_one = trained(distribute::one_device(), 9),
             of_two = trained(distribute::mirrored({.replicas = 2}), 9);
  for (const auto& [name, tensor] : of_one)
    EXPECT_TRUE(torch::allclose(tensor.to(kFloat64), of_two.at(name).to(kFloat64), 1e-4, 1e-6))
        << name;
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    Gan mine(distribute::multi_worker_mirrored(), cluster.environment(rank));
    mine.train(9);
    for (const auto& [name, tensor] : mine.tensors())
      EXPECT_TRUE(tensor.equal(of_two.at(name))) << name << " on worker " << rank;
  });
}

TEST(LoopLaw, AKilledRunContinuesExactly) {
  // The child begins this test again, so its directory has a name that both know.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string folder = ::testing::TempDir() + "loop_law_test_killed";
  // 4: the generator has made a step; 2: it has made none; 1: only the critic is known.
  for (const int64_t killed_after : {1, 2, 4}) {
    const std::string directory = folder + std::to_string(killed_after);
    EXPECT_EXIT(
        {
          std::filesystem::remove_all(directory);
          Gan gan(distribute::one_device());
          gan.train(killed_after);
          gan.scope().save(directory);
          gan.train(killed_after + 1);
          raise(SIGKILL);
        },
        ::testing::KilledBySignal(SIGKILL), "");
  }
  const auto whole = trained(distribute::one_device(), 12);
  for (const int64_t killed_after : {1, 2, 4}) {
    const std::string directory = folder + std::to_string(killed_after);
    Gan gan(distribute::one_device());
    ASSERT_TRUE(gan.scope().restore(directory));
    EXPECT_EQ(gan.scope().step(), killed_after);
    gan.train(12);
    const auto mine = gan.tensors();
    for (const auto& [name, tensor] : whole)
      EXPECT_TRUE(tensor.equal(mine.at(name))) << name << " after " << killed_after;
    std::filesystem::remove_all(directory);
  }
}

// Statistics of BatchNorm, dropout and evaluation.
TEST(LoopLaw, ModulesAreInTheModeOfTheCall) {
  const auto strategy = distribute::one_device();
  const auto scope = strategy->scope({.seed = 5, .environment = Environment()});
  const auto sgd = optim::torch_optimizer(torch::optim::SGDOptions(0.1));
  const Tensor x = torch::arange(4 * kFeatures).to(kFloat32).sin().view({4, kFeatures});
  const auto call = [&] { return torch_module<Normed>(ReplicaContext::current(), "net", 0.5)(x); };
  strategy->run([&] { sgd.minimize(call().square().mean()); });
  const Tensor mean = scope.variable("net/body/1/running_mean");
  EXPECT_GT(mean.abs().max().item<double>(), 0);
  EXPECT_EQ(scope.variable("net/body/1/num_batches_tracked").item<int64_t>(), 1);
  const Tensor once = strategy->run({.training = false}, call)[0],
               again = strategy->run({.training = false}, call)[0];
  EXPECT_TRUE(once.equal(again)) << "dropout in an evaluation";
  EXPECT_TRUE(mean.equal(scope.variable("net/body/1/running_mean")));
}

// A tensor belongs to one replica: the module that all threads share is refused by name.
TEST(LoopLaw, AModuleOfSeveralReplicasIsRefused) {
  const auto strategy = distribute::mirrored({.replicas = 2});
  const auto scope = strategy->scope({.environment = Environment()});
  const auto shared = std::make_shared<Critic>();
  const Error refused = error_of([&] {
    strategy->run(
        [&] { (void)torch_module(ReplicaContext::current(), "critic", [&] { return shared; }); });
  });
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("critic/fc1/weight is in use already")));
}

}  // namespace
}  // namespace muster::torch_nets
