// A loop of LibTorch over this worker's part of a data set, for libtorch_loop_test.cc. Each worker
// prints the examples of each of its steps, and what the weights add up to after it.
//
// Usage: loop_data_program DIRECTORY STEPS
#include <muster/parallel.h>
#include <muster/program/run_main.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace {

void train(const std::string& directory, int64_t steps) {
  muster::Cluster cluster;
  torch::manual_seed(1);
  const torch::nn::Linear model(1, 1);
  auto net = cluster.data_parallel(model);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
  // 50 examples in steps of 8: the last step of a pass has 2, and one of two workers has none.
  constexpr int64_t kExamples = 50;
  auto data = cluster.distribute(
      muster::Dataset::from_tensor_slices({torch::arange(kExamples)}).shuffle(20).global_batch(8));
  int64_t step = 0;
  auto checkpoint = cluster.checkpoint(directory);
  checkpoint.add("net", net).add("sgd", sgd).add("data", data).add("step", step);
  checkpoint.restore();
  while (step < steps) {
    while (const auto batch = data.next()) {
      const torch::Tensor& read = batch->features;
      const torch::Tensor x = read.to(torch::kFloat32).view({-1, 1}) / kExamples;
      sgd.zero_grad();
      (net(x) - 2 * x).pow(2).mean().backward();
      sgd.step();
      std::string rows;
      for (int64_t i = 0; i < read.numel(); ++i)
        rows += " " + std::to_string(read[i].item<int64_t>());
      std::printf("step %ld rank %d rows%s weights %.17g\n", long(++step), cluster.rank(),
                  rows.c_str(), (model->weight.sum() + model->bias.sum()).item<double>());
      std::fflush(stdout);
      if (step % 5 == 0) checkpoint.save(step);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    cluster.join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  muster::guard_main();
  if (argc == 3) train(argv[1], std::stoll(argv[2]));
}
