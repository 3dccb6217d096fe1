// The bytes of one connection, in both directions, whatever carries them: a socket, TLS on top of
// one, or a simulation. Only wait() waits. Thread safety: one thread reads and one writes at a
// time; shut() and wait() from any.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::net {

// How far one try went.
struct StreamStep {
  size_t moved = 0;      // bytes
  short wait = 0;        // the events to wait() for before the next try, if nothing moved
  std::string lost{};    // why nothing can move any more: a sentence about the other side
  bool refused = false;  // it is lost because one side's certificate was not accepted
};

class Stream {
 public:
  explicit Stream(FileDescriptor socket) : socket_(std::move(socket)) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Reads the available bytes, at most as many as `out` holds.
  virtual StreamStep read(MutableBytes out) = 0;
  // Writes as much of the pieces, one after another, as can be taken now.
  virtual StreamStep write(std::span<const iovec> pieces) = 0;

  // Whether open files can be sent: over a plain Unix socket.
  virtual bool carries_files() const { return false; }
  // Writes as write() does, and `file` is sent with the first byte. REQUIRES: carries_files().
  virtual StreamStep write_with_file(std::span<const iovec> pieces, const FileDescriptor& file);
  // From now on a file that comes is kept, one at a time; before, the system closes it.
  virtual void keep_files() {}
  // The file that came last; closed if none came.
  virtual FileDescriptor take_file() { return {}; }

  using Time = std::chrono::steady_clock::time_point;
  // The clock that wait() goes by.
  virtual Time now() const;
  // Waits for one of the events of poll(2), or the end of the connection; false if neither came
  // before `until`.
  virtual bool wait(Time until, short events) const;
  // Ends both directions: threads that wait() wake up, at both ends.
  virtual void shut();
  // The other side receives the written bytes, and then the end.
  virtual void finish();
  // Bytes that were written and are still on their way, as far as the system knows.
  virtual int on_their_way() const;

 protected:
  int descriptor() const { return socket_.get(); }

 private:
  FileDescriptor socket_;
};

// The bytes as they are. `socket` is a connected TCP or Unix socket, or still connecting.
std::unique_ptr<Stream> plain_stream(FileDescriptor socket);

}  // namespace muster::inline v0_1::net
