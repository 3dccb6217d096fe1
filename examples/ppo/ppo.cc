// Reinforcement learning by proximal policy optimization (PPO), on one worker or several: a policy
// learns to balance a pole on a cart. The environment is in this file. 32 environments are divided
// between the workers; each has random numbers of its own, so any number of workers sees the same
// episodes, until the rounding of sums changes a push. Source: Schulman et al., Proximal Policy
// Optimization Algorithms, arXiv:1707.06347; the equations of the cart: Barto, Sutton and Anderson,
// 1983.
//
// Expected: an episode lasts about 20 steps before training, and more than 150 of at most 200 after
// 20 rounds; up to round 10 two workers print the numbers of one.
#include <muster/parallel.h>
#include <muster/program/run_main.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

constexpr int64_t kEnvironments = 32, kSteps = 128, kRounds = 20, kPasses = 4, kLongest = 200;
constexpr double kDiscount = 0.99, kLambda = 0.95, kClip = 0.2;

// A cart on a track with a pole on it: it is pushed to the left (0) or to the right (1).
class CartPole {
 public:
  explicit CartPole(int64_t number) : random_(static_cast<uint64_t>(number)) { begin(); }

  // Position, speed, angle and angular speed: [4].
  const std::vector<double>& state() const { return state_; }
  // A number between 0 and 1, of this environment.
  double draw() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  // Pushes the cart. Returns whether the episode is over; the next one has begun then.
  bool push(bool right) {
    constexpr double kTime = 0.02, kGravity = 9.8, kPole = 0.1, kBoth = 1.1, kHalf = 0.5;
    const double angle = state_[2], turn = state_[3];
    const double force =
        ((right ? 10.0 : -10.0) + kPole * kHalf * turn * turn * std::sin(angle)) / kBoth;
    const double bend = (kGravity * std::sin(angle) - std::cos(angle) * force) /
                        (kHalf * (4.0 / 3 - kPole * std::cos(angle) * std::cos(angle) / kBoth));
    const double push = force - kPole * kHalf * bend * std::cos(angle) / kBoth;
    state_ = {state_[0] + kTime * state_[1], state_[1] + kTime * push, angle + kTime * turn,
              turn + kTime * bend};
    const bool over =
        ++length_ == kLongest || std::abs(state_[0]) > 2.4 || std::abs(state_[2]) > 0.2095;
    if (!over) return false;
    ++episodes_;
    steps_ += length_;
    begin();
    return true;
  }
  // Steps and episodes that have ended since the last call.
  std::pair<int64_t, int64_t> take_ended() {
    return {std::exchange(steps_, 0), std::exchange(episodes_, 0)};
  }

 private:
  void begin() {
    length_ = 0;
    for (double& each : state_) each = 0.1 * draw() - 0.05;
  }
  std::mt19937_64 random_;
  std::vector<double> state_ = std::vector<double>(4);
  int64_t length_ = 0, steps_ = 0, episodes_ = 0;
};

struct ActorCriticImpl : torch::nn::Module {
  // Log-probabilities of the two pushes, [n, 2], and the expected return, [n].
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& states) {
    return {torch::log_softmax(actor->forward(states), 1), critic->forward(states).squeeze(1)};
  }
  static torch::nn::Sequential network(int64_t outputs) {
    using torch::nn::Linear, torch::nn::Tanh;
    return torch::nn::Sequential(Linear(4, 64), Tanh(), Linear(64, 64), Tanh(),
                                 Linear(64, outputs));
  }
  torch::nn::Sequential actor = register_module("actor", network(2));
  torch::nn::Sequential critic = register_module("critic", network(1));
};
TORCH_MODULE(ActorCritic);

// What the policy did in the environments of this worker: [kSteps, environments, ...].
struct Rollout {
  torch::Tensor states, pushes, chances, returns, advantages;
};

torch::Tensor states_of(const std::vector<CartPole>& carts) {
  std::vector<torch::Tensor> rows;
  for (const CartPole& cart : carts) rows.push_back(torch::tensor(cart.state(), torch::kFloat64));
  return torch::stack(rows);
}

