#include "muster/checkpoint/internal/leftovers.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint_parts.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/internal/file_names.h"

namespace muster::inline v0_1::internal {
namespace {

// Leftovers of a process that may still run are only removed when they were not touched for this
// long.
constexpr double kStaleSeconds = 24 * 3600;

// Whether `name` is what a killed save of ours left behind:
// ".model.ckpt-7.safetensors.staging-<pid>-<n>".
bool is_our_staging_name(const std::string& name) {
  return is_staging_name(name) && (name.starts_with("." + std::string(kCheckpointBaseName)) ||
                                   name.starts_with("." + std::string(kStateFile) + "."));
}

// The process in a staging name, 0 when there is none to be read.
int64_t staging_process(const std::string& name) {
  const std::vector<std::string> parts = split(name, '-');
  return parts.size() < 3 ? 0 : parse_int(parts[parts.size() - 2]).value_or(0);
}

bool is_other_live_process(int64_t pid) {
  // Our own id means a process before us that had it, as in containers: this manager is not writing
  // now.
  if (pid <= 0 || pid == ::getpid()) return false;
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

void remove_leftover(FileSystem& fs, const std::string& path) {
  const Status removed = fs.remove(path);
  if (!removed.ok() && removed.error().kind() != ErrorKind::kNotFound) {
    log::warning_once("cannot remove the leftover of an interrupted save: " +
                      removed.error().message());
  }
}

// The names of the parts of the checkpoint in `file`; those that are not names of parts of its step
// may be anybody's files. Throws what open_checkpoint() throws.
std::set<std::string> parts_of(FileSystem& fs, const std::string& file) {
  const auto reader = open_checkpoint(fs, file);
  std::set<std::string> names;
  for (const auto& part : reader->header().parts.files) {
    if (checkpoint_part_step(part.name) == checkpoint_step(file)) names.insert(part.name);
  }
  return names;
}

// Deletes those of `names` that are parts which no checkpoint has.
void remove_lost_parts(FileSystem& fs, const std::string& model_dir,
                       const std::vector<std::string>& names, const Checkpoint& saving) {
  std::map<int64_t, std::set<std::string>> found;
  for (const std::string& name : names) {
    if (const int64_t step = checkpoint_part_step(name); step >= 0) found[step].insert(name);
  }
  for (auto& [step, lost] : found) {
    for (const auto& part : saving.parts.files) lost.erase(part.name);
    const std::string file =
        checkpoint_file(join_path(model_dir, fmt::format("{}{}", kCheckpointBaseName, step)));
    try {
      if (fs.exists(file).value()) {
        for (const std::string& name : parts_of(fs, file)) lost.erase(name);
      }
    } catch (const Error&) {
      continue;  // of one that is damaged, they may be what is left
    }
    for (const std::string& name : lost) remove_leftover(fs, join_path(model_dir, name));
  }
}

}  // namespace

void remove_leftovers(FileSystem& fs, Clock& clock, const std::string& model_dir,
                      const Checkpoint& saving) {
  const auto names = fs.list_directory(model_dir);
  if (!names.ok()) return;  // there is nothing to tidy in a directory that is not there yet
  for (const std::string& name : names.value()) {
    if (!is_our_staging_name(name)) continue;
    const std::string path = join_path(model_dir, name);
    if (is_other_live_process(staging_process(name))) {
      const auto info = fs.info(path);
      if (!info.ok() || clock.wall_seconds() - info.value().modified_seconds < kStaleSeconds)
        continue;
    }
    remove_leftover(fs, path);
  }
  remove_lost_parts(fs, model_dir, names.value(), saving);
}

std::vector<std::string> interrupted_saves(FileSystem& fs, const std::string& model_dir,
                                           const std::set<std::string>& names,
                                           const CheckpointState& state) {
  std::vector<std::string> found;
  const int64_t latest = checkpoint_step(state.latest);
  if (latest < 0) return found;
  std::optional<double> listed;  // when the list was written
  for (const std::string& file : names) {
    if (!file.starts_with(kCheckpointBaseName) || !file.ends_with(kCheckpointSuffix)) continue;
    const std::string name = file.substr(0, file.size() - kCheckpointSuffix.size());
    const bool named =
        std::ranges::any_of(state.all, [&](const auto& entry) { return entry.name == name; }) ||
        std::ranges::find(state.retired, name) != state.retired.end();
    if (named || checkpoint_step(name) <= latest) continue;
    if (!listed) {
      const auto info = fs.info(join_path(model_dir, std::string(kStateFile)));
      if (!info.ok()) return found;
      listed = info.value().modified_seconds;
    }
    const auto info = fs.info(join_path(model_dir, file));
    if (info.ok() && info.value().modified_seconds >= *listed) found.push_back(name);
  }
  return found;
}

Status remove_checkpoint(FileSystem& fs, const std::string& model_dir, const std::string& name) {
  const std::string file = checkpoint_file(join_path(model_dir, name));
  std::set<std::string> parts;
  try {
    parts = parts_of(fs, file);
  } catch (const Error&) {
    // Gone, or damaged: what it has of parts goes with the next save.
  }
  // In this order no reader finds a checkpoint that lacks a part.
  const Status removed = fs.remove(file);
  if (removed.ok()) {
    for (const std::string& part : parts) remove_leftover(fs, join_path(model_dir, part));
  }
  return removed;
}

}  // namespace muster::inline v0_1::internal
