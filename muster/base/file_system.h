// Reads and writes files by path or URI, through an interface that tests replace and other storage
// can implement. Thread safety: a FileSystem may be used from many threads; a writer belongs to one
// thread at a time; a reader may be shared.
//
// Paths are plain ("models/a") or URIs ("file:///models/a", "s3://bucket/a"; muster/base/uri.h).
// Do not assume that rename() is local and atomic: write what must appear completely or not at all
// with write_atomically() or a StagedWriter's commit(). Object stores behind URIs keep whole
// objects: they refuse open_writer() and rename(), and a folder exists there only while it has
// content (muster/files/file_systems.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/base/result.h"

namespace muster::inline v0_1 {

// Takes bytes, one after another.
class MUSTER_EXPORT ByteSink {
 public:
  virtual ~ByteSink() = default;
  // Writes all of `bytes`, or returns an error. After an error, the end of the written data is
  // undefined.
  virtual Status append(Bytes bytes) = 0;
};

// A file that grows and can be read while it grows (event files, logs). The destructor closes
// without sync.
class MUSTER_EXPORT FileWriter : public ByteSink {
 public:
  // Makes what was appended visible to readers.
  virtual Status flush() = 0;
  // Flushes, and makes the bytes survive a crash of the machine.
  virtual Status sync() = 0;
  // Flushes and ends the writing. After it only close(), which then does nothing, and the
  // destructor may be called.
  virtual Status close() = 0;
};

// A file that appears under its name only at commit(). The destructor discards uncommitted bytes.
class MUSTER_EXPORT StagedWriter : public ByteSink {
 public:
  // Makes the appended bytes survive a crash of the machine; the file has no name yet.
  virtual Status sync() = 0;
  // Syncs, then gives the file its name in one step that survives a crash. It replaces a file of
  // that name.
  virtual Status commit() = 0;
  // Removes the written bytes; no file appears under the name.
  virtual Status discard() = 0;
};

// Random access to one file.
class MUSTER_EXPORT FileReader {
 public:
  virtual ~FileReader() = default;
  // Returns the size now, in bytes; a file that is being written may grow.
  virtual Result<uint64_t> size() = 0;
  // Fills `out` from `offset` on. Returns the number of bytes read, which is smaller than asked
  // only at the end of the file.
  virtual Result<size_t> read_at(uint64_t offset, MutableBytes out) = 0;
  // The name of the file in errors: its path.
  virtual const std::string& name() const = 0;
  // Fills all of `out`, or returns Corrupt with the place where the file ended.
  Status read_exactly_at(uint64_t offset, MutableBytes out);
};

// Information about a file or directory that needs no opening.
struct FileInfo {
  bool is_directory = false;
  uint64_t size = 0;
  double modified_seconds = 0;  // Unix time
};

// An entry of a directory: its name there and its information.
struct DirectoryEntry {
  std::string name{};
  FileInfo info{};
};

class MUSTER_EXPORT FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Returns NotFound when there is nothing at `path`.
  virtual Result<FileInfo> info(const std::string& path) = 0;
  // Returns NotFound when there is no such file.
  virtual Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) = 0;
  // Creates the file, or continues at the end of an existing one.
  virtual Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) = 0;
  // Opens a file that has no name yet; see StagedWriter. After a crash, the leftover file has a
  // name for which is_staging_name() holds. Returns InvalidArgument when `path` names a device.
  virtual Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) = 0;
  // Returns the names inside, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list_directory(const std::string& path) = 0;
  // Returns the names of list_directory() with their information; entries that cannot be read are
  // left out. A store needs few requests for it, while info() needs one request for each name.
  virtual Result<std::vector<DirectoryEntry>> list_entries(const std::string& path);
  // Makes the directory and its missing parents; an existing directory is not an error.
  virtual Status make_directories(const std::string& path) = 0;
  // Removes a file or an empty directory. Returns NotFound when it is not there.
  virtual Status remove(const std::string& path) = 0;
  // Renames a file and replaces `to`. Other storage may need several steps for it, so use commit()
  // for what must be atomic.
  virtual Status rename(const std::string& from, const std::string& to) = 0;

  // Whether `path` names an existing file or directory.
  Result<bool> exists(const std::string& path);
  // Returns the size in bytes. Returns NotFound when there is no such file.
  Result<uint64_t> file_size(const std::string& path);
  // Returns all bytes of the file. Returns NotFound when there is no such file.
  Result<std::string> read_file(const std::string& path);
  // Returns the bytes [offset, offset + length). Returns Corrupt when the file is shorter.
  Result<std::string> read_range(const std::string& path, uint64_t offset, uint64_t length);
  // Writes the file so that readers see either the old content or the new one, even after a crash.
  Status write_atomically(const std::string& path, Bytes bytes);
  Status write_atomically(const std::string& path, std::string_view text);
  // Removes a file, or a directory with its content; a missing path is not an error. A symbolic
  // link is removed itself, not its target.
  virtual Status remove_tree(const std::string& path);
};

// The files of this machine: plain paths and file://. Refuses other schemes with InvalidArgument.
MUSTER_EXPORT FileSystem& local_file_system();

// Reads `bytes` as if they were a file of that name; they must outlive the reader.
MUSTER_EXPORT std::unique_ptr<FileReader> memory_reader(Bytes bytes, std::string name);

// Joins "a" and "b" to "a/b"; an absolute `name`, also a URI, stays as it is.
MUSTER_EXPORT std::string join_path(std::string_view directory, std::string_view name);
// Returns what follows the last slash; nothing for the root of a URI, such as "gs://bucket".
MUSTER_EXPORT std::string_view base_name(std::string_view path);
// Returns what precedes the last slash; "." when there is none. A root, such as "/" or
// "gs://bucket", is its own directory.
MUSTER_EXPORT std::string directory_of(std::string_view path);
// Whether the name is that of a StagedWriter's uncommitted file: ".<name>.staging-<pid>-<n>".
MUSTER_EXPORT bool is_staging_name(std::string_view name);

}  // namespace muster::inline v0_1
