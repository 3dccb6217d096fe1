#include "muster/base/fault_file_system.h"

#include <cerrno>
#include <utility>

namespace muster::inline v0_1 {

class FaultFileSystem::Reader : public FileReader {
 public:
  Reader(FaultFileSystem& owner, std::unique_ptr<FileReader> base)
      : owner_(owner), base_(std::move(base)) {}
  Result<uint64_t> size() override {
    if (Status ok = owner_.alive("size of " + name()); !ok.ok()) return ok.error();
    return base_->size();
  }
  Result<size_t> read_at(uint64_t offset, MutableBytes out) override {
    if (Status ok = owner_.alive("read of " + name()); !ok.ok()) return ok.error();
    return base_->read_at(offset, out);
  }
  const std::string& name() const override { return base_->name(); }

 private:
  FaultFileSystem& owner_;
  std::unique_ptr<FileReader> base_;
};

class FaultFileSystem::Writer : public FileWriter {
 public:
  Writer(FaultFileSystem& owner, std::unique_ptr<FileWriter> base, std::string path, uint64_t size)
      : owner_(owner), base_(std::move(base)), path_(std::move(path)), size_(size) {}

  Status append(Bytes bytes) override {
    const bool keep = owner_.keeps_unsynced();
    const Verdict verdict = owner_.admit(true);
    if (verdict == Verdict::kGo) {
      size_ += bytes.size();
      return base_->append(bytes);
    }
    // Half of the bytes arrive at the moment of the crash; afterwards none do.
    if (!std::exchange(torn_, true) && (verdict == Verdict::kNoSpace || keep)) {
      (void)base_->append(bytes.first(bytes.size() / 2));
      size_ += bytes.size() / 2;
    }
    return owner_.refuse(verdict, "append to '" + path_ + "'");
  }
  Status flush() override {
    if (Status ok = owner_.alive("flush of '" + path_ + "'"); !ok.ok()) return ok;
    return base_->flush();
  }
  Status sync() override {
    const Verdict verdict = owner_.admit(false);
    if (verdict != Verdict::kGo) return owner_.refuse(verdict, "sync of '" + path_ + "'");
    if (Status done = base_->sync(); !done.ok()) return done;
    std::lock_guard lock(owner_.mutex_);
    owner_.synced_[path_] = size_;
    return {};
  }
  Status close() override {
    if (Status ok = owner_.alive("close of '" + path_ + "'"); !ok.ok()) return ok;
    return base_->close();
  }

 private:
  FaultFileSystem& owner_;
  std::unique_ptr<FileWriter> base_;
  std::string path_;
  uint64_t size_;
  bool torn_ = false;
};

class FaultFileSystem::Staged : public StagedWriter {
 public:
  Staged(FaultFileSystem& owner, std::unique_ptr<StagedWriter> base, std::string path)
      : owner_(owner), base_(std::move(base)), path_(std::move(path)) {}
  ~Staged() override { leave_if_crashed(); }

  Status append(Bytes bytes) override {
    const Verdict verdict = owner_.admit(true);
    if (verdict == Verdict::kGo) return base_->append(bytes);
    if (!std::exchange(torn_, true)) (void)base_->append(bytes.first(bytes.size() / 2));
    return owner_.refuse(verdict, "append to '" + path_ + "'");
  }
  Status sync() override {
    const Verdict verdict = owner_.admit(false);
    if (verdict != Verdict::kGo) return owner_.refuse(verdict, "sync of '" + path_ + "'");
    return base_->sync();
  }
  Status commit() override {
    Verdict verdict = owner_.admit(false);
    if (verdict != Verdict::kGo) return owner_.refuse(verdict, "commit of '" + path_ + "'");
    if (Status done = base_->commit(); !done.ok()) return done;
    {
      std::lock_guard lock(owner_.mutex_);
      owner_.synced_.erase(path_);
    }
    verdict = owner_.admit(false);
    if (verdict != Verdict::kGo)
      return owner_.refuse(verdict, "the moment after the commit of '" + path_ + "'");
    return {};
  }
  Status discard() override {
    if (Status ok = owner_.alive("discard of '" + path_ + "'"); !ok.ok()) return ok;
    return base_->discard();
  }

 private:
  void leave_if_crashed() {
    std::lock_guard lock(owner_.mutex_);
    if (owner_.crashed_) owner_.leftovers_.push_back(std::move(base_));
  }

