#include "muster/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint_format.h"
#include "muster/checkpoint/checkpoint_parts.h"
#include "muster/checkpoint/internal/file_names.h"
#include "muster/checkpoint/internal/safetensors_checkpoint.h"
#include "muster/formats/keras_file.h"
#include "muster/formats/tensorflow_checkpoint.h"

namespace muster::inline v0_1 {
namespace {

// Nothing at `prefix` that we read; says so when there is something we do not.
Error absent(FileSystem& fs, const std::string& prefix, const Error& error) {
  const std::string base(base_name(prefix));
  auto names = fs.list_directory(directory_of(prefix));
  if (!names.ok()) return error;
  for (const std::string& name : names.value()) {
    if (name.starts_with(base + "-0") && name.ends_with(internal::kCheckpointSuffix)) {
      return invalid_argument(
          fmt::format("not supported: sharded checkpoint '{}' (found '{}')", prefix, name),
          "join its shards into one .safetensors file");
    }
  }
  if (const auto theirs = formats::tensorflow_checkpoint_error(fs, prefix)) return *theirs;
  if (const auto theirs = formats::keras_file_error(fs, prefix)) return *theirs;
  return not_found(fmt::format("there is no checkpoint '{}': {}", prefix, error.message()));
}

}  // namespace

std::unique_ptr<CheckpointReader> open_checkpoint(FileSystem& fs,
                                                  const std::string& prefix_or_path) {
  const std::string path = checkpoint_file(prefix_or_path);
  if (const int64_t step = checkpoint_part_step(std::string(base_name(path))); step >= 0) {
    throw invalid_argument(fmt::format("'{}' is a part of the checkpoint {}{}", path,
                                       internal::kCheckpointBaseName, step),
                           "name the checkpoint, which finds its parts");
  }
  try {
    return internal::open_safetensors_checkpoint(fs, path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    const std::string prefix = path.substr(0, path.size() - internal::kCheckpointSuffix.size());
    if (const auto other = find_checkpoint_format(fs, prefix)) return other->open(fs, prefix);
    throw absent(fs, prefix, error);
  }
}

}  // namespace muster::inline v0_1
