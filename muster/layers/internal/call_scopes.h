// Changes of a context by layers that call other layers. Thread safety: as CallContext.
#pragma once

#include "muster/layers/step_context.h"

namespace muster::inline v0_1::internal {

// While one lives, layers multiply numbers of bfloat16, or do not.
class MixedPrecisionScope {
 public:
  MixedPrecisionScope(CallContext& context, bool mixed);
  ~MixedPrecisionScope();
  MixedPrecisionScope(const MixedPrecisionScope&) = delete;
  MixedPrecisionScope& operator=(const MixedPrecisionScope&) = delete;

 private:
  CallContext& context_;
  bool outer_;
};

// While one lives, the values that layers receive are recorded on the tape.
class RecordingScope {
 public:
  RecordingScope(CallContext& context, CallTape& tape);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  CallContext& context_;
  CallTape& tape_;
  CallTape* outer_;
};

// While one lives, layers receive the values on the reader's tape.
class ReplayScope {
 public:
  ReplayScope(CallContext& context, CallTapeReader& reader);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;

 private:
  CallContext& context_;
  CallTapeReader* outer_;
  bool outer_training_;
  MixedPrecisionScope mixed_precision_;
  StepContext::Current current_;
};

}  // namespace muster::inline v0_1::internal
