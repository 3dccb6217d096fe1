#include "muster/base/simulated_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

// In the window of fail_until().
constexpr double kFailedChanges = 0.3, kFailedReads = 0.1;
// Larger than any process id of Linux: a staging file of a dead process belongs to no live one.
constexpr int64_t kNoProcess = (int64_t{1} << 22) + 1;

std::string plain(const std::string& path) {
  return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

}  // namespace

class SimulatedDisk::Reader : public FileReader {
 public:
  Reader(Mount& mount, FilePtr file, std::string path)
      : mount_(mount), file_(std::move(file)), path_(std::move(path)) {}
  Result<uint64_t> size() override { return static_cast<uint64_t>(file_->content.size()); }
  Result<size_t> read_at(uint64_t offset, MutableBytes out) override {
    if (mount_.killed()) return mount_.dead("read of '" + path_ + "'").error();
    const std::string& content = file_->content;
    if (offset >= content.size()) return size_t{0};
    const size_t count = std::min<size_t>(out.size(), content.size() - offset);
    std::ranges::copy(bytes_of(std::string_view(content).substr(offset, count)), out.begin());
    return count;
  }
  const std::string& name() const override { return path_; }

 private:
  Mount& mount_;
  const FilePtr file_;
  const std::string path_;
};

class SimulatedDisk::Writer : public FileWriter {
 public:
  Writer(Mount& mount, FilePtr file, std::string path)
      : mount_(mount), file_(std::move(file)), path_(std::move(path)) {}
  Status append(Bytes bytes) override { return mount_.append(*file_, bytes, path_); }
  Status flush() override { return {}; }
  Status sync() override {
    if (Status ok = mount_.begin(Mount::Kind::kChange, "sync of '" + path_ + "'"); !ok.ok())
      return ok;
    file_->synced = file_->content.size();
    return {};
  }
  Status close() override { return {}; }

 private:
  Mount& mount_;
  const FilePtr file_;
  const std::string path_;
};

class SimulatedDisk::Staged : public StagedWriter {
 public:
  Staged(Mount& mount, FilePtr file, std::string aside, std::string path)
      : mount_(mount), file_(std::move(file)), aside_(std::move(aside)), path_(std::move(path)) {}
  // A process that died leaves the file where it is.
  ~Staged() override {
    if (!mount_.killed()) forget();
  }
  Status append(Bytes bytes) override { return mount_.append(*file_, bytes, path_); }
  Status sync() override {
    if (Status ok = mount_.begin(Mount::Kind::kChange, "sync of '" + path_ + "'"); !ok.ok())
      return ok;
    file_->synced = file_->content.size();
    return {};
  }
  Status commit() override {
    if (Status synced = sync(); !synced.ok()) return synced;
    if (Status ok = mount_.begin(Mount::Kind::kChange, "commit of '" + path_ + "'"); !ok.ok())
      return ok;
    SimulatedDisk& disk = mount_.disk_;
    disk.set_name(path_, file_);
    disk.set_name(aside_, nullptr);
    staged_ = false;
    mount_.tell("commits " + path_);
    // The file has its name already when the sync of the directory fails.
    if (Status ok = mount_.begin(Mount::Kind::kChange, "sync of the directory of '" + path_ + "'");
        !ok.ok())
      return ok;
    disk.sync_names();
    return {};
  }
  Status discard() override {
    if (mount_.killed()) return mount_.dead("discard of '" + path_ + "'");
    forget();
    return {};
  }

 private:
  void forget() {
    if (std::exchange(staged_, false)) mount_.disk_.set_name(aside_, nullptr);
  }

  Mount& mount_;
  const FilePtr file_;
  const std::string aside_, path_;
  bool staged_ = true;
};

std::unique_ptr<SimulatedDisk::Mount> SimulatedDisk::mount(SimulatedThreads::Process& process) {
  return std::make_unique<Mount>(*this, process);
}