  FaultFileSystem& owner_;
  std::unique_ptr<StagedWriter> base_;
  std::string path_;
  bool torn_ = false;
};

FaultFileSystem::FaultFileSystem(FileSystem& base, FaultPlan plan) : base_(base), plan_(plan) {}
FaultFileSystem::~FaultFileSystem() = default;

int64_t FaultFileSystem::operations() const {
  std::lock_guard lock(mutex_);
  return operations_;
}

bool FaultFileSystem::crashed() const {
  std::lock_guard lock(mutex_);
  return crashed_;
}

void FaultFileSystem::crash() {
  std::lock_guard lock(mutex_);
  crash_locked();
}

void FaultFileSystem::set_plan(FaultPlan plan) {
  std::lock_guard lock(mutex_);
  plan_ = plan;
  operations_ = 0;
}

FaultFileSystem::Verdict FaultFileSystem::admit(bool needs_space) {
  std::lock_guard lock(mutex_);
  if (crashed_) return Verdict::kCrashed;
  const int64_t index = operations_++;
  if (plan_.crash_at >= 0 && index >= plan_.crash_at) {
    crash_locked();
    return Verdict::kCrashed;
  }
  if (needs_space && plan_.no_space_from >= 0 && index >= plan_.no_space_from)
    return Verdict::kNoSpace;
  return Verdict::kGo;
}

bool FaultFileSystem::keeps_unsynced() const {
  std::lock_guard lock(mutex_);
  return plan_.keep_unsynced;
}

void FaultFileSystem::crash_locked() {
  if (std::exchange(crashed_, true) || plan_.keep_unsynced) return;
  for (const auto& [path, size] : synced_) {
    Result<std::string> content = base_.read_file(path);
    if (!content.ok() || content.value().size() <= size) continue;
    base_.write_atomically(path, std::string_view(content.value()).substr(0, size)).value();
  }
}

Status FaultFileSystem::refuse(Verdict verdict, const std::string& what) const {
  if (verdict == Verdict::kNoSpace) return from_errno(ENOSPC, what);
  return internal_error("the machine crashed before " + what, "a fault injected by a test");
}

Status FaultFileSystem::alive(const std::string& what) const {
  std::lock_guard lock(mutex_);
  return crashed_ ? refuse(Verdict::kCrashed, what) : Status();
}

Result<FileInfo> FaultFileSystem::info(const std::string& path) {
  if (Status ok = alive("look at '" + path + "'"); !ok.ok()) return ok.error();
  return base_.info(path);
}

Result<std::unique_ptr<FileReader>> FaultFileSystem::open_reader(const std::string& path) {
  if (Status ok = alive("open of '" + path + "'"); !ok.ok()) return ok.error();
  Result<std::unique_ptr<FileReader>> reader = base_.open_reader(path);
  if (!reader.ok()) return reader;
  return std::unique_ptr<FileReader>(std::make_unique<Reader>(*this, std::move(reader.value())));
}

Result<std::unique_ptr<FileWriter>> FaultFileSystem::open_writer(const std::string& path) {
  const Verdict verdict = admit(true);
  if (verdict != Verdict::kGo) return refuse(verdict, "open of '" + path + "'").error();
  Result<FileInfo> before = base_.info(path);
  const uint64_t size = before.ok() ? before.value().size : 0;
  Result<std::unique_ptr<FileWriter>> writer = base_.open_writer(path);
  if (!writer.ok()) return writer;
  {
    std::lock_guard lock(mutex_);
    synced_.try_emplace(path, size);
  }
  return std::unique_ptr<FileWriter>(
      std::make_unique<Writer>(*this, std::move(writer.value()), path, size));
}

Result<std::unique_ptr<StagedWriter>> FaultFileSystem::open_staged(const std::string& path) {
  const Verdict verdict = admit(true);
  if (verdict != Verdict::kGo) return refuse(verdict, "open of '" + path + "'").error();
  Result<std::unique_ptr<StagedWriter>> writer = base_.open_staged(path);
  if (!writer.ok()) return writer;
  return std::unique_ptr<StagedWriter>(
      std::make_unique<Staged>(*this, std::move(writer.value()), path));
}

Result<std::vector<std::string>> FaultFileSystem::list_directory(const std::string& path) {
  if (Status ok = alive("list of '" + path + "'"); !ok.ok()) return ok.error();
  return base_.list_directory(path);
}

Status FaultFileSystem::make_directories(const std::string& path) {
  const Verdict verdict = admit(true);
  if (verdict != Verdict::kGo) return refuse(verdict, "making of '" + path + "'");
  return base_.make_directories(path);
}

Status FaultFileSystem::remove(const std::string& path) {
  const Verdict verdict = admit(false);
  if (verdict != Verdict::kGo) return refuse(verdict, "removal of '" + path + "'");
  Status removed = base_.remove(path);
  if (removed.ok()) {
    std::lock_guard lock(mutex_);
    synced_.erase(path);
  }
  return removed;
}

Status FaultFileSystem::rename(const std::string& from, const std::string& to) {
  const Verdict verdict = admit(false);
  if (verdict != Verdict::kGo) return refuse(verdict, "rename of '" + from + "' to '" + to + "'");
  Status renamed = base_.rename(from, to);
  if (renamed.ok()) {
    std::lock_guard lock(mutex_);
    synced_.erase(to);
    if (auto node = synced_.extract(from)) {
      node.key() = to;
      synced_.insert(std::move(node));
    }
  }
  return renamed;
}

}  // namespace muster::inline v0_1
