#include "muster/summary/internal/joined_events.h"

#include <algorithm>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::summary::internal {
namespace {

// The bytes of the first record of an event file, which contains its version: a length of 8 bytes,
// the checksum of that, the event, and its checksum.
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
  if (!leaving_.empty() || (!joining_ && !read_old(stop)) || stop()) return;
  if (const Status written = files_.write_atomically(joining_->path, joining_->content);
      !written.ok()) {
    log::debug("event files are not joined now: " + written.error().message());
    return;
  }
  parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(options_.files));
  joined_path_ = std::move(joining_->path);
  joined_ = std::move(joining_->content);
  leaving_ = std::move(joining_->leaving);
  joining_.reset();
  remove_joined();
}

bool JoinedEvents::read_old(const std::function<bool()>& stop) {
  if (parts_.size() < options_.files ||
      clock_.now() - parts_[options_.files - 1].sent < from_seconds(options_.after_seconds)) {
    return false;
  }
  const bool begins = joined_path_.empty() || joined_.size() >= options_.most_bytes;
  Joining next{.path = begins ? parts_.front().path : joined_path_,
               .content = begins ? "" : joined_,
               .leaving = {}};
  for (size_t i = 0; i < options_.files; ++i) {
    if (stop()) return false;
    Result<std::string> part = files_.read_file(parts_[i].path);
    if (!part.ok() && part.error().kind() == ErrorKind::kNotFound) {
      // It was removed; the others are joined next time.
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i));
      return false;
    }
    const bool whole = part.ok() && header_bytes(part.value()) <= part.value().size();
    if (!whole) {
      log::debug("event files are not joined now: " +
                 (part.ok() ? "'" + parts_[i].path + "' was changed" : part.error().message()));
      return false;
    }
    // One file contains its version once.
    next.content +=
        i == 0 && begins ? part.value() : part.value().substr(header_bytes(part.value()));
    if (i > 0 || !begins) next.leaving.push_back(parts_[i].path);
  }
  joining_ = std::move(next);
  return true;
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