void SimulatedDisk::set_name(const std::string& path, FilePtr file) {
  changes_.emplace_back(path, file);
  if (file != nullptr) {
    names_[path] = std::move(file);
  } else {
    names_.erase(path);
  }
}

void SimulatedDisk::sync_names() {
  synced_names_ = names_;
  changes_.clear();
}

void SimulatedDisk::cut_power() {
  const size_t kept = simulated_.random()() % (changes_.size() + 1);
  names_ = synced_names_;
  for (const auto& [path, file] : std::exchange(changes_, {})) {
    if (changes_.size() == kept) break;
    set_name(path, file);
  }
  sync_names();
  for (const auto& [path, file] : names_) {
    std::string& content = file->content;
    const size_t lost = content.size() - file->synced;
    if (lost == 0) continue;
    const size_t whole = file->synced + simulated_.random()() % (lost + 1);
    // The size of the file may be on the disk before its bytes.
    if (simulated_.random()() % 2 == 0) {
      std::fill(content.begin() + static_cast<std::ptrdiff_t>(whole), content.end(), '\0');
    } else {
      content.resize(whole);
    }
    file->synced = content.size();
  }
}

std::vector<std::string> SimulatedDisk::names(const std::string& directory) const {
  std::vector<std::string> found;
  const std::string prefix = plain(directory) + "/";
  const auto add = [&](const std::string& path) {
    if (path.starts_with(prefix) && path.find('/', prefix.size()) == std::string::npos)
      found.push_back(path.substr(prefix.size()));
  };
  for (const auto& [path, file] : names_) add(path);
  for (const std::string& path : directories_) add(path);
  std::ranges::sort(found);
  return found;
}

std::optional<std::string> SimulatedDisk::content(const std::string& path) const {
  const auto found = names_.find(path);
  if (found == names_.end()) return std::nullopt;
  return found->second->content;
}

// --- a process's view ---

void SimulatedDisk::Mount::tell(const std::string& what) const {
  if (disk_.note_) disk_.note_(fmt::format("process {} {}", process_.number(), what));
}

Status SimulatedDisk::Mount::dead(const std::string& what) const {
  return internal_error("the process died before the " + what, "a fault of the simulation");
}

Status SimulatedDisk::Mount::begin(Kind kind, const std::string& what) {
  SimulatedThreads& simulated = disk_.simulated_;
  const double factor = simulated.now() < disk_.slow_until_ ? disk_.factor_ : 1;
  process_.sleep_for(from_seconds(simulated.uniform(0.0002, 0.002) * factor));
  if (simulated.now() < cut_until_) process_.sleep_for(cut_until_ - simulated.now());
  if (killed_) return dead(what);
  if (kind != Kind::kRead && kill_at_ > 0 && --kill_at_ == 0) {
    kill();
    tell("dies at the " + what);
    return dead(what);
  }
  if (kind == Kind::kGrow && simulated.now() < disk_.full_until_) {
    tell("has no space for the " + what);
    return from_errno(ENOSPC, what);
  }
  if (simulated.now() < disk_.failing_until_ &&
      simulated.uniform(0, 1) < (kind == Kind::kRead ? kFailedReads : kFailedChanges)) {
    tell("fails at the " + what);
    return from_errno(EIO, what);
  }
  return {};
}

void SimulatedDisk::Mount::touch(File& file) { file.modified_seconds = process_.wall_seconds(); }

Status SimulatedDisk::Mount::append(File& file, Bytes bytes, const std::string& path) {
  const bool was_alive = !killed_;
  Status ok = begin(Kind::kGrow, "append to '" + path + "'");
  if (!was_alive) return ok;
  // What a failed or interrupted write leaves: any part of the bytes.
  const size_t written = ok.ok() ? bytes.size() : disk_.simulated_.random()() % (bytes.size() + 1);
  file.content.append(reinterpret_cast<const char*>(bytes.data()), written);
  touch(file);
  return ok;
}

