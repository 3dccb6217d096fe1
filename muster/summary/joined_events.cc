#include "muster/summary/internal/joined_events.h"

#include <algorithm>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::summary::internal {
namespace {

// The bytes that the first record of an event file takes, which tells its version: a length of 8
// bytes, the checksum of that, the event, and its checksum.
size_t header_bytes(const std::string& file) {
  constexpr size_t kAround = 8 + 4 + 4;
  if (file.size() < kAround) return 0;
  return kAround + load_little_endian<uint64_t>(file.data());
}

}  // namespace

JoinedEvents::JoinedEvents(FileSystem& files, Clock& clock, JoinOptions options)
    : files_(files), clock_(clock), options_(options) {}

void JoinedEvents::add(const std::string& path) { parts_.push_back({path, clock_.now()}); }

void JoinedEvents::join(const std::function<bool()>& stop) {
  remove_joined();
  if (!leaving_.empty() || parts_.size() < options_.files ||
      clock_.now() - parts_[options_.files - 1].sent < from_seconds(options_.after_seconds)) {
    return;
  }
  const bool begins = joined_path_.empty() || joined_.size() >= options_.most_bytes;
  std::string content = begins ? "" : joined_;
  std::vector<std::string> taken;
  for (size_t i = 0; i < options_.files; ++i) {
    if (stop()) return;
    Result<std::string> part = files_.read_file(parts_[i].path);
    const bool whole = part.ok() && header_bytes(part.value()) <= part.value().size();
    if (!whole) {
      log::debug("event files are not joined now: " +
                 (part.ok() ? "'" + parts_[i].path + "' was changed" : part.error().message()));
      return;
    }
    // One file tells its version once.
    content += i == 0 && begins ? part.value() : part.value().substr(header_bytes(part.value()));
    if (i > 0 || !begins) taken.push_back(parts_[i].path);
  }
  const std::string path = begins ? parts_.front().path : joined_path_;
  if (stop()) return;
  if (const Status written = files_.write_atomically(path, content); !written.ok()) {
    log::debug("event files are not joined now: " + written.error().message());
    return;
  }
  parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(options_.files));
  joined_path_ = path;
  joined_ = std::move(content);
  leaving_ = std::move(taken);
  remove_joined();
}

void JoinedEvents::remove_joined() {
  while (!leaving_.empty()) {
    const Status removed = files_.remove(leaving_.back());
    if (!removed.ok() && removed.error().kind() != ErrorKind::kNotFound) {
      log::debug("an event file that was joined stays for now: " + removed.error().message());
      return;
    }
    leaving_.pop_back();
  }
}

}  // namespace muster::inline v0_1::summary::internal
