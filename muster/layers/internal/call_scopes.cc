#include "muster/layers/internal/call_scopes.h"

#include <utility>

#include "muster/layers/internal/call_tape.h"

namespace muster::inline v0_1::internal {

MixedPrecisionScope::MixedPrecisionScope(CallContext& context, bool mixed)
    : context_(context), outer_(std::exchange(context.mixed_precision_, mixed)) {}
MixedPrecisionScope::~MixedPrecisionScope() { context_.mixed_precision_ = outer_; }

RecordingScope::RecordingScope(CallContext& context, CallTape& tape)
    : context_(context), tape_(tape), outer_(std::exchange(context.recorded_, &tape)) {
  tape.training = context.training_;
  tape.mixed_precision = context.mixed_precision_;
}
RecordingScope::~RecordingScope() {
  context_.recorded_ = outer_;
  if (outer_ != nullptr) outer_->append(tape_);
}

ReplayScope::ReplayScope(CallContext& context, CallTapeReader& reader)
    : context_(context),
      outer_(std::exchange(context.replayed_, &reader)),
      outer_training_(std::exchange(context.training_, reader.training())),
      mixed_precision_(context, reader.mixed_precision()),
      current_(context) {}
ReplayScope::~ReplayScope() {
  context_.replayed_ = outer_;
  context_.training_ = outer_training_;
}

}  // namespace muster::inline v0_1::internal
