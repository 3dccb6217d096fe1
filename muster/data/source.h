// A Source is the beginning of a Dataset: a fixed number of elements that can be read by index, in
// any order. Implement it for your own data; Dataset::from_source() takes it. Thread safety: const
// calls may come from several threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

class MUSTER_EXPORT Source {
 public:
  virtual ~Source() = default;

  // Returns one word for saved positions and messages, such as "slices".
  virtual std::string kind() const = 0;
  virtual int64_t size() const = 0;
  // Returns element `index`, which is in [0, size()), in its own memory: callers may write to it.
  virtual Element element(int64_t index) const = 0;
  // Returns the elements at `indices`, joined along a new axis 0; without indices, zero rows of the
  // right shapes. This default stacks the results of element(); sources that can copy rows at once
  // override it. REQUIRES: size() > 0.
  virtual Element gather(std::span<const int64_t> indices) const;
};

}  // namespace muster::inline v0_1
