// The model of examples/mnist, trained in three ways, each as a contestant's process: by an
// Estimator, by a loop over Muster's layers, and by a loop over LibTorch alone. An Estimator also
// evaluates and predicts with it.
// Thread safety: one call in a process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/support/compare.h"

namespace muster::bench {

// The command line of every benchmark program and contestant.
struct Settings {
  std::string data_dir{};
  std::string json{};         // where lines of JSON go
  std::string beside{};       // programs of another build, whose Estimator is measured as well
  bool quick = false;         // few samples: to see that it works
  std::string only{};         // one part of the benchmark; empty: all
  std::string way{};          // of a contestant: kEstimator and so on; empty: the program
  std::string transport{};    // of an Estimator on several workers: "tcp", "shared_memory"; empty:
                              // its own choice
  std::string model = "cnn";  // of examples/mnist; "mlp": 784-4096-4096-1024-10, 25 million
                              // weights; or "tower": ten layers of 1024, 10 million weights
  std::string precision = "float32";  // of an Estimator's model, a policy of mixed_precision()
  int64_t batch = 64;                 // per worker
  bool overlap = true;  // of an Estimator and data_parallel(): false reduces all gradients at once,
                        // after backward
  double momentum = 0;
  int64_t scalars = -1;  // of an Estimator: number of scalar summaries every ten steps; below 0:
                         // only its own
};

inline constexpr const char* kEstimator = "estimator";
inline constexpr const char* kLayers = "layers";
inline constexpr const char* kLibTorch = "libtorch";
inline constexpr const char* kDataParallel = "data_parallel";
// Of a trained Estimator: a step evaluates 10,000 images, or predicts one.
inline constexpr const char* kEvaluate = "evaluate";
inline constexpr const char* kPredict = "predict";

// This program as a contestant; `name` is the row's.
Contestant contestant(const std::string& name, const Settings& settings);
// The program of the same name in the folder settings.beside.
Contestant other_build(Contestant contestant, const Settings& settings);
// PyTorch as a contestant (a program of benchmarks/peers with these arguments), with the allocator
// and the BLAS Muster's programs have. `arguments` begin with the program's name.
Contestant peer(const std::string& name, const std::vector<std::string>& arguments,
                const Settings& settings);
// Whether Debian's python3-torch exists; prints a line if it does not.
bool has_pytorch();

// main() of a benchmark: as a contestant, if the command line says so, it takes part until the end;
// otherwise it calls `run`. Returns the exit status, after printing an exception's message.
int benchmark_main(int argc, char** argv, const std::function<void(const Settings&)>& run);

}  // namespace muster::bench
