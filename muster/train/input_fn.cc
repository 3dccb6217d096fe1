#include "muster/train/input_fn.h"

#include <memory>
#include <mutex>
#include <optional>

namespace muster::inline v0_1 {

InputFn called_once(const InputFn& input_fn) {
  struct Shared {
    InputFn input_fn{};
    std::mutex mutex{};
    std::optional<Dataset> dataset{};
  };
  auto shared = std::make_shared<Shared>();
  shared->input_fn = input_fn;
  const auto call = [shared](const InputContext& context) {
    const std::lock_guard lock(shared->mutex);
    if (!shared->dataset) shared->dataset = shared->input_fn(context);
    return *shared->dataset;
  };
  if (input_fn.shards_itself()) return InputFn(call);
  return InputFn([call] { return call(InputContext{}); });
}

}  // namespace muster::inline v0_1
