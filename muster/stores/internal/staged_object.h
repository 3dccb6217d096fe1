// Writes an object in parts, several on their way at once, and makes it visible at the end. Thread
// safety: as StagedWriter.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/stores/internal/transfers.h"

namespace muster::inline v0_1::stores::internal {

class StagedObject : public StagedWriter {
 public:
  // `transfers` owns `service`.
  StagedObject(std::shared_ptr<Transfers> transfers, ObjectService& service, ObjectName object);
  ~StagedObject() override;

  Status append(Bytes bytes) override;
  Status sync() override;
  Status commit() override;
  Status discard() override;

 private:
  Status begin_upload();
  Status send(bool last);
  // How many parts of this size may be on their way.
  int most_in_flight() const;
  // Extends part_ to the size of a part, or to `bytes` for a first one.
  void make_room(size_t bytes);
  // Waits until at most `most` parts are on their way.
  Status wait_for_parts(int most);
  Status finished() const;

  const std::shared_ptr<Transfers> transfers_;
  ObjectService& service_;
  const ObjectName object_;
  std::unique_ptr<PartUpload> upload_;  // none while the bytes fit into one request
  std::string part_;
  size_t part_bytes_;
  int parts_ = 0;
  bool open_ = true;

  std::mutex mutex_;
  std::condition_variable changed_;
  int sending_ = 0;
  // Memory of parts that were sent, for the next: new memory costs as much as a copy.
  std::vector<std::string> spare_;
  std::optional<Error> error_;  // the first; every later call returns it
  Cancellation cancellation_;
};

}  // namespace muster::inline v0_1::stores::internal
