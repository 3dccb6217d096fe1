// A training loop written for LibTorch, on one worker or several. The lines of Muster are marked.
//
// Expected: 98 % accuracy on the digits of `muster data digits` after 300 steps, on any number of
// workers; started again with more steps, it continues.
#include <muster/parallel.h>
#include <muster/program/run_main.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(conv1(x))), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return fc(x.flatten(1));
  }
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(1, 16, 3));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(16));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(16, 32, 3));
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(32 * 5 * 5, 10));
};
TORCH_MODULE(Net);

// The bytes of a file after its header.
torch::Tensor bytes_of(const std::string& path, int64_t header) {
  std::ifstream file(path, std::ios::binary);
  if (!file.ignore(header)) {
    throw muster::Error(muster::ErrorKind::kNotFound, "cannot read " + path,
                        "make the digits first: muster data digits --out digits");
  }
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return torch::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, torch::kUInt8)
      .clone();
}

struct Digits {
  Digits(const std::string& folder, const std::string& name)
      : images(bytes_of(folder + "/" + name + "-images-idx3-ubyte", 16).view({-1, 1, 28, 28})),
        labels(bytes_of(folder + "/" + name + "-labels-idx1-ubyte", 8).to(torch::kLong)) {}
  torch::Tensor images, labels;
};

torch::Tensor as_input(const torch::Tensor& images) { return images.to(torch::kFloat32).div(255); }

void train(const std::string& folder, const std::string& directory, int64_t steps) {
  muster::Cluster cluster;  // Muster: finds the other workers
  torch::manual_seed(1);
  Net model;
  auto net = cluster.data_parallel(model);  // Muster: gradients are the mean over the workers
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(2e-3));

  auto checkpoint = cluster.checkpoint(directory);  // Muster: saved together, or not at all
  checkpoint.add("net", net).add("adam", adam);

  const Digits digits(folder, "train");
  const int64_t batch = 64 / cluster.size();
  for (int64_t step = checkpoint.restore(); step < steps && !cluster.should_stop(); ++step) {
    // The same order of rows on all workers, of which each takes its part.
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step));
    const auto rows = torch::randint(digits.labels.size(0), {64}, generator, torch::kLong)
                          .slice(0, cluster.rank() * batch, (cluster.rank() + 1) * batch);
    adam.zero_grad();
    const auto loss = torch::cross_entropy_loss(net(as_input(digits.images.index_select(0, rows))),
                                                digits.labels.index_select(0, rows));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    adam.step();
    if ((step + 1) % 100 == 0) {
      checkpoint.save(step + 1);
      const double mean = cluster.all_reduce(loss.detach(), muster::ReduceOp::kMean).item<double>();
      if (cluster.is_chief()) std::printf("step %ld  loss %.4f\n", long(step + 1), mean);
    }
  }

  net.sync_buffers();
  if (!cluster.is_chief()) return;
  model->eval();
  const torch::NoGradGuard no_grad;
  const Digits test(folder, "t10k");
  const auto right =
      model->forward(as_input(test.images)).argmax(1).eq(test.labels).to(torch::kFloat64).mean();
  std::printf("accuracy %.4f\n", right.item<double>());
}

int main(int argc, char** argv) {
  muster::guard_main();  // Muster: exit codes, and Ctrl-C as a request to stop
  const std::string folder = argc > 1 ? argv[1] : "digits";
  train(folder, argc > 2 ? argv[2] : "libtorch_loop_model", argc > 3 ? std::stoll(argv[3]) : 300);
}
