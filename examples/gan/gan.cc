// Two networks that train against each other, each with an optimizer of its own, on one worker or
// several: a generator learns to draw points from a ring.
//
// Expected: after 1,500 steps the points of the generator are as far from the center as those of
// the ring, 2 (between 1.7 and 2.3), on any number of workers.
#include <muster/parallel.h>
#include <muster/program/run_main.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

torch::nn::Sequential network(int64_t from, int64_t to) {
  using torch::nn::Linear, torch::nn::Tanh;
  return torch::nn::Sequential(Linear(from, 32), Tanh(), Linear(32, 32), Tanh(), Linear(32, to));
}

// Points of the ring, [n, 2], and noise for the generator, [n, 4]: this worker's of a step.
struct Batch {
  Batch(const muster::Cluster& cluster, int64_t step, int64_t n) {
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step));
    const auto part = [&](const torch::Tensor& all) {
      return all.chunk(cluster.size(), 0)[static_cast<size_t>(cluster.rank())];
    };
    const auto angle = part(torch::rand({n}, generator, torch::kFloat32)) * 2 * M_PI;
    real = torch::stack({2 * angle.cos(), 2 * angle.sin()}, 1);
    noise = part(torch::randn({n, 4}, generator, torch::kFloat32));
  }
  torch::Tensor real, noise;
};

torch::Tensor loss_as(const torch::Tensor& logits, double label) {
  return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, label));
}

void train(int64_t steps) {
  muster::Cluster cluster;
  torch::manual_seed(3);
  auto generator_net = network(4, 2), discriminator_net = network(2, 1);
  auto generator = cluster.data_parallel(generator_net, {.name = "generator"});
  auto discriminator = cluster.data_parallel(discriminator_net, {.name = "discriminator"});
  const auto adam = [](const torch::nn::Sequential& net) {
    return torch::optim::Adam(net->parameters(), torch::optim::AdamOptions(2e-3).betas({0.5, 0.9}));
  };
  auto adam_g = adam(generator_net), adam_d = adam(discriminator_net);

  for (int64_t step = 0; step < steps; ++step) {
    const Batch batch(cluster, step, 128);
    const auto fake = generator(batch.noise);
    adam_d.zero_grad();
    (loss_as(discriminator(batch.real), 1) + loss_as(discriminator(fake.detach()), 0)).backward();
    adam_d.step();
    adam_g.zero_grad();
    {
      const auto rests = discriminator.no_sync();  // its gradients of this loss are not used
      loss_as(discriminator(fake), 1).backward();
    }
    adam_g.step();
  }
  const torch::NoGradGuard no_grad;
  const auto far = generator(Batch(cluster, steps, 4096).noise).norm(2, 1);
  const auto mean = cluster.all_reduce(far.mean(), muster::ReduceOp::kMean).item<double>();
  if (cluster.is_chief()) std::printf("distance from the center %.2f\n", mean);
}

int main() {
  muster::guard_main();
  train(1500);
}
