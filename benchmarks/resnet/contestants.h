// The contestants of resnet_benchmark that are this program: networks of applications and an LSTM,
// trained and asked in several ways.
// Thread safety: one call in a process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/support/compare.h"

namespace CLI {
class App;
}

namespace muster::bench::resnet {

inline constexpr int64_t kBatch = 16, kTexts = 8, kTime = 128;
inline constexpr int64_t kSequences = 32, kSteps = 64;  // of the LSTM

// The command line of a contestant.
struct Entry {
  std::string way = "estimator";      // or fit, loop, predict, libtorch, data_parallel
  std::string network = "resnet50";   // or resnet18, gpt, lstm
  std::string precision = "float32";  // a policy of mixed_precision()
  int64_t side = 128;                 // of images, in pixels
  bool recompute = false;             // each block of a residual network
  bool barrier = false;               // it meets others, and exchanges nothing with them
  // Photos in folders, in place of random numbers: decoded in the pipeline during the steps, or
  // once, before the first.
  std::string photos{};
  bool decoded = false;

  int64_t rows() const {
    return network == "gpt" ? kTexts : network == "lstm" ? kSequences : kBatch;
  }
};

// This program with `entry`, as the contestant `name`.
Contestant contestant(const std::string& name, const Entry& entry);
// Adds the options that contestant() writes.
void add_options(CLI::App& app, Entry& entry);
// Takes part until the end.
void take_part(const Entry& entry);

}  // namespace muster::bench::resnet
