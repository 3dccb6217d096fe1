#include "muster/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "muster/base/direct_output.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/internal/write_all.h"
#include "muster/base/local_path.h"
#include "muster/base/regular_file.h"
#include "muster/base/staging_leftovers.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1 {
namespace {

constexpr std::string_view kStagingMark = ".staging-";

Error failed_write(int error_number, size_t bytes, const std::string& path) {
  return file_error(error_number, "cannot write " + std::to_string(bytes) + " bytes to", path);
}

// Returns errno, or 0. Network file systems report a failed write only here.
int close_file(FileDescriptor& file) {
  return file.is_open() && ::close(file.release()) != 0 && errno != EINTR ? errno : 0;
}

FileDescriptor open_any(const std::string& local, int flags) {
  int fd;
  do {
    fd = ::open(local.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return FileDescriptor(fd);
}

// Makes a change of names in `directory` survive a crash.
Status sync_directory(const std::string& directory) {
  const FileDescriptor fd = open_any(directory, O_RDONLY | O_DIRECTORY);
  if (!fd.is_open()) return file_error(errno, "cannot open the directory", directory);
  // Some network file systems cannot sync a directory and say EINVAL: nothing more can be done
  // there.
  if (::fsync(fd.get()) != 0 && errno != EINVAL)
    return file_error(errno, "cannot sync the directory", directory);
  return {};
}

class LocalReader : public FileReader {
 public:
  LocalReader(FileDescriptor fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  Result<uint64_t> size() override {
    struct stat status;
    if (::fstat(fd_.get(), &status) != 0) return file_error(errno, "cannot get the size of", name_);
    return static_cast<uint64_t>(status.st_size);
  }

  Result<size_t> read_at(uint64_t offset, MutableBytes out) override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = ::pread(fd_.get(), out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_error(errno, "cannot read", name_);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

  const std::string& name() const override { return name_; }

 private:
  FileDescriptor fd_;
  std::string name_;
};

class MemoryReader : public FileReader {
 public:
  MemoryReader(Bytes bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}
  Result<uint64_t> size() override { return static_cast<uint64_t>(bytes_.size()); }
  Result<size_t> read_at(uint64_t offset, MutableBytes out) override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t count = std::min<size_t>(out.size(), bytes_.size() - offset);
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), count, out.begin());
    return count;
  }
  const std::string& name() const override { return name_; }

 private:
  Bytes bytes_;
  std::string name_;
};

class LocalWriter : public FileWriter {
 public:
  LocalWriter(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status append(Bytes bytes) override {
    if (!fd_.is_open()) return closed();
    if (const int code = internal::write_all(fd_.get(), bytes))
      return failed_write(code, bytes.size(), path_);
    return {};
  }
  Status flush() override { return fd_.is_open() ? Status() : closed(); }
  Status sync() override {
    if (!fd_.is_open()) return closed();
    if (::fsync(fd_.get()) != 0) return file_error(errno, "cannot sync", path_);
    return {};
  }
  Status close() override {
    if (const int code = close_file(fd_)) return file_error(code, "cannot close", path_);
    return {};
  }

 private:
  Status closed() const {
    return internal_error("'" + path_ + "' was written to after it was closed");
  }

  FileDescriptor fd_;
  std::string path_;
};

class LocalStagedWriter : public StagedWriter {
 public:
  LocalStagedWriter(FileDescriptor fd, std::string aside, std::string path)
      : fd_(std::move(fd)), output_(fd_.get()), aside_(std::move(aside)), path_(std::move(path)) {}
  ~LocalStagedWriter() override { (void)discard(); }

  Status append(Bytes bytes) override {
    if (!fd_.is_open()) return finished();
    if (const int code = output_.append(bytes)) return failed_write(code, bytes.size(), path_);
    return {};
  }

  Status sync() override {
    if (!fd_.is_open()) return finished();
    if (const int code = output_.flush()) return file_error(code, "cannot write to", path_);
    if (::fsync(fd_.get()) != 0) return file_error(errno, "cannot sync", path_);
    return {};
  }

  Status commit() override {
    if (Status synced = sync(); !synced.ok()) return synced;
    const FileDescriptor still_locked(
        ::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));  // until it has its name
    if (const int code = close_file(fd_)) {
      (void)discard();
      return file_error(code, "cannot close", path_);
    }
    if (std::rename(aside_.c_str(), path_.c_str()) != 0) {
      const int code = errno;
      (void)discard();
      if (code == EISDIR) {
        return invalid_argument("'" + path_ + "' is a directory, not a file",
                                "name a file, or a path that does not exist yet");
      }
      return file_error(code, "cannot rename '" + aside_ + "' to", path_);
    }
    staged_ = false;
    return sync_directory(directory_of(path_));
  }

  Status discard() override {
    (void)close_file(fd_);
    if (!std::exchange(staged_, false)) return {};
    if (::unlink(aside_.c_str()) != 0 && errno != ENOENT)
      return file_error(errno, "cannot remove", aside_);
    return {};
  }

 private:
  Status finished() const {
    return internal_error("'" + path_ + "' was written to after it was committed or discarded");
  }

  FileDescriptor fd_;
  DirectOutput output_;
  std::string aside_;
  std::string path_;
  bool staged_ = true;
};

class LocalFileSystem : public FileSystem {
 public:
  Result<FileInfo> info(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    struct stat status;
    if (::stat(local.value().c_str(), &status) != 0) {
      return errno == ENAMETOOLONG ? no_such_file(path) : file_error(errno, "cannot look at", path);
    }
    return FileInfo{.is_directory = S_ISDIR(status.st_mode),
                    .size = static_cast<uint64_t>(status.st_size),
                    .modified_seconds = static_cast<double>(status.st_mtim.tv_sec) +
                                        static_cast<double>(status.st_mtim.tv_nsec) * 1e-9};
  }

  Status remove_tree(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    std::error_code error;
    std::filesystem::remove_all(local.value(), error);
    return error ? Status(file_error(error.value(), "cannot remove", path)) : Status();
  }

  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    Result<FileDescriptor> file = open_regular_file(local.value(), O_RDONLY, path);
    if (!file.ok()) return file.error();
    return std::unique_ptr<FileReader>(
        std::make_unique<LocalReader>(std::move(file).value(), path));
  }

  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    Result<FileDescriptor> file =
        open_regular_file(local.value(), O_WRONLY | O_CREAT | O_APPEND, path);
    if (!file.ok()) return file.error();
    if (Status synced = sync_directory(directory_of(local.value())); !synced.ok())
      return synced.error();
    return std::unique_ptr<FileWriter>(
        std::make_unique<LocalWriter>(std::move(file).value(), path));
  }

  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    if (Status no_device = check_is_no_device(local.value(), path); !no_device.ok())
      return no_device.error();
    static std::atomic<uint64_t> counter{0};
    const std::string directory = directory_of(local.value());
    const std::string mark =
        "." + std::string(base_name(local.value())) + std::string(kStagingMark);
    remove_staging_leftovers(directory, mark);
    const std::string stem = join_path(directory, mark + std::to_string(::getpid()) + "-");
    for (int attempt = 0; attempt < 1000; ++attempt) {
      std::string aside = stem + std::to_string(counter.fetch_add(1));
      FileDescriptor fd = open_any(aside, O_WRONLY | O_CREAT | O_EXCL);
      if (fd.is_open()) {
        if (!claim_staging_file(fd.get())) continue;
        return std::unique_ptr<StagedWriter>(
            std::make_unique<LocalStagedWriter>(std::move(fd), std::move(aside), local.value()));
      }
      // A process of the same id may have left this name, here or on another host of a shared disk.
      if (errno != EEXIST) return file_error(errno, "cannot open for writing", path);
    }
    return internal_error(
        "found no free name for a temporary file next to '" + path + "' after 1000 attempts",
        "remove the leftovers '" + stem + "*'");
  }

  Result<std::vector<std::string>> list_directory(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    DIR* directory = ::opendir(local.value().c_str());
    if (directory == nullptr) return file_error(errno, "cannot list the directory", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const int code = errno;
    ::closedir(directory);
    if (code != 0) return file_error(code, "cannot list the directory", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status make_directories(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    return make_local_directories(local.value());
  }

  Status remove(const std::string& path) override {
    Result<std::string> local = local_path(path);
    if (!local.ok()) return local.error();
    if (std::remove(local.value().c_str()) != 0) return file_error(errno, "cannot remove", path);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    Result<std::string> local_from = local_path(from);
    if (!local_from.ok()) return local_from.error();
    Result<std::string> local_to = local_path(to);
    if (!local_to.ok()) return local_to.error();
    if (std::rename(local_from.value().c_str(), local_to.value().c_str()) != 0) {
      return file_error(errno, "cannot rename '" + from + "' to", to);
    }
    return sync_directory(directory_of(local_to.value()));
  }

 private:
  static Status make_local_directories(const std::string& path) {
    struct stat status;
    if (::stat(path.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) return {};
      return invalid_argument(
          "cannot make the directory '" + path + "': a file of that name exists",
          "name a folder, or a path that does not exist yet");
    }
    std::string trimmed = path;
    while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
    const std::string parent = directory_of(trimmed);
    if (parent != trimmed && parent != ".") {
      if (Status made = make_local_directories(parent); !made.ok()) return made;
    }
    if (::mkdir(trimmed.c_str(), 0777) != 0) {
      if (errno != EEXIST) return file_error(errno, "cannot make the directory", trimmed);
      std::error_code no_link;
      const auto target = std::filesystem::read_symlink(trimmed, no_link);
      // Another process may have made it meanwhile.
      if (no_link || ::stat(trimmed.c_str(), &status) == 0) return {};
      return invalid_argument("cannot make the directory '" + path +
                                  "': it is a symbolic link to '" + target.string() +
                                  "', which does not exist",
                              "make the folder that the link names, or remove the link");
    }
    return sync_directory(parent);
  }
};

}  // namespace

Status FileReader::read_exactly_at(uint64_t offset, MutableBytes out) {
  Result<size_t> got = read_at(offset, out);
  if (!got.ok()) return got.error();
  if (got.value() == out.size()) return {};
  return corrupt("'" + name() + "' ends at byte " + std::to_string(offset + got.value()) +
                     ", but bytes up to " + std::to_string(offset + out.size()) + " were expected",
                 "the file was cut short: copy or download it again");
}

Result<bool> FileSystem::exists(const std::string& path) {
  Result<FileInfo> found = info(path);
  if (found.ok()) return true;
  if (found.error().kind() == ErrorKind::kNotFound) return false;
  return found.error();
}

Result<uint64_t> FileSystem::file_size(const std::string& path) {
  Result<FileInfo> found = info(path);
  if (!found.ok()) return found.error();
  return found.value().size;
}

Result<std::string> FileSystem::read_file(const std::string& path) {
  Result<std::unique_ptr<FileReader>> reader = open_reader(path);
  if (!reader.ok()) return reader.error();
  Result<uint64_t> size = reader.value()->size();
  if (!size.ok()) return size.error();
  // The buffer is one byte longer than the file: when it is full, the file grew, or has no size, as
  // files of /proc. Memory grows with the bytes read, because a file server may report a wrong
  // size.
  constexpr uint64_t kTrusted = uint64_t{64} << 20;
  std::string content(std::min(size.value(), kTrusted) + 1, '\0');
  size_t length = 0;
  while (true) {
    Result<size_t> got = reader.value()->read_at(
        length,
        std::as_writable_bytes(std::span(content.data() + length, content.size() - length)));
    if (!got.ok()) return got.error();
    length += got.value();
    if (length < content.size()) break;
    content.resize(size.value() < length ? length * 2 : std::min(size.value() + 1, length * 4));
  }
  content.resize(length);
  return content;
}

Result<std::string> FileSystem::read_range(const std::string& path, uint64_t offset,
                                           uint64_t length) {
  Result<std::unique_ptr<FileReader>> reader = open_reader(path);
  if (!reader.ok()) return reader.error();
  Result<uint64_t> size = reader.value()->size();
  if (!size.ok()) return size.error();
  if (offset > size.value() || length > size.value() - offset) {
    return corrupt("'" + path + "' has " + std::to_string(size.value()) + " bytes; " +
                   std::to_string(length) + " bytes from " + std::to_string(offset) +
                   " were expected");
  }
  std::string content(length, '\0');
  Status read = reader.value()->read_exactly_at(offset, std::as_writable_bytes(std::span(content)));
  if (!read.ok()) return read.error();
  return content;
}

Status FileSystem::write_atomically(const std::string& path, Bytes bytes) {
  Result<std::unique_ptr<StagedWriter>> writer = open_staged(path);
  if (!writer.ok()) return writer.error();
  if (Status appended = writer.value()->append(bytes); !appended.ok()) return appended;
  return writer.value()->commit();
}

Status FileSystem::write_atomically(const std::string& path, std::string_view text) {
  return write_atomically(path, bytes_of(text));
}

Result<std::vector<DirectoryEntry>> FileSystem::list_entries(const std::string& path) {
  Result<std::vector<std::string>> names = list_directory(path);
  if (!names.ok()) return names.error();
  std::vector<DirectoryEntry> entries;
  for (std::string& name : names.value()) {
    // Some entries of a disk have no info: they were removed since, or are links that lead nowhere.
    const Result<FileInfo> found = info(join_path(path, name));
    if (found.ok()) {
      entries.push_back({std::move(name), found.value()});
    } else if (is_remote(path) && found.error().kind() != ErrorKind::kNotFound) {
      return found.error();
    }
  }
  return entries;
}

Status FileSystem::remove_tree(const std::string& path) {
  Result<FileInfo> found = info(path);
  if (!found.ok())
    return found.error().kind() == ErrorKind::kNotFound ? Status() : Status(found.error());
  if (found.value().is_directory) {
    Result<std::vector<std::string>> names = list_directory(path);
    if (!names.ok()) return names.error();
    for (const std::string& name : names.value()) {
      if (Status removed = remove_tree(join_path(path, name)); !removed.ok()) return removed;
    }
  }
  // In a store a folder disappears with its last object.
  Status removed = remove(path);
  return !removed.ok() && removed.error().kind() == ErrorKind::kNotFound ? Status() : removed;
}

FileSystem& local_file_system() {
  static LocalFileSystem* const instance = new LocalFileSystem();
  return *instance;
}

std::unique_ptr<FileReader> memory_reader(Bytes bytes, std::string name) {
  return std::make_unique<MemoryReader>(bytes, std::move(name));
}

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty() || root_size(name) > 0) return std::string(name);
  std::string path(directory);
  if (path.back() != '/') path += '/';
  return path += name;
}

std::string_view base_name(std::string_view path) {
  const size_t root = root_size(path);
  const size_t slash = path.rfind('/');
  return path.substr(slash == std::string_view::npos || slash < root ? root : slash + 1);
}

std::string directory_of(std::string_view path) {
  const size_t root = root_size(path);
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos && slash >= root) return std::string(path.substr(0, slash));
  return root == 0 ? "." : std::string(path.substr(0, root));
}

bool is_staging_name(std::string_view name) {
  return name.size() > 1 && name.front() == '.' &&
         name.find(kStagingMark) != std::string_view::npos;
}

}  // namespace muster::inline v0_1
