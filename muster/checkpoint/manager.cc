#include "muster/checkpoint/manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/outside_name.h"
#include "muster/base/printable.h"
#include "muster/base/secret.h"
#include "muster/base/small_file.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/checkpoint/checkpoint_format.h"
#include "muster/checkpoint/internal/file_names.h"
#include "muster/checkpoint/internal/leftovers.h"
#include "muster/checkpoint/internal/state_file.h"
#include "muster/checkpoint/lease.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1 {

using internal::CheckpointState;

namespace {

// Readers of a directory in which another process saves look again this often when what they were
// about to read is gone.
constexpr int kMaxLooks = 5;
constexpr size_t kMostShown = 300;  // letters of a name from a file that anybody may have written

// Whether a folder of a disk has the name; in a store a file may have it as well.
bool is_folder(FileSystem& fs, const std::string& path) {
  if (is_remote(path)) return false;
  const Result<FileInfo> info = fs.info(path);
  return info.ok() && info.value().is_directory;
}

std::string without_suffix(const std::string& path) {
  return path.ends_with(internal::kCheckpointSuffix)
             ? path.substr(0, path.size() - internal::kCheckpointSuffix.size())
             : path;
}

}  // namespace

struct CheckpointManager::Pins {
  std::mutex mutex;
  std::map<std::string, int> counts;  // by prefix
};

struct CheckpointManager::Listing {
  CheckpointState state;        // only what exists
  std::set<std::string> names;  // of the directory

  // Whether a file of this prefix is there, also in a form we cannot read: loading it says so.
  bool holds(const std::string& name) const {
    if (names.count(name + std::string(internal::kCheckpointSuffix)) != 0 ||
        names.count(name + ".index") != 0)
      return true;
    auto it = names.lower_bound(name + "-0");
    return it != names.end() && it->starts_with(name + "-0") &&
           it->ends_with(internal::kCheckpointSuffix);
  }
};

CheckpointManager::CheckpointManager(std::string model_dir, CheckpointManagerOptions options)
    : model_dir_(std::move(model_dir)),
      options_(options),
      fs_(options.fs != nullptr ? *options.fs : file_systems()),
      clock_(options.clock != nullptr ? *options.clock : system_clock()),
      pins_(std::make_shared<Pins>()),
      leased_(std::make_unique<LeasedCheckpoints>(model_dir_, fs_, clock_)) {
  if (model_dir_.empty())
    throw invalid_argument("model_dir is empty", "pass a directory for checkpoints");
  if (options_.keep_checkpoint_max < 0) {
    throw invalid_argument(fmt::format("keep_checkpoint_max is {}", options_.keep_checkpoint_max),
                           "pass how many checkpoints to keep, or 0 to keep all");
  }
  if (!(options_.keep_checkpoint_every_n_hours >= 0)) {
    throw invalid_argument(
        fmt::format("keep_checkpoint_every_n_hours is {}", options_.keep_checkpoint_every_n_hours),
        "pass a number of hours, or 0 to keep none for good");
  }
}

CheckpointManager::~CheckpointManager() = default;

std::string CheckpointManager::path_of(const std::string& name) const {
  return join_path(model_dir_, name);
}

void CheckpointManager::ensure_writable() {
  const bool remote = is_remote(model_dir_);
  const auto try_write = [&]() -> Status {
    if (Status made = fs_.make_directories(model_dir_); !made.ok()) return made;
    if (remote) {
      // In a store nothing shows before it is committed.
      const std::string trial = path_of(".writable-" + random_secret().substr(0, 16));
      if (Status written = fs_.write_atomically(trial, "x"); !written.ok()) return written;
      return fs_.remove(trial);
    }
    auto writer = fs_.open_staged(path_of(std::string(internal::kStateFile)));
    if (!writer.ok()) return writer.error();
    // One page, so that a full disk shows.
    const std::string page(4096, '\0');
    if (Status written = writer.value()->append(bytes_of(page)); !written.ok()) return written;
    return writer.value()->discard();
  };
  if (Status done = try_write(); !done.ok()) {
    if (remote) {
      throw Error(done.error().kind(),
                  fmt::format("cannot write checkpoints to model_dir '{}': {}", model_dir_,
                              done.error().message()),
                  done.error().hint().empty()
                      ? "check that the bucket exists and that these credentials may write to it"
                      : done.error().hint());
    }
    const ErrorKind kind = done.error().kind() == ErrorKind::kUnavailable
                               ? ErrorKind::kUnavailable
                               : ErrorKind::kInvalidArgument;
    throw Error(kind,
                fmt::format("cannot write checkpoints to model_dir '{}': {}", model_dir_,
                            done.error().message()),
                done.error().hint().empty()
                    ? "pass a folder that you may write to; it is created if it does not exist"
                    : done.error().hint());
  }
}

