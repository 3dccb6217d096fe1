// An input function describes the data of a run. Its elements are (features, labels) or features
// only; each may be a value or a dict of values, in batches. Thread safety: as safe as the function
// it holds.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/input_context.h"

namespace muster::inline v0_1 {

// There are two kinds. A function without arguments describes the whole data set, and Muster
// divides it between the replicas: batch(b) gives each replica b examples a step, global_batch(g)
// gives all of them g together. A function of an InputContext shards and batches for the replica
// that the context names; Muster divides nothing.
class InputFn {
 public:
  InputFn() = default;
  template <typename Fn>
  requires(!std::is_same_v<std::remove_cvref_t<Fn>, InputFn>)
      InputFn(Fn fn) {  // NOLINT(google-explicit-constructor)
    constexpr bool kByContext = std::is_invocable_r_v<Dataset, Fn, const InputContext&>;
    constexpr bool kWhole = std::is_invocable_r_v<Dataset, Fn>;
    static_assert(
        kByContext || kWhole,
        "an input function takes nothing, or a const InputContext&, and returns a Dataset. It does "
        "not get the mode: use one each for training, evaluation and prediction.");
    if constexpr (kByContext) {
      by_context_ = std::move(fn);
    } else if constexpr (kWhole) {
      whole_ = std::move(fn);
    }
  }

  bool shards_itself() const { return static_cast<bool>(by_context_); }
  explicit operator bool() const { return whole_ || by_context_; }
  Dataset operator()(const InputContext& context) const {
    return by_context_ ? by_context_(context) : whole_();
  }

 private:
  std::function<Dataset()> whole_;
  std::function<Dataset(const InputContext&)> by_context_;
};

// Wraps `input_fn` so that only the first replica of the process calls it; the others get the same
// data set. Thread safety: any threads.
MUSTER_EXPORT InputFn called_once(const InputFn& input_fn);

}  // namespace muster::inline v0_1
