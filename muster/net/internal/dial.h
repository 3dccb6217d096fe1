// Connects to where a task listens. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::net {

// A connection, or why there is none.
struct Dialled {
  FileDescriptor socket{};
  std::string reason{};       // of the last address that was tried
  bool unknown_host = false;  // the name has no address
};

// Tries the addresses of "host:port" one after another, at most until `until`, or until `cancelled`
// says so.
Dialled dial(const std::string& address, std::chrono::steady_clock::time_point until,
             const std::function<bool()>& cancelled);

// Options of a connection that carries raw data: bytes leave at once, a dead host is noticed within
// a minute, and much may be on its way.
void prepare_for_data(int socket);

}  // namespace muster::inline v0_1::net