// The state file is text that anybody may have written: it names files of this directory, or none.
void CheckpointManager::drop_foreign_names(CheckpointState* state) const {
  const auto is_ours = [&](const std::string& name) {
    const std::string fault = fault_of_path(name);
    if (!fault.empty()) {
      log::warning_once(fmt::format(
          "the state file '{}' names '{}', which is not in its directory ({}); this entry is "
          "ignored",
          path_of(std::string(internal::kStateFile)), printable_beginning(name), fault));
    }
    return fault.empty();
  };
  // TensorFlow writes whole paths where model_dir is one.
  const std::string prefix = model_dir_ + "/";
  const auto shorten = [&](std::string& name) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  };
  shorten(state->latest);
  for (auto& entry : state->all) shorten(entry.name);
  if (!state->latest.empty() && !is_ours(state->latest)) state->latest.clear();
  std::erase_if(state->all, [&](const auto& entry) { return !is_ours(entry.name); });
  // What is deleted lies in the directory itself.
  std::erase_if(state->retired, [&](const std::string& name) {
    return !is_ours(name) || name.find('/') != std::string::npos;
  });
}

// Returns what the state file says of the checkpoints that exist, or nothing, with the reason in
// `why`, when it cannot tell.
std::optional<CheckpointState> CheckpointManager::read_state(const Listing& listing,
                                                             std::string* why) const {
  *why = "is missing";
  if (listing.names.count(std::string(internal::kStateFile)) == 0) return std::nullopt;
  Result<std::string> text =
      read_small_file(fs_, path_of(std::string(internal::kStateFile)), internal::kMostStateBytes);
  if (!text.ok()) {
    const ErrorKind kind = text.error().kind();
    if (kind == ErrorKind::kNotFound) return std::nullopt;
    // A store that gives nothing may give it later, and a disk that is away too. What is not a
    // file, or no file of ours, stays so.
    if (kind != ErrorKind::kCorrupt &&
        (is_remote(model_dir_) || kind != ErrorKind::kInvalidArgument))
      throw text.error();
    *why = "is damaged (" + text.error().message() + ")";
    return std::nullopt;
  }
  Result<CheckpointState> parsed = CheckpointState::parse(text.value());
  if (!parsed.ok()) {
    *why = "is damaged (" + parsed.error().message() + ")";
    return std::nullopt;
  }
  CheckpointState state = std::move(parsed.value());
  drop_foreign_names(&state);
  const auto exists = [&](const std::string& name) {
    // Another process may have saved it since the directory was listed.
    if (name.find('/') == std::string::npos && listing.holds(name)) return true;
    return is_checkpoint(fs_, path_of(name));
  };
  if (!state.latest.empty() &&
      std::none_of(state.all.begin(), state.all.end(),
                   [&](const auto& entry) { return entry.name == state.latest; })) {
    state.all.push_back({.name = state.latest});
  }
  std::erase_if(state.all, [&](const auto& entry) { return !exists(entry.name); });
  if (state.all.empty()) {
    *why = "names no checkpoint that exists";
    return std::nullopt;
  }
  if (!exists(state.latest)) {
    if (!state.latest.empty()) {
      log::warning_once(fmt::format(
          "'{}', the newest checkpoint in the state file, does not exist; the newest that exists "
          "is {}",
          printable_beginning(path_of(state.latest), kMostShown), state.all.back().name));
    }
    state.latest = state.all.back().name;
  }
  return state;
}

