#include "muster/files/shared_patience.h"

#include <algorithm>
#include <utility>

namespace muster::inline v0_1 {
namespace {

thread_local std::shared_ptr<SharedPatience::Outage> outage_here;

}  // namespace

TimePoint SharedPatience::Outage::note_failure(TimePoint failed) {
  const std::lock_guard lock(mutex_);
  since_ = since_ ? std::min(*since_, failed) : failed;
  return *since_;
}

void SharedPatience::Outage::note_answer() {
  const std::lock_guard lock(mutex_);
  since_.reset();
}

SharedPatience::SharedPatience() : outermost_(!outage_here) {
  if (outermost_) outage_here = std::make_shared<Outage>();
}

SharedPatience::~SharedPatience() {
  if (outermost_) outage_here.reset();
}

std::shared_ptr<SharedPatience::Outage> SharedPatience::current() { return outage_here; }

SharedPatience::Part::Part(std::shared_ptr<Outage> outage)
    : former_(std::exchange(outage_here, std::move(outage))) {}

SharedPatience::Part::~Part() { outage_here = std::move(former_); }

}  // namespace muster::inline v0_1
