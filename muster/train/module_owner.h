// What keeps a module of LibTorch: the context of a model function, or of a function of run().
// Thread safety: as that context.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/device.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

class ModelContext;

class ModuleOwner {
 public:
  virtual ~ModuleOwner() = default;
  // Where the parameters and buffers of its modules become variables.
  virtual VariableStore& variables() = 0;
  virtual uint64_t seed() const = 0;
  virtual Device device() const = 0;
  // Whether modules are called to train.
  virtual bool training() const = 0;
  // A key that differs for each name, step, replica and call within a step.
  virtual RandomKey next_random_key(const std::string& name) = 0;
  // Storage under that name, as long as the owner lives; empty at first.
  virtual std::shared_ptr<void>& kept(const std::string& name) = 0;
};

// Returns the owner of the modules of a model function; it lives as long as `context`.
MUSTER_EXPORT ModuleOwner& module_owner(ModelContext& context);

}  // namespace muster::inline v0_1