// Returns what the names of the files tell; it names no checkpoint when there is none.
CheckpointState CheckpointManager::state_of_files(const Listing& listing) const {
  CheckpointState state;
  std::map<int64_t, std::string> found;
  for (const std::string& name : listing.names) {
    if (!name.starts_with(internal::kCheckpointBaseName) ||
        !name.ends_with(internal::kCheckpointSuffix))
      continue;
    if (const int64_t step = checkpoint_step(name); step >= 0) found[step] = without_suffix(name);
  }
  if (found.empty()) return state;
  for (const auto& [step, name] : found) {
    const Result<FileInfo> info = fs_.info(checkpoint_file(path_of(name)));
    if (!info.ok() && info.error().kind() != ErrorKind::kNotFound) throw info.error();
    state.all.push_back({name, info.ok() ? info.value().modified_seconds : 0});
  }
  state.latest = found.rbegin()->second;
  // Which were kept for good is lost with the state file: the rule is applied again, from the
  // oldest on.
  const double interval = options_.keep_checkpoint_every_n_hours * 3600;
  const double oldest = state.all.front().timestamp;
  const bool spans = state.all.back().timestamp - oldest >= interval;
  state.last_preserved = spans ? oldest - interval : oldest;
  return state;
}

// Lists what is there as the state file tells it, or as the directory does where that cannot.
CheckpointManager::Listing CheckpointManager::list() const {
  Listing listing;
  if (auto names = fs_.list_directory(model_dir_); names.ok()) {
    listing.names.insert(names.value().begin(), names.value().end());
  } else if (names.error().kind() != ErrorKind::kNotFound) {
    throw names.error();
  }
  std::string why;
  if (auto state = read_state(listing, &why)) {
    listing.state = std::move(*state);
    return listing;
  }
  listing.state = state_of_files(listing);
  // Where no checkpoint is left, the last was deleted: that the state file still names it is fine.
  if (!listing.state.all.empty()) {
    log::warning_once(fmt::format(
        "the state file '{}' {}; using the checkpoints found in the directory, {} the newest",
        path_of(std::string(internal::kStateFile)), why, listing.state.latest));
  }
  return listing;
}

std::vector<std::string> CheckpointManager::remove_retired(
    const std::vector<std::string>& retired) const {
  std::vector<std::string> kept;
  // Before `keep` is asked: who releases a checkpoint has said by then what it is worth.
  if (!retired.empty()) leased_->look();
  for (const std::string& name : retired) {
    // A pin cannot come between the look and the deletion.
    std::lock_guard lock(pins_->mutex);
    if (pins_->counts.count(path_of(name)) != 0 || leased_->hold(name) ||
        (options_.keep && options_.keep(path_of(name)))) {
      kept.push_back(name);
      continue;
    }
    Status removed = internal::remove_checkpoint(fs_, model_dir_, name);
    if (removed.ok() || removed.error().kind() == ErrorKind::kNotFound) continue;
    log::warning("cannot delete an old checkpoint; the next save will retry: " +
                 removed.error().message());
    kept.push_back(name);
  }
  return kept;
}

Error CheckpointManager::save_failed(const std::string& prefix, const Error& error,
                                     const CheckpointState& before) const {
  std::string hint = before.all.empty()
                         ? "nothing was saved before"
                         : fmt::format("the checkpoints up to {} are untouched", before.latest);
  if (!error.hint().empty()) hint = error.hint() + "; " + hint;
  return Error(error.kind(),
               fmt::format("cannot save the checkpoint '{}': {}", prefix, error.message()), hint);
}

// Makes `name` the latest checkpoint of `state` and drops those that are too many. Returns the
// names of the dropped that are to be deleted; the others are kept for good.
std::vector<std::string> CheckpointManager::add_latest(const std::string& name,
                                                       CheckpointState* state) const {
  std::erase_if(state->all, [&](const auto& entry) { return entry.name == name; });
  state->all.push_back({name, clock_.wall_seconds()});
  state->latest = name;
  if (state->last_preserved == 0) state->last_preserved = state->all.front().timestamp;
  const double interval = options_.keep_checkpoint_every_n_hours * 3600;
  std::vector<std::string> dropped;
  while (options_.keep_checkpoint_max > 0 &&
         state->all.size() > static_cast<size_t>(options_.keep_checkpoint_max)) {
    const CheckpointState::Entry oldest = state->all.front();
    state->all.erase(state->all.begin());
    // A clock that was wrong for a while has gone back: the hours count from this one.
    state->last_preserved = std::min(state->last_preserved, oldest.timestamp);
    if (interval > 0 && oldest.timestamp - interval >= state->last_preserved) {
      state->last_preserved = oldest.timestamp;
    } else if (oldest.name.find('/') == std::string::npos) {
      dropped.push_back(oldest.name);  // what lies outside the directory is not ours to delete
    }
  }
  return dropped;
}

