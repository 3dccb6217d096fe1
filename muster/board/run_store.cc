#include "muster/board/run_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/uri.h"
#include "muster/board/profiles.h"
#include "muster/board/searches.h"
#include "muster/launch/run_record.h"
#include "muster/summary/live_status.h"

namespace muster::inline v0_1::board {
namespace {

constexpr int kDeepestRun = 8;
constexpr size_t kMostSearches = 100;
constexpr size_t kMostLiveRuns = 200;
constexpr size_t kMostProfiles = 500;

// The last part of a folder's path.
std::string name_of_folder(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!is_remote(path)) {
    const std::filesystem::path clean = std::filesystem::path(path).lexically_normal();
    path = clean.has_filename() ? clean.string() : clean.parent_path().string();
  }
  std::string name(base_name(path));
  if (name.empty() || name == "." || name == "..") {
    std::error_code ignored;
    name = std::filesystem::canonical(path, ignored).filename().string();
  }
  return name.empty() ? path : name;
}

}  // namespace

RunStore::RunStore(std::vector<std::string> directories, FileSystem& files, RunStoreOptions options)
    : directories_(std::move(directories)), files_(files), options_(options) {}

RunStore::~RunStore() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void RunStore::start() {
  threads_.emplace_back([this] { follow(); });
  for (int thread = 0; thread < options_.threads; ++thread) {
    threads_.emplace_back([this] { work(); });
  }
}

void RunStore::read_all() {
  list();
  while (read_next()) {
  }
}

void RunStore::follow() {
  while (true) {
    list();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.poll_time, [this] { return ending_; });
    if (ending_) return;
  }
}

void RunStore::work() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (ending_) return;
    }
    read_next();
  }
}

bool RunStore::read_next() {
  std::shared_ptr<StoredRun> run;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return false;
    run = queue_.front();
    queue_.pop_front();
  }
  bool more = false;
  {
    const std::lock_guard lock(run->mutex);
    try {
      more = run->data.read();
    } catch (const Error&) {
      // What cannot be read now is read when its file is listed again.
    }
  }
  const std::lock_guard lock(mutex_);
  ++version_;
  if (more) {
    queue_.push_back(run);
    changed_.notify_one();
  }
  return true;
}

void RunStore::list() {
  std::vector<std::string> troubles;
  std::set<std::string> names;
  refused_runs_ = 0;  // this thread alone uses it
  for (const std::string& directory : directories_) {
    std::string name;
    if (directories_.size() > 1) {
      name = name_of_folder(directory);
      if (!names.insert(name).second) name = directory;
    }
    list_folder(directory, name, 0, troubles);
  }
  if (refused_runs_ > 0) {
    troubles.push_back(fmt::format("{} folders with events are not shown: the board shows {} runs",
                                   refused_runs_, options_.most_runs));
  }
  const std::lock_guard lock(mutex_);
  if (troubles != troubles_) ++version_;
  troubles_ = std::move(troubles);
}

void RunStore::note_live_run(const std::string& path, const std::vector<DirectoryEntry>& entries) {
  const std::string folder = std::string("/") + summary::kLiveFolder;
  const bool is_live =
      path.ends_with(folder) && std::ranges::any_of(entries, [](const auto& entry) {
        return !entry.info.is_directory && entry.name.ends_with(".json");
      });
  if (!is_live) return;
  const std::string model_dir = path.substr(0, path.size() - folder.size());
  const std::lock_guard lock(mutex_);
  if (live_runs_.size() == kMostLiveRuns ||
      std::ranges::find(live_runs_, model_dir) != live_runs_.end())
    return;
  live_runs_.push_back(model_dir);
  ++version_;
}

void RunStore::note_file(const std::string& path, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto add = [this](std::vector<std::string>& list, const std::string& what, size_t most) {
    if (list.size() == most || std::ranges::find(list, what) != list.end()) return;
    list.push_back(what);
    ++version_;
  };
  if (name == kSearchFile) add(searches_, path, kMostSearches);
  if (is_profile(name)) add(profiles_, join_path(path, name), kMostProfiles);
  if (name == launch::kLaunchFile) add(live_runs_, path, kMostLiveRuns);
}

void RunStore::list_folder(const std::string& path, const std::string& name, int depth,
                           std::vector<std::string>& troubles) {
  const Result<std::vector<DirectoryEntry>> entries = files_.list_entries(path);
  if (!entries.ok()) {
    if (depth == 0 || entries.error().kind() != ErrorKind::kNotFound)
      troubles.push_back(printable(entries.error().message()));
    return;
  }
  note_live_run(path, entries.value());
  std::vector<const DirectoryEntry*> events;
  for (const DirectoryEntry& entry : entries.value()) {
    if (!entry.info.is_directory && formats::is_event_file(entry.name)) events.push_back(&entry);
    if (!entry.info.is_directory) note_file(path, entry.name);
  }
  if (!events.empty()) {
    std::shared_ptr<StoredRun> run;
    {
      const std::lock_guard lock(mutex_);
      const auto known = run_of_.find(path);
      if (known != run_of_.end()) {
        run = runs_[known->second];
      } else if (runs_.size() < options_.most_runs) {
        run = std::make_shared<StoredRun>(files_, name.empty() ? "." : name, path);
        run_of_[path] = runs_.size();
        runs_.push_back(run);
      } else {
        ++refused_runs_;
      }
    }
    if (run) {
      bool grew = false;
      {
        const std::lock_guard lock(run->mutex);
        const uint64_t before = run->data.bytes();
        for (const DirectoryEntry* event : events)
          run->data.set_file(join_path(path, event->name), event->info.size);
        grew = run->data.bytes() != before;
      }
      const std::lock_guard lock(mutex_);
      if (grew && std::ranges::find(queue_, run) == queue_.end()) {
        queue_.push_back(run);
        changed_.notify_one();
      }
    }
  }
  if (depth == kDeepestRun) return;
  for (const DirectoryEntry& entry : entries.value()) {
    if (!entry.info.is_directory || entry.name.starts_with('.')) continue;
    list_folder(join_path(path, entry.name), name.empty() ? entry.name : name + "/" + entry.name,
                depth + 1, troubles);
  }
}

std::vector<std::shared_ptr<StoredRun>> RunStore::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

std::vector<std::string> RunStore::searches() const {
  const std::lock_guard lock(mutex_);
  return searches_;
}

std::vector<std::string> RunStore::live_runs() const {
  const std::lock_guard lock(mutex_);
  return live_runs_;
}

std::vector<std::string> RunStore::profiles() const {
  const std::lock_guard lock(mutex_);
  return profiles_;
}

uint64_t RunStore::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::vector<std::string> RunStore::troubles() const {
  const std::lock_guard lock(mutex_);
  return troubles_;
}

int RunStore::tag_number(const std::string& tag) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = tag_numbers_.emplace(tag, static_cast<int>(tag_names_.size()));
  if (is_new) tag_names_.push_back(tag);
  return place->second;
}

std::string RunStore::tag_name(int number) const {
  const std::lock_guard lock(mutex_);
  if (number < 0 || static_cast<size_t>(number) >= tag_names_.size())
    throw not_found(fmt::format("there is no tag {}", number), "ask api/state for the tags");
  return tag_names_[static_cast<size_t>(number)];
}

}  // namespace muster::inline v0_1::board