Rollout play(ActorCritic& model, std::vector<CartPole>& carts) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> states, pushes, chances, values, goes_on;
  for (int64_t step = 0; step < kSteps; ++step) {
    states.push_back(states_of(carts));
    const auto [chance, value] = model->forward(states.back());
    std::vector<int64_t> push;
    std::vector<double> on;
    for (size_t i = 0; i < carts.size(); ++i) {
      push.push_back(carts[i].draw() < std::exp(chance[int64_t(i)][1].item<double>()) ? 1 : 0);
      on.push_back(carts[i].push(push.back() == 1) ? 0.0 : 1.0);
    }
    pushes.push_back(torch::tensor(push));
    chances.push_back(chance.gather(1, pushes.back().unsqueeze(1)).squeeze(1));
    values.push_back(value);
    goes_on.push_back(torch::tensor(on, torch::kFloat64));
  }
  // Generalized advantage estimation; each step has the reward 1.
  values.push_back(model->forward(states_of(carts)).second);
  std::vector<torch::Tensor> advantages(kSteps);
  torch::Tensor later = torch::zeros({static_cast<int64_t>(carts.size())}, torch::kFloat64);
  for (size_t t = kSteps; t-- > 0;) {
    const auto error = 1 + kDiscount * goes_on[t] * values[t + 1] - values[t];
    advantages[t] = later = error + kDiscount * kLambda * goes_on[t] * later;
  }
  values.pop_back();
  const auto advantage = torch::stack(advantages);
  return {torch::stack(states), torch::stack(pushes), torch::stack(chances),
          advantage + torch::stack(values), advantage};
}

// Steps and episodes of all workers.
double mean_length(muster::Cluster& cluster, std::vector<CartPole>& carts) {
  auto sums = torch::zeros({2}, torch::kInt64);
  for (CartPole& cart : carts) {
    const auto [steps, episodes] = cart.take_ended();
    sums += torch::tensor({steps, episodes});
  }
  sums = cluster.all_reduce(sums);
  return sums[0].item<double>() / sums[1].item<double>();
}

void train(int64_t rounds) {
  muster::Cluster cluster;
  torch::manual_seed(1);
  ActorCritic model;
  model->to(torch::kFloat64);  // rounding changes a push later than in float32
  auto net = cluster.data_parallel(model);
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(1e-3));

  std::vector<CartPole> carts;
  for (int64_t i = cluster.rank(); i < kEnvironments; i += cluster.size()) carts.emplace_back(i);
  for (int64_t round = 0; round < rounds; ++round) {
    const Rollout all = play(model, carts);
    // Of the advantages of all workers.
    const auto mean = cluster.all_reduce(all.advantages.mean(), muster::ReduceOp::kMean);
    const auto square = (all.advantages - mean).square().mean();
    const auto deviation = cluster.all_reduce(square, muster::ReduceOp::kMean).sqrt();
    for (int64_t pass = 0; pass < kPasses; ++pass) {
      // Four batches, each with the same steps of all environments.
      for (int64_t part = 0; part < 4; ++part) {
        const auto of = [&](const torch::Tensor& values) {
          return values.slice(0, part, kSteps, 4).flatten(0, 1);
        };
        const auto [chance, value] = net(of(all.states));
        const auto taken = chance.gather(1, of(all.pushes).unsqueeze(1)).squeeze(1);
        const auto ratio = (taken - of(all.chances)).exp();
        const auto advantage = (of(all.advantages) - mean) / (deviation + 1e-8);
        const auto gain =
            torch::min(ratio * advantage, ratio.clamp(1 - kClip, 1 + kClip) * advantage).mean();
        const auto entropy = -(chance.exp() * chance).sum(1).mean();
        const auto loss = 0.5 * torch::mse_loss(value, of(all.returns)) - gain - 0.01 * entropy;
        adam.zero_grad();
        loss.backward();
        torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
        adam.step();
      }
    }
    const double length = mean_length(cluster, carts);
    if (cluster.is_chief() && (round == 0 || (round + 1) % 5 == 0))
      std::printf("round %ld  an episode lasts %.1f steps\n", long(round + 1), length);
  }
}

int main() {
  muster::guard_main();
  train(kRounds);
}
