#include "muster/data/stop_scope.h"

#include <utility>

#include "muster/data/internal/reading.h"
#include "muster/data/own_reader.h"

namespace muster::inline v0_1::data {
namespace {

thread_local std::shared_ptr<const std::function<bool()>> stop;
thread_local const internal::Run* reading = nullptr;

}  // namespace

bool reading_is_over() { return reading != nullptr && reading->stopping(); }

StopScope::StopScope(std::function<bool()> asked) : before_(stop) {
  if (asked) stop = std::make_shared<const std::function<bool()>>(std::move(asked));
}
StopScope::~StopScope() { stop = before_; }

std::shared_ptr<const std::function<bool()>> internal::stop_of_this_thread() { return stop; }

internal::ReadingScope::ReadingScope(const Run& run) : before_(std::exchange(reading, &run)) {}
internal::ReadingScope::~ReadingScope() { reading = before_; }

}  // namespace muster::inline v0_1::data
