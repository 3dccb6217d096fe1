// What a store of objects can do, in the few calls that its file system is made of. Thread safety:
// an ObjectService may be used from many threads; a PartUpload says so itself.
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
  std::string version{};             // ETag or generation; empty where the server has none
  std::optional<uint32_t> crc32c{};  // of the whole object, where the service gives it
  std::optional<std::string> md5{};  // 16 bytes
};

// A part of an object.
struct RangeRead {
  size_t bytes = 0;  // fewer than asked only at the end of the object
  ObjectInfo info{};
};

// What a directory holds, a page at a time. Keys and prefixes are whole.
struct ListPage {
  std::vector<std::string> keys{};
  std::vector<FileInfo> infos{};        // of the keys
  std::vector<std::string> prefixes{};  // each ends with a slash
  std::string next{};                   // what asks for the next page; empty after the last
};

// An object that is sent in parts.
class PartUpload {
 public:
  // Aborts what was neither finished nor aborted.
  virtual ~PartUpload() = default;
  // The size of part `number` (from 1), in bytes, unless it is the last.
  virtual size_t part_bytes(int number) const = 0;
  // Whether send() may be called from several threads, and in any order.
  virtual bool parallel() const = 0;
  // Sends a part; the last may be empty.
  virtual Status send(int number, Bytes part, bool last, Cancellation& cancellation) = 0;
  // Makes the object visible. REQUIRES: all parts were sent.
  virtual Status finish() = 0;
  // Gives up what was sent.
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
  // Looks at the object. NotFound when it, or its bucket, is not there.
  virtual Result<ObjectInfo> look(const ObjectName& object) = 0;
  // Writes an object of few bytes in one request; returns the new version.
  virtual Result<ObjectInfo> put(const ObjectName& object, Bytes bytes) = 0;
  virtual Result<std::unique_ptr<PartUpload>> begin_upload(const ObjectName& object) = 0;
  // Replaces the object, still of version `base`, by itself followed by `tail`, in one step.
  virtual Result<ObjectInfo> extend(const ObjectName& object, const ObjectInfo& base,
                                    Bytes tail) = 0;
  // The keys that begin with `prefix`, and where a slash follows it only what is up to that.
  // NotFound when there is no such bucket. `most` 0: as many as the service likes to give.
  virtual Result<ListPage> list(const ObjectName& bucket, const std::string& prefix, bool flat,
                                const std::string& next, int most) = 0;
  // Removes the object; it is not an error when it is not there.
  virtual Status remove(const ObjectName& object) = 0;
  // Does the same for many objects of a bucket.
  virtual Status remove_all(const ObjectName& bucket, const std::vector<std::string>& keys) = 0;
  // Copies within the service.
  virtual Status copy(const ObjectName& from, const ObjectInfo& info, const ObjectName& to) = 0;
};

}  // namespace muster::inline v0_1::stores::internal
