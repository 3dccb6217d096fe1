// The events of one writer in a store, where files do not grow: small files, each whole, that are
// sent on a thread of their own so that training does not wait for the network. Thread safety: all
// calls from any thread.
//
// TensorBoard reads the files of a directory in the order of their names, and never one that sorts
// before what it has read already. So a file gets its name when it is sent and not when its events
// were made: the time, then a number that grows. A file that is sent later sorts later. Files that
// are ten minutes old are joined.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/summary/internal/joined_events.h"

namespace muster::inline v0_1::summary::internal {

// How events wait and are tried again; by the machine's clock.
struct EventPartsOptions {
  std::string suffix{};                  // of the names
  size_t most_bytes = size_t{64} << 20;  // of waiting events; more are lost
  double first_delay_seconds = 1;        // before a file is tried again; it doubles from then on
  double longest_delay_seconds = 60;
  double end_seconds = 30;  // for waiting events when it is closed
  JoinOptions join{};       // of old files
};

class EventParts {
 public:
  // Sends nothing yet. `files` and `clock`, which the names are made by, outlive it.
  EventParts(std::string directory, FileSystem& files, Clock& clock, EventPartsOptions options);
  // Closes.
  ~EventParts();
  EventParts(const EventParts&) = delete;
  EventParts& operator=(const EventParts&) = delete;

  // Takes over `records`, the TFRecords of `events` events, to be sent. Never waits and never
  // throws: a part that cannot be sent is tried again, reported once, and lost when too much waits.
  void add(const std::string& records, int64_t events);
  // Waits, for a bounded time, until all is sent; says how many events are lost if not all are.
  void close();
  // The path of the file that was sent last; empty before.
  std::string path() const;

 private:
  void run();
  // Sends the waiting events, once. `lock` is held, but not meanwhile.
  bool send(std::unique_lock<std::mutex>& lock);
  std::string next_name();

  const std::string directory_;
  FileSystem& files_;
  Clock& clock_;
  const EventPartsOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;  // records
  int64_t waiting_events_ = 0;
  std::string sending_;  // the file that is being sent, or is to be tried again
  int64_t sending_events_ = 0;
  std::string sending_path_;
  int64_t lost_ = 0;
  int64_t newest_second_ = 0;  // in a name
  std::string path_;
  bool ending_ = false;
  bool give_up_ = false;
  JoinedEvents joined_;  // of the thread
  std::thread thread_;   // from the first add() on
};

}  // namespace muster::inline v0_1::summary::internal
