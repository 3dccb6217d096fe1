// The interface that carries operations out. No LibTorch here.
#pragma once

#include "muster/base/error.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/work.h"

namespace muster::inline v0_1::internal {

// Carries operations out, in the order they were submitted. The first failure ends them all. Thread
// safety: submit() from one thread at a time, the rest from any.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Work submit(Operation operation) = 0;
  // Queued and later operations fail with `error`. False when they failed already.
  virtual bool fail(const Error& error) = 0;
  // No operation is queued or running.
  virtual bool idle() const = 0;
};

}  // namespace muster::inline v0_1::internal
