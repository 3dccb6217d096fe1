#include "muster/checkpoint/checkpoint_format.h"

#include <map>
#include <mutex>
#include <utility>

namespace muster::inline v0_1 {
namespace {

struct Formats {
  std::mutex mutex;
  std::map<std::string, CheckpointFormat> by_suffix;
};

Formats& formats_known() {
  static Formats known;
  return known;
}

}  // namespace

void register_checkpoint_format(CheckpointFormat format) {
  Formats& known = formats_known();
  const std::lock_guard lock(known.mutex);
  std::string suffix = format.suffix;
  known.by_suffix.insert_or_assign(std::move(suffix), std::move(format));
}

bool is_checkpoint(FileSystem& fs, const std::string& prefix) {
  return fs.exists(checkpoint_file(prefix)).value() || find_checkpoint_format(fs, prefix);
}

std::optional<CheckpointFormat> find_checkpoint_format(FileSystem& fs, const std::string& prefix) {
  // A look into a store takes time: registering a format does not wait for it.
  const std::map<std::string, CheckpointFormat> by_suffix = [] {
    Formats& known = formats_known();
    const std::lock_guard lock(known.mutex);
    return known.by_suffix;
  }();
  for (const auto& [suffix, format] : by_suffix) {
    if (format.is_file && !prefix.ends_with(suffix)) continue;
    const Result<bool> there = fs.exists(format.is_file ? prefix : prefix + suffix);
    if (there.ok() && there.value()) return format;
  }
  return std::nullopt;
}

}  // namespace muster::inline v0_1
