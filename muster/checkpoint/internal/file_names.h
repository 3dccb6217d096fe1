// The names of the files of a checkpoint. Thread safety: constants.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::inline v0_1::internal {

// A checkpoint of step 100 is the file model.ckpt-100.safetensors.
inline constexpr std::string_view kCheckpointBaseName = "model.ckpt-";
inline constexpr std::string_view kCheckpointSuffix = ".safetensors";

// The text file that names the checkpoints of a directory.
inline constexpr std::string_view kStateFile = "checkpoint";
// Its maximal size, in bytes: names of some hundred thousand checkpoints.
inline constexpr uint64_t kMostStateBytes = uint64_t{64} << 20;

}  // namespace muster::inline v0_1::internal
