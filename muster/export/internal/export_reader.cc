// A program that knows LibTorch and nothing of Muster: it loads the module in argv[1], calls it on
// ones of the shape argv[3]... and prints the output argv[2].
#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdlib>
#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  std::vector<int64_t> shape;
  for (int i = 3; i < argc; ++i) shape.push_back(std::atoll(argv[i]));
  const at::NoGradGuard no_grad;
  torch::jit::Module module = torch::jit::load(argv[1]);
  const at::Tensor output =
      module.forward({at::ones(shape)}).toGenericDict().at(argv[2]).toTensor();
  const at::Tensor flat = output.to(at::kDouble).contiguous().flatten();
  for (int64_t i = 0; i < flat.numel(); ++i) std::cout << flat.data_ptr<double>()[i] << "\n";
}
