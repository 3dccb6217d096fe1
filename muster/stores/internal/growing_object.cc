#include "muster/stores/internal/growing_object.h"

#include <utility>

namespace muster::inline v0_1::stores::internal {
namespace {

// Appended bytes go to the store without a flush when there are so many.
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
  if (unsent_ == 0) return {};
  Result<ObjectInfo> sent = small_ ? service_.put(object_, bytes_of(content_))
                                   : service_.extend(object_, base_, bytes_of(content_));
  // What was not sent stays for the next flush; the object is what it was before.
  if (!sent.ok()) return sent.error();
  base_ = std::move(sent).value();
  unsent_ = 0;
  if (base_.size > kSmall) {
    small_ = false;
    content_.clear();
  }
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
