#include "muster/train/stop_request.h"

#include <atomic>
#include <utility>

#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

std::atomic<int64_t> requests{0};

}  // namespace

void request_stop() { ++requests; }

StopRequest::StopRequest(std::function<bool()> cancelled)
    : cancelled_(std::move(cancelled)), requests_before_(requests.load()) {}

void StopRequest::begin() { requests_before_ = requests.load(); }

bool StopRequest::asked() const {
  return requests != requests_before_ || (cancelled_ && cancelled_());
}

bool StopRequest::asked_or_signalled() const { return stop_signal() != 0 || asked(); }

}  // namespace muster::inline v0_1
