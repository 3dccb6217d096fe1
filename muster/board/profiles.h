// Profiles: files in the Trace Event format, of hooks::profiler (timeline-STEP.json), of PyTorch's
// profiler (NAME.pt.trace.json) and of TensorFlow's (plugins/profile/TIME/HOST.trace.json.gz), and
// TensorFlow's HOST.xplane.pb. Thread safety: pure functions of the files.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::inline v0_1::board {

// The most bytes of a profile that the board gives to a page, unpacked.
inline constexpr uint64_t kMostProfileBytes = uint64_t{128} << 20;

// Whether a file of this name is a profile.
bool is_profile(std::string_view name);

// The text of a profile in the Trace Event format, unpacked if it is gzip. Throws InvalidArgument
// if it has more than `most` bytes, Corrupt for damaged gzip or xplane, and the errors of the file
// system.
std::string profile_text(FileSystem& files, const std::string& path,
                         uint64_t most = kMostProfileBytes);

// [{"path", "bytes", "written"}] of the profiles; null where a file is gone. "written" is Unix
// time.
nlohmann::json profiles_json(FileSystem& files, const std::vector<std::string>& paths);

}  // namespace muster::inline v0_1::board
