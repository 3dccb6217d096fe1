// Reads and writes files by path or URI, behind an interface that tests replace and other storage
// can implement. Thread safety: a FileSystem may be used from many threads; a writer belongs to one
// thread at a time; a reader may be shared.
//
// Paths are plain ("models/a") or URIs ("file:///models/a", "s3://bucket/a"; muster/base/uri.h).
// Nothing may assume a local rename: what must appear whole or not at all goes through
// write_atomically() or a StagedWriter's commit(). The stores behind URIs keep whole objects:
// open_writer() and rename() are refused there, and folders come and go with what is in them
// (muster/files/file_systems.h).
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
  // Writes all of `bytes` or returns why not; after an error the tail of what was written is
  // undefined.
  virtual Status append(Bytes bytes) = 0;
};

// A file that grows and can be read while it grows (event files, logs). The destructor closes
// without sync.
class MUSTER_EXPORT FileWriter : public ByteSink {
 public:
  // Makes what was appended visible to readers.
  virtual Status flush() = 0;
  // Does what flush() does, and the bytes then survive a crash of the machine.
  virtual Status sync() = 0;
  // Does what flush() does and ends the writing; no call may follow but close(), which does nothing
  // then, and the destructor.
  virtual Status close() = 0;
};

// A file nobody sees under its name until commit(). The destructor discards what was not committed.
class MUSTER_EXPORT StagedWriter : public ByteSink {
 public:
  // What was appended then survives a crash of the machine, but the file has no name yet.
  virtual Status sync() = 0;
  // Syncs, then puts the file under its name, replacing what was there, in one step that survives a
  // crash.
  virtual Status commit() = 0;
  // Removes what was written; nothing appears under the name.
  virtual Status discard() = 0;
};

// Random access to one file.
class MUSTER_EXPORT FileReader {
 public:
  virtual ~FileReader() = default;
  // Returns the size now, in bytes; a file that is being written may grow.
  virtual Result<uint64_t> size() = 0;
  // Fills `out` from `offset` on; returns the bytes read, fewer than asked only at the end of the
  // file.
  virtual Result<size_t> read_at(uint64_t offset, MutableBytes out) = 0;
  // The name of the file in errors: its path.
  virtual const std::string& name() const = 0;
  // Fills all of `out`, or returns Corrupt and says where the file ended.
  Status read_exactly_at(uint64_t offset, MutableBytes out);
};

// What is known of a file or directory without opening it.
struct FileInfo {
  bool is_directory = false;
  uint64_t size = 0;
  double modified_seconds = 0;  // Unix time
};

// What a directory holds, under its name there.
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
  // Opens a file that has no name yet; see StagedWriter. What a crash leaves behind has a name for
  // which is_staging_name() holds. InvalidArgument where a device has the name.
  virtual Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) = 0;
  // Returns the names inside, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list_directory(const std::string& path) = 0;
  // What list_directory() gives, with what is known of each; what cannot be looked at is left out.
  // A store answers it with few requests, where info() for each name would take one for each.
  virtual Result<std::vector<DirectoryEntry>> list_entries(const std::string& path);
  // Makes the directory and its missing parents; one that exists already is no error.
  virtual Status make_directories(const std::string& path) = 0;
  // Removes a file or an empty directory. Returns NotFound when it is not there.
  virtual Status remove(const std::string& path) = 0;
  // Renames a file and replaces `to`. Other storage may not do this in one step, so what must be
  // atomic uses commit().
  virtual Status rename(const std::string& from, const std::string& to) = 0;

  // Whether a file or directory is there.
  Result<bool> exists(const std::string& path);
  // Returns the size in bytes. Returns NotFound when there is no such file.
  Result<uint64_t> file_size(const std::string& path);
  // Returns all bytes of the file. Returns NotFound when there is no such file.
  Result<std::string> read_file(const std::string& path);
  // Returns the bytes [offset, offset + length). Returns Corrupt when the file ends before.
  Result<std::string> read_range(const std::string& path, uint64_t offset, uint64_t length);
  // Writes the file so that readers see the old content or the new, even after a crash.
  Status write_atomically(const std::string& path, Bytes bytes);
  Status write_atomically(const std::string& path, std::string_view text);
  // Removes a file, or a directory with all it holds; it is no error when nothing is there. Of a
  // symbolic link only the link is removed.
  virtual Status remove_tree(const std::string& path);
};

// The files of this machine: plain paths and file://. For another scheme InvalidArgument names it.
MUSTER_EXPORT FileSystem& local_file_system();

// Reads `bytes` as if they were a file of that name; they must outlive the reader.
MUSTER_EXPORT std::unique_ptr<FileReader> memory_reader(Bytes bytes, std::string name);

// Joins "a" and "b" to "a/b"; an absolute `name`, also a URI, stays as it is.
MUSTER_EXPORT std::string join_path(std::string_view directory, std::string_view name);
// Returns what follows the last slash; nothing for the root of a URI, such as "gs://bucket".
MUSTER_EXPORT std::string_view base_name(std::string_view path);
// Returns what precedes the last slash; "." when there is none. A root, such as "/" and
// "gs://bucket", is in itself.
MUSTER_EXPORT std::string directory_of(std::string_view path);
// Whether a StagedWriter that did not commit gave a file this name: ".<name>.staging-<pid>-<n>".
MUSTER_EXPORT bool is_staging_name(std::string_view name);

}  // namespace muster::inline v0_1
