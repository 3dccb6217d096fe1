// Opens files of this machine, and nothing else that may bear their names. Thread safety: free
// functions.
#pragma once

#include <string>

#include "muster/base/file_descriptor.h"
#include "muster/base/result.h"

namespace muster::inline v0_1 {

// Opens the file `local` of this machine; errors call it `path`. `flags` are those of open(2),
// without O_CLOEXEC and O_NONBLOCK, which are added: no call waits for the other end of a pipe. A
// new file gets the mode 0666. Returns InvalidArgument for a directory, a named pipe, a socket or a
// device, and says which; NotFound if nothing is there.
Result<FileDescriptor> open_regular_file(const std::string& local, int flags,
                                         const std::string& path);
inline Result<FileDescriptor> open_regular_file(const std::string& local, int flags) {
  return open_regular_file(local, flags, local);
}

// Returns the error for a file that was to replace `local` if that is a named pipe, a socket or a
// device; the error calls it `path`. OK for a file, a directory and a missing path.
Status check_is_no_special_file(const std::string& local, const std::string& path);
// The same for a device only, which a rename would destroy, and for a link to a file that a process
// has open, such as /dev/stdout.
Status check_is_no_device(const std::string& local, const std::string& path);

// The error of a call of the operating system about a file: "<what> '<path>': <why>", and what to
// do about it.
Error file_error(int error_number, const std::string& what, const std::string& path);
// NotFound for a path that is longer than the system takes.
Error no_such_file(const std::string& path);

}  // namespace muster::inline v0_1
