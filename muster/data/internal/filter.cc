#include "muster/data/internal/filter.h"

#include <fmt/format.h>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

bool FilterStream::passes(StreamElement& item) {
  if (item.error != nullptr) return true;
  const Filter& filter = std::get<Filter>(node_->spec);
  try {
    item.settle();
    const torch::NoGradGuard no_grad;
    return filter.fn(item.element);
  } catch (...) {
    item.error =
        current_failure(fmt::format("{} failed on {} (pass {}), {}, in {}", node_->name,
                                    describe_place(item.from, *node_->input()), item.from.tag.run,
                                    item.element.describe(), node_->description));
    return true;
  }
}

}  // namespace muster::inline v0_1::data::internal