std::string CheckpointManager::save(const Checkpoint& checkpoint) {
  if (checkpoint.global_step < 0) {
    throw invalid_argument(fmt::format("global_step is {}", checkpoint.global_step));
  }
  const std::string name =
      fmt::format("{}{}", internal::kCheckpointBaseName, checkpoint.global_step);
  const std::string prefix = path_of(name);
  const std::string file = checkpoint_file(prefix);
  const Listing listing = [&] {
    try {
      return list();
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("cannot save the checkpoint '{}': {}", prefix, error.message()),
                  error.hint());
    }
  }();
  const CheckpointState& before = listing.state;
  // What cannot be saved leaves nothing behind.
  const auto forget_parts = [&] {
    for (const auto& part : checkpoint.parts.files) (void)fs_.remove(path_of(part.name));
  };
  if (Status made = fs_.make_directories(model_dir_); !made.ok()) {
    forget_parts();
    throw save_failed(prefix, made.error(), before);
  }
  internal::remove_leftovers(fs_, clock_, model_dir_, checkpoint);
  CheckpointState state = before;
  const auto names = [&](const CheckpointState& which, const std::string& wanted) {
    return std::any_of(which.all.begin(), which.all.end(),
                       [&](const auto& entry) { return entry.name == wanted; });
  };
  std::vector<std::string> retired = state.retired;
  for (std::string& old : internal::interrupted_saves(fs_, model_dir_, listing.names, before))
    retired.push_back(std::move(old));
  std::erase_if(retired, [&](const std::string& old) { return old == name || names(state, old); });
  retired = remove_retired(retired);
  const bool again = fs_.exists(file).value();

  try {
    write_checkpoint(fs_, file, checkpoint);
  } catch (const Error& error) {
    // In a store the file may be there anyway, where only the answer got lost. It goes first,
    // and where it cannot go, or took the place of another, the parts that it names stay with it.
    bool gone = !is_remote(model_dir_);
    if (!gone && !again) {
      const Status removed = fs_.remove(file);
      gone = removed.ok() || removed.error().kind() == ErrorKind::kNotFound;
    }
    if (gone) forget_parts();
    throw save_failed(prefix, error, before);
  }
  for (std::string& dropped : add_latest(name, &state)) retired.push_back(std::move(dropped));
  state.retired = retired;

  const std::string state_path = path_of(std::string(internal::kStateFile));
  if (is_folder(fs_, state_path)) {
    log::warning_once(fmt::format(
        "'{}' is a folder, not the list of checkpoints; the checkpoint with the highest step is "
        "used as the newest. Move the folder away; the next save then writes the list",
        state_path));
  } else if (Status written = fs_.write_atomically(state_path, state.to_text()); !written.ok()) {
    // Unless the new state is there after all, a checkpoint that nothing names only takes space.
    Result<std::string> text = fs_.read_file(state_path);
    const bool named_now = text.ok() && text.value() == state.to_text();
    const bool known = text.ok() || text.error().kind() == ErrorKind::kNotFound;
    if (known && !named_now && !names(before, name)) {
      (void)fs_.remove(file);
      forget_parts();
    }
    throw save_failed(prefix, written.error(), before);
  }
  (void)remove_retired(retired);  // those kept stay named as retired until the next save
  // Parts of the one that was replaced.
  if (again) internal::remove_leftovers(fs_, clock_, model_dir_, checkpoint);
  return prefix;
}

void CheckpointManager::tidy() {
  const CheckpointState state = list().state;
  std::vector<std::string> retired = state.retired;
  std::erase_if(retired, [&](const std::string& name) {
    return std::ranges::any_of(state.all, [&](const auto& entry) { return entry.name == name; });
  });
  (void)remove_retired(retired);
}

std::optional<std::string> CheckpointManager::latest() const {
  const Listing listing = list();
  if (listing.state.latest.empty()) return std::nullopt;
  return path_of(listing.state.latest);
}

std::vector<std::string> CheckpointManager::all() const {
  std::vector<std::string> prefixes;
  for (const auto& entry : list().state.all) prefixes.push_back(path_of(entry.name));
  return prefixes;
}

