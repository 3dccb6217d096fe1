#include "muster/checkpoint/checkpoint.h"

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/internal/file_names.h"
#include "muster/checkpoint/internal/safetensors_checkpoint.h"

namespace muster::inline v0_1 {

int64_t checkpoint_step(const std::string& prefix_or_path) {
  std::string_view name = base_name(prefix_or_path);
  if (!name.starts_with(internal::kCheckpointBaseName)) return -1;
  name.remove_prefix(internal::kCheckpointBaseName.size());
  if (name.ends_with(internal::kCheckpointSuffix))
    name.remove_suffix(internal::kCheckpointSuffix.size());
  // One spelling per step: "05" and "+5" are other files.
  const std::optional<int64_t> step = parse_int(name);
  return step && *step >= 0 && std::to_string(*step) == name ? *step : -1;
}

std::string checkpoint_file(const std::string& prefix_or_path) {
  return prefix_or_path.ends_with(internal::kCheckpointSuffix)
             ? prefix_or_path
             : prefix_or_path + std::string(internal::kCheckpointSuffix);
}

void write_checkpoint(FileSystem& fs, const std::string& path, const Checkpoint& checkpoint) {
  internal::write_safetensors_checkpoint(fs, path, checkpoint);
}

Checkpoint read_checkpoint(FileSystem& fs, const std::string& prefix_or_path) {
  const auto reader = open_checkpoint(fs, prefix_or_path);
  Checkpoint checkpoint = reader->header();
  checkpoint.parts = {};
  for (const std::string& name : reader->names()) {
    Tensor tensor = reader->read(name);
    if (name != kGlobalStep) checkpoint.tensors.emplace(name, std::move(tensor));
  }
  return checkpoint;
}

}  // namespace muster::inline v0_1
