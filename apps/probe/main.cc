// Prints what a program of Muster finds on this machine, as lines of JSON for `muster doctor`. Each
// line is one object: {"doing": the next action} or facts. They are written one by one, so that
// after a crash all facts before it, and the current action, are known.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <signal.h>
#include <sys/prctl.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/probe/libraries.h"
#include "apps/probe/talk.h"
#include "muster/base/terminal.h"
#include "muster/collectives/device_communicator.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/threads.h"

namespace muster::probe {
namespace {

using nlohmann::json;

void say(const json& facts) {
  fputs((facts.dump(-1, ' ', false, json::error_handler_t::replace) + "\n").c_str(), stdout);
  fflush(stdout);
}
void doing(const char* what) { say({{"doing", what}}); }

// Returns the text after `key` in LibTorch's own description, up to a comma or the end of the line.
// The version in it is that of the loaded library, not that of the headers.
std::string configured(const std::string& key) {
  const std::string text = at::show_config();
  size_t begin = text.find(key);
  if (begin == std::string::npos) return {};
  begin += key.size();
  return text.substr(begin, text.find_first_of(",\n", begin) - begin);
}

json cpu() {
  json features = {{"avx2", false}, {"avx512", false}};
#if defined(__x86_64__)
  features["avx2"] = __builtin_cpu_supports("avx2") != 0;
  // OpenBLAS and LibTorch both need these extensions for their AVX-512 kernels.
  features["avx512"] = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return features;
}

json torch_facts() {
  return {{"built_against", TORCH_VERSION},
          {"loaded", configured("TORCH_VERSION=")},
          {"library", provider_of(reinterpret_cast<const void*>(&at::show_config))},
          {"cpu_capability", configured("CPU capability usage: ")},
          {"mkl", at::show_config().find("Math Kernel Library") != std::string::npos},
          {"cuda_devices", torch::cuda::is_available() ? torch::cuda::device_count() : 0},
          {"nccl", built_with_nccl()}};
}

// Returns the best rate of many products in a tenth of a second, because a busy machine makes some
// of them slow.
double gemm_gflops() {
  constexpr int64_t kSize = 512;
  const torch::NoGradGuard no_grad;
  set_threads(1);
  const Tensor a = torch::full({kSize, kSize}, 0.5), b = torch::full({kSize, kSize}, 0.25);
  Tensor c = torch::mm(a, b);
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (const auto end = Clock::now() + std::chrono::milliseconds(100); Clock::now() < end;) {
    const auto start = Clock::now();
    torch::mm_out(c, a, b);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2e-9 * kSize * kSize * kSize / seconds);
  }
  return best;
}

int run() {
  say({{"version", MUSTER_VERSION}});
  doing("reading what is loaded");
  say({{"cpu", cpu()},
       {"blas", describe_blas()},
       {"openmp", openmp_runtimes()},
       {"allocator", provider_of("malloc")}});
  doing("asking LibTorch about itself");
  say({{"torch", torch_facts()}});
  doing("multiplying matrices");
  say({{"gemm_gflops", gemm_gflops()}});
  doing("talking to a second process");
  say({{"talk", talk()}});
  say({{"done", true}});
  return 0;
}

}  // namespace
}  // namespace muster::probe

int main(int argc, char** argv) {
  muster::open_standard_streams();
  // Only our parent reads our output, so we end with it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    if (argc == 3 && std::string(argv[1]) == "--second") {
      return muster::probe::talk_as_second(argv[2]);
    }
    if (argc != 1) {
      fputs("error: muster-probe takes no arguments\nhint: run muster doctor, which starts it\n",
            stderr);
      return 2;
    }
    return muster::probe::run();
  } catch (const std::exception& error) {
    fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
