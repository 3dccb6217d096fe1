// Checkpoints for tests, and a comparison that looks at every bit. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/manager.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

inline FileSystem& files() { return local_file_system(); }

// Straight to the disk, without the care the library takes: these are the accidents.
inline void overwrite(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// One of every dtype and of the awkward shapes; every value depends on `seed`.
inline Checkpoint make_checkpoint(int64_t step, int64_t seed = 0) {
  const double base = static_cast<double>(step) + 1000.0 * static_cast<double>(seed);
  auto ramp = [&](std::vector<int64_t> shape, DType dtype) {
    return (torch::arange(c10::multiply_integers(shape), at::kDouble) * 0.37 + base)
        .reshape(shape)
        .to(dtype);
  };
  Checkpoint checkpoint{.global_step = step, .epoch = step / 7};
  checkpoint.tensors["dense/kernel"] = ramp({5, 3}, at::kFloat);
  checkpoint.tensors["dense/kernel/Adam/m"] = ramp({5, 3}, at::kDouble);
  checkpoint.tensors["half"] = ramp({7}, at::kHalf);
  checkpoint.tensors["brain"] = ramp({2, 2}, at::kBFloat16);
  checkpoint.tensors["count"] = ramp({}, at::kLong);
  checkpoint.tensors["flags"] = ramp({9}, at::kLong).remainder(2).to(at::kBool);
  checkpoint.tensors["bytes"] = ramp({3}, at::kLong).to(at::kByte);
  checkpoint.tensors["empty"] = torch::empty({0, 4}, at::kFloat);
  checkpoint.tensors["int32"] = ramp({2}, at::kInt);
  checkpoint.inputs = "{\"train\":{\"epoch\":" + std::to_string(step / 7) +
                      ",\"index\":" + std::to_string(step) + "}}";
  checkpoint.notes["model"] = "digest \"quoted\" \xc3\xa9";
  checkpoint.notes["seed"] = std::to_string(seed);
  return checkpoint;
}

inline bool same(const Checkpoint& a, const Checkpoint& b) {
  if (a.global_step != b.global_step || a.epoch != b.epoch || a.notes != b.notes ||
      a.tensors.size() != b.tensors.size() ||
      nlohmann::json::parse(a.inputs) != nlohmann::json::parse(b.inputs)) {
    return false;
  }
  for (const auto& [name, tensor] : a.tensors) {
    auto it = b.tensors.find(name);
    if (it == b.tensors.end() || it->second.sizes() != tensor.sizes() ||
        it->second.scalar_type() != tensor.scalar_type()) {
      return false;
    }
    const Tensor left = tensor.resolve_neg().contiguous();
    const Tensor right = it->second.resolve_neg().contiguous();
    if (left.nbytes() != 0 && std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) != 0)
      return false;
  }
  return true;
}

inline std::vector<std::string> names_in(const std::string& directory) {
  return files().list_directory(directory).value();
}

inline std::string file_name(int64_t step) {
  return fmt::format("model.ckpt-{}.safetensors", step);
}

// Steps of the checkpoints a manager lists.
inline std::vector<int64_t> steps_of(const CheckpointManager& manager) {
  std::vector<int64_t> steps;
  for (const std::string& prefix : manager.all()) steps.push_back(checkpoint_step(prefix));
  return steps;
}

}  // namespace muster::inline v0_1::testing
