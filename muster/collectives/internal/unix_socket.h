// Unix sockets, over which processes of one host hand each other shared memory. No LibTorch here.
// Thread safety: one thread sends on a socket and one receives.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::internal {

// A piece of shared memory on its way to another process, and its sender.
struct MemoryHandle {
  int rank = 0;
  std::string token{};  // 64 characters; proves that the sender has read the receiver's endpoint
  uint64_t id = 0;
  int64_t bytes = 0;
  FileDescriptor file{};
};

// Listens under an abstract name of this network namespace. Throws Unavailable.
FileDescriptor listen_unix(const std::string& name);
// Does not wait: nothing when the listener's queue is full now. Throws Unavailable.
std::optional<FileDescriptor> connect_unix(const std::string& name);
// Whether there is something to read, or the other side is gone, within `timeout`.
bool readable(const FileDescriptor& socket, std::chrono::milliseconds timeout);
// Nothing if no peer connected in time. Throws Unavailable.
std::optional<FileDescriptor> accept_unix(const FileDescriptor& listener,
                                          std::chrono::milliseconds timeout);
// False when the receiver is gone or its queue is full. It never blocks. `file` stays the caller's.
bool send_handle(const FileDescriptor& socket, const MemoryHandle& handle,
                 const FileDescriptor& file);
// Nothing if none came in time, the sender is gone, or the message is not a letter with one
// descriptor; the descriptors of such a message are closed.
std::optional<MemoryHandle> receive_handle(const FileDescriptor& socket,
                                           std::chrono::milliseconds timeout);
// Whether the other side has closed the socket, which its system does when its process ends.
bool hung_up(const FileDescriptor& socket);

}  // namespace muster::inline v0_1::internal