Result<FileInfo> SimulatedDisk::Mount::info(const std::string& path) {
  if (Status ok = begin(Kind::kRead, "look at '" + path + "'"); !ok.ok()) return ok.error();
  const std::string name = plain(path);
  if (const auto found = disk_.names_.find(name); found != disk_.names_.end()) {
    const File& file = *found->second;
    return FileInfo{.size = file.content.size(), .modified_seconds = file.modified_seconds};
  }
  if (disk_.directories_.contains(name)) return FileInfo{.is_directory = true};
  return from_errno(ENOENT, "cannot look at '" + path + "'");
}

Result<std::unique_ptr<FileReader>> SimulatedDisk::Mount::open_reader(const std::string& path) {
  if (Status ok = begin(Kind::kRead, "open of '" + path + "'"); !ok.ok()) return ok.error();
  const auto found = disk_.names_.find(path);
  if (found == disk_.names_.end()) return from_errno(ENOENT, "cannot open '" + path + "'");
  return std::unique_ptr<FileReader>(std::make_unique<Reader>(*this, found->second, path));
}

Result<std::unique_ptr<FileWriter>> SimulatedDisk::Mount::open_writer(const std::string& path) {
  if (Status ok = begin(Kind::kGrow, "open of '" + path + "'"); !ok.ok()) return ok.error();
  auto found = disk_.names_.find(path);
  if (found == disk_.names_.end()) {
    auto file = std::make_shared<File>();
    touch(*file);
    disk_.set_name(path, file);
    found = disk_.names_.find(path);
  }
  return std::unique_ptr<FileWriter>(std::make_unique<Writer>(*this, found->second, path));
}

Result<std::unique_ptr<StagedWriter>> SimulatedDisk::Mount::open_staged(const std::string& path) {
  if (Status ok = begin(Kind::kGrow, "open of '" + path + "'"); !ok.ok()) return ok.error();
  const std::string aside =
      join_path(directory_of(path), fmt::format(".{}.staging-{}-{}", base_name(path),
                                                kNoProcess + process_.number(), disk_.staged_++));
  auto file = std::make_shared<File>();
  touch(*file);
  disk_.set_name(aside, file);
  return std::unique_ptr<StagedWriter>(
      std::make_unique<Staged>(*this, std::move(file), aside, path));
}

Result<std::vector<std::string>> SimulatedDisk::Mount::list_directory(const std::string& path) {
  if (Status ok = begin(Kind::kRead, "list of '" + path + "'"); !ok.ok()) return ok.error();
  if (!disk_.directories_.contains(plain(path)))
    return from_errno(ENOENT, "cannot list '" + path + "'");
  return disk_.names(path);
}

Status SimulatedDisk::Mount::make_directories(const std::string& path) {
  std::string name = plain(path);
  if (disk_.directories_.contains(name)) return {};
  if (Status ok = begin(Kind::kGrow, "making of '" + path + "'"); !ok.ok()) return ok;
  for (; name != "." && name != "/" && !name.empty(); name = directory_of(name))
    disk_.directories_.insert(name);
  return {};
}

Status SimulatedDisk::Mount::remove(const std::string& path) {
  if (Status ok = begin(Kind::kChange, "removal of '" + path + "'"); !ok.ok()) return ok;
  if (!disk_.names_.contains(path)) return from_errno(ENOENT, "cannot remove '" + path + "'");
  disk_.set_name(path, nullptr);
  tell("removes " + path);
  return {};
}

Status SimulatedDisk::Mount::rename(const std::string& from, const std::string& to) {
  if (Status ok = begin(Kind::kChange, "rename of '" + from + "'"); !ok.ok()) return ok;
  const auto found = disk_.names_.find(from);
  if (found == disk_.names_.end()) return from_errno(ENOENT, "cannot rename '" + from + "'");
  const FilePtr file = found->second;
  disk_.set_name(to, file);
  disk_.set_name(from, nullptr);
  if (Status ok = begin(Kind::kChange, "sync of the directory of '" + to + "'"); !ok.ok())
    return ok;
  disk_.sync_names();
  return {};
}

}  // namespace muster::inline v0_1