std::vector<std::string> CheckpointManager::unnamed(const Listing& listing) {
  const CheckpointState& state = listing.state;
  std::map<int64_t, std::string> found;
  for (const std::string& name : listing.names) {
    if (!name.starts_with(internal::kCheckpointBaseName) ||
        !name.ends_with(internal::kCheckpointSuffix))
      continue;
    const std::string prefix = without_suffix(name);
    const int64_t step = checkpoint_step(name);
    // One after the newest is not committed yet, or was taken back.
    if (step >= 0 && step < checkpoint_step(state.latest) &&
        std::ranges::none_of(state.all, [&](const auto& entry) { return entry.name == prefix; }))
      found[step] = prefix;
  }
  std::vector<std::string> names;
  for (auto& [step, name] : found) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> CheckpointManager::existing() const {
  const Listing listing = list();
  std::vector<std::string> prefixes;
  for (const std::string& name : unnamed(listing)) prefixes.push_back(path_of(name));
  for (const auto& entry : listing.state.all) prefixes.push_back(path_of(entry.name));
  return prefixes;
}

Checkpoint CheckpointManager::load(const std::string& prefix_or_path) const {
  return read_checkpoint(fs_, prefix_or_path);
}

std::unique_ptr<CheckpointReader> CheckpointManager::open(const std::string& prefix_or_path) const {
  return open_checkpoint(fs_, prefix_or_path);
}

std::optional<CheckpointManager::Loaded> CheckpointManager::load_latest() const {
  Loaded loaded;
  const auto prefix = find_latest(
      [&](const std::string& candidate) { loaded.checkpoint = load(candidate); }, &loaded.skipped);
  if (!prefix) return std::nullopt;
  loaded.prefix = *prefix;
  return loaded;
}

std::optional<std::string> CheckpointManager::find_latest(
    const std::function<void(const std::string& prefix)>& read) const {
  std::vector<std::string> skipped;
  return find_latest(read, &skipped);
}

std::optional<std::string> CheckpointManager::find_latest(
    const std::function<void(const std::string& prefix)>& read,
    std::vector<std::string>* skipped_ones) const {
  for (int look = 1;; ++look) {
    const Listing listing = list();
    const CheckpointState& state = listing.state;
    if (state.latest.empty()) return std::nullopt;

    // Newest first; last of all what the state file does not name, such as those kept for good.
    std::vector<std::string> candidates = {state.latest};
    for (auto it = state.all.rbegin(); it != state.all.rend(); ++it) {
      if (it->name != state.latest) candidates.push_back(it->name);
    }
    const std::vector<std::string> others = unnamed(listing);
    candidates.insert(candidates.end(), others.rbegin(), others.rend());

    std::vector<std::string>& skipped = *skipped_ones;
    skipped.clear();
    bool look_again = false;
    for (const std::string& name : candidates) {
      const std::string prefix = path_of(name);
      try {
        read(prefix);
        if (!skipped.empty()) {
          log::warning(fmt::format("using the checkpoint '{}' instead of {} damaged one{}", prefix,
                                   skipped.size(), skipped.size() == 1 ? "" : "s"));
        }
        return prefix;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kNotFound && look < kMaxLooks) {
          look_again = true;  // deleted since the look by a program that has saved newer ones
          break;
        }
        if (error.kind() != ErrorKind::kCorrupt && error.kind() != ErrorKind::kNotFound) throw;
        skipped.push_back(error.message());
        log::warning("skipping a damaged checkpoint: " + error.message());
      }
    }
    if (look_again) continue;
    std::string message =
        fmt::format("none of the {} checkpoints in '{}' can be read", skipped.size(), model_dir_);
    for (const std::string& why : skipped) message += "\n" + why;
    throw corrupt(std::move(message),
                  "restore one of these files from a copy, or start again in an empty model_dir");
  }
}

CheckpointManager::Pin CheckpointManager::pin(const std::string& prefix) const {
  const std::string key = without_suffix(prefix);
  std::lock_guard lock(pins_->mutex);
  if (!is_checkpoint(fs_, key)) {
    throw not_found(fmt::format("there is no checkpoint '{}'", key),
                    "it may have been deleted since it was listed: take the newest");
  }
  ++pins_->counts[key];
  return Pin(pins_.get(), [pins = pins_, key](const void*) {
    std::lock_guard lock(pins->mutex);
    auto it = pins->counts.find(key);
    if (--it->second == 0) pins->counts.erase(it);
  });
}

}  // namespace muster::inline v0_1
