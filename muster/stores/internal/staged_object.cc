#include "muster/stores/internal/staged_object.h"

#include <algorithm>
#include <utility>

namespace muster::inline v0_1::stores::internal {

StagedObject::StagedObject(std::shared_ptr<Transfers> transfers, ObjectService& service,
                           ObjectName object)
    : transfers_(std::move(transfers)),
      service_(service),
      object_(std::move(object)),
      part_bytes_(transfers_->limits.part_bytes) {}

StagedObject::~StagedObject() { (void)discard(); }

Status StagedObject::append(Bytes bytes) {
  if (!open_) return finished();
  while (!bytes.empty()) {
    if (part_.size() == part_bytes_) {
      if (Status sent = send(false); !sent.ok()) return sent;
    }
    make_room(bytes.size());
    const size_t count = std::min(bytes.size(), part_bytes_ - part_.size());
    part_.append(text_of(bytes.first(count)));
    bytes = bytes.subspan(count);
  }
  return {};
}

void StagedObject::make_room(size_t bytes) {
  if (part_.capacity() >= part_bytes_ || part_.size() + bytes <= part_.capacity()) return;
  if (upload_ == nullptr) {
    part_.reserve(std::min(part_bytes_, std::max(part_.capacity() * 2, part_.size() + bytes)));
    return;
  }
  part_.reserve(part_bytes_);
}

Status StagedObject::sync() { return open_ ? wait_for_parts(0) : finished(); }

Status StagedObject::commit() {
  if (!open_) return finished();
  if (upload_ == nullptr) {
    open_ = false;
    Result<ObjectInfo> put = service_.put(object_, bytes_of(part_));
    part_ = {};
    return put.ok() ? Status() : Status(put.error());
  }
  Status done = send(true);
  if (done.ok()) done = wait_for_parts(0);
  if (done.ok()) done = upload_->finish();
  if (!done.ok()) {
    (void)discard();
    return done;
  }
  open_ = false;
  upload_.reset();
  return {};
}

Status StagedObject::discard() {
  if (!std::exchange(open_, false)) return {};
  part_ = {};
  if (upload_ == nullptr) return {};
  cancellation_.cancel();
  (void)wait_for_parts(0);
  const std::unique_ptr<PartUpload> upload = std::move(upload_);
  return upload->abort();
}

Status StagedObject::begin_upload() {
  Result<std::unique_ptr<PartUpload>> begun = service_.begin_upload(object_);
  if (!begun.ok()) return begun.error();
  upload_ = std::move(begun).value();
  return {};
}

int StagedObject::most_in_flight() const {
  if (!upload_->parallel()) return 1;
  // Parts that have become larger, as in large objects, need as much memory in a smaller number.
  constexpr size_t kLeast = 4;
  const auto most = static_cast<size_t>(std::max(1, transfers_->limits.parts_in_flight));
  const size_t as_large = most * transfers_->limits.part_bytes / part_bytes_;
  return static_cast<int>(std::min(most, std::max(kLeast, as_large)));
}

Status StagedObject::send(bool last) {
  if (upload_ == nullptr) {
    if (Status begun = begin_upload(); !begun.ok()) return begun;
  }
  if (Status waited = wait_for_parts(most_in_flight() - 1); !waited.ok()) return waited;
  const int number = ++parts_;
  auto part = std::make_shared<std::string>(std::move(part_));
  part_ = {};
  part_bytes_ = upload_->part_bytes(number + 1);
  std::lock_guard lock(mutex_);
  std::erase_if(spare_, [&](const std::string& memory) { return memory.capacity() < part_bytes_; });
  if (!spare_.empty()) {
    part_ = std::move(spare_.back());
    spare_.pop_back();
  }
  ++sending_;
  transfers_->threads.submit([this, number, part, last] {
    const Status sent = upload_->send(number, bytes_of(*part), last, cancellation_);
    part->clear();
    std::lock_guard locked(mutex_);
    spare_.push_back(std::move(*part));
    if (!sent.ok() && !error_) error_ = sent.error();
    --sending_;
    changed_.notify_all();
  });
  return {};
}

Status StagedObject::wait_for_parts(int most) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sending_ <= most; });
  return error_ ? Status(*error_) : Status();
}

Status StagedObject::finished() const {
  return internal_error("'" + object_.uri() +
                        "' was written to after it was committed or discarded");
}

}  // namespace muster::inline v0_1::stores::internal
