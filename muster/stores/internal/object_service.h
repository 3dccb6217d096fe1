// The interface of a store of objects, in the few calls that its file system uses. Thread safety:
// an ObjectService may be used from many threads; a PartUpload documents its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/stores/internal/cancellation.h"
#include "muster/stores/internal/object_name.h"

namespace muster::inline v0_1::stores::internal {

// One version of an object.
struct ObjectInfo {
  uint64_t size = 0;
  double modified_seconds = 0;       // Unix time
  std::string version{};             // ETag or generation; empty if the server has none
  std::optional<uint32_t> crc32c{};  // of the whole object, if the service gives it
  std::optional<std::string> md5{};  // 16 bytes
};

// A part of an object.
struct RangeRead {
  size_t bytes = 0;  // fewer than asked only at the end of the object
  ObjectInfo info{};
};

// The content of a directory, a page at a time. Keys and prefixes are whole.
struct ListPage {
  std::vector<std::string> keys{};
  std::vector<FileInfo> infos{};        // of the keys
  std::vector<std::string> prefixes{};  // each ends with a slash
  std::string next{};                   // the token of the next page; empty after the last
};

// An object that is sent in parts.
class PartUpload {
 public:
  // Aborts an upload that was neither finished nor aborted.
  virtual ~PartUpload() = default;
  // The size of part `number` (from 1), in bytes, unless it is the last.
  virtual size_t part_bytes(int number) const = 0;
  // Whether send() may be called from several threads, and in any order.
  virtual bool parallel() const = 0;
  // Sends a part; the last may be empty.
  virtual Status send(int number, Bytes part, bool last, Cancellation& cancellation) = 0;
  // Makes the object visible. REQUIRES: all parts were sent.
  virtual Status finish() = 0;
  // Gives up the sent parts.
  virtual Status abort() = 0;
};

// Where objects are read from.
class ObjectSource {
 public:
  virtual ~ObjectSource() = default;
  // Reads [offset, offset + out.size()) of version `version`, or of the newest when that is empty.
  // Unavailable when there is another version by now.
  virtual Result<RangeRead> read(const ObjectName& object, const std::string& version,
                                 uint64_t offset, MutableBytes out, Cancellation* cancellation) = 0;
};

class ObjectService : public ObjectSource {
 public:
  virtual std::string scheme() const = 0;
  // Looks at the object. NotFound if it, or its bucket, does not exist.
  virtual Result<ObjectInfo> look(const ObjectName& object) = 0;
  // Writes an object of few bytes in one request; returns the new version.
  virtual Result<ObjectInfo> put(const ObjectName& object, Bytes bytes) = 0;
  virtual Result<std::unique_ptr<PartUpload>> begin_upload(const ObjectName& object) = 0;
  // Replaces the object, still of version `base`, by itself followed by `tail`, in one step.
  virtual Result<ObjectInfo> extend(const ObjectName& object, const ObjectInfo& base,
                                    Bytes tail) = 0;
  // The keys that begin with `prefix`; if a slash follows it, only the part up to that. NotFound if
  // there is no such bucket. `most` 0: as many as the service returns.
  virtual Result<ListPage> list(const ObjectName& bucket, const std::string& prefix, bool flat,
                                const std::string& next, int most) = 0;
  // Removes the object; a missing object is no error.
  virtual Status remove(const ObjectName& object) = 0;
  // Does the same for many objects of a bucket.
  virtual Status remove_all(const ObjectName& bucket, const std::vector<std::string>& keys) = 0;
  // Copies within the service.
  virtual Status copy(const ObjectName& from, const ObjectInfo& info, const ObjectName& to) = 0;
};

}  // namespace muster::inline v0_1::stores::internal
