#include "muster/stores/internal/growing_object.h"

#include <span>
#include <utility>

namespace muster::inline v0_1::stores::internal {
namespace {

// Appended bytes go to the store without a flush when there are this many.
constexpr uint64_t kMostUnsent = uint64_t{32} << 20;

}  // namespace

GrowingObject::GrowingObject(std::shared_ptr<Transfers> transfers, ObjectService& service,
                             ObjectName object, ObjectInfo info, std::string content)
    : transfers_(std::move(transfers)),
      service_(service),
      object_(std::move(object)),
      base_(std::move(info)),
      content_(std::move(content)),
      small_(base_.size <= kSmall) {}

Status GrowingObject::append(Bytes bytes) {
  if (!open_) return internal_error("'" + object_.uri() + "' was written to after it was closed");
  content_.append(text_of(bytes));
  unsent_ += bytes.size();
  return unsent_ >= kMostUnsent ? flush() : Status();
}

Status GrowingObject::flush() {
  if (!open_) return internal_error("'" + object_.uri() + "' was written to after it was closed");
  if (in_doubt_ > 0) {
    if (Status looked = look_again(); !looked.ok()) return looked;
  }
  if (unsent_ == 0) return {};
  Result<ObjectInfo> sent = small_ ? service_.put(object_, bytes_of(content_))
                                   : service_.extend(object_, base_, bytes_of(content_));
  // Bytes that were not sent stay for the next flush.
  if (!sent.ok()) {
    if (!small_) in_doubt_ = unsent_;
    return sent.error();
  }
  base_ = std::move(sent).value();
  unsent_ = 0;
  if (base_.size > kSmall) {
    small_ = false;
    content_.clear();
  }
  return {};
}

Status GrowingObject::look_again() {
  Result<ObjectInfo> now = service_.look(object_);
  if (!now.ok()) return now.error();
  if (now.value().version == base_.version) {  // it was not done
    in_doubt_ = 0;
    return {};
  }
  std::string tail(in_doubt_, '\0');
  if (now.value().size == base_.size + in_doubt_) {
    Status read = read_block(service_, object_, now.value(), base_.size,
                             std::as_writable_bytes(std::span(tail)), nullptr);
    if (!read.ok()) return read.error();
  }
  if (now.value().size != base_.size + in_doubt_ || !content_.starts_with(tail)) {
    return Error(
        ErrorKind::kUnavailable,
        "'" + object_.uri() + "' was written by another program during an append",
        "let only one program write it, or open it again to append to its current content");
  }
  base_ = std::move(now).value();
  content_.erase(0, in_doubt_);
  unsent_ -= std::exchange(in_doubt_, 0);
  return {};
}

Status GrowingObject::close() {
  if (!open_) return {};
  if (Status flushed = flush(); !flushed.ok()) return flushed;
  open_ = false;
  content_ = {};
  return {};
}

}  // namespace muster::inline v0_1::stores::internal
