#include "muster/export/free_axes.h"

#include <optional>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

std::vector<FreeAxis> free_axes(const ServingInputReceiver& receiver) {
  std::vector<FreeAxis> axes;
  for (const auto& [name, feature] : receiver.features) {
    for (size_t axis = 0; axis < feature.shape.size(); ++axis) {
      if (feature.shape[axis] == -1) axes.push_back({name, static_cast<int64_t>(axis) + 1});
    }
  }
  return axes;
}

Shape batch_shape(const ServingInputReceiver& receiver, const std::string& feature, int64_t rows,
                  const std::vector<int64_t>& lengths) {
  const Shape& of_row = receiver.features.at(feature).shape;
  Shape shape{rows};
  shape.insert(shape.end(), of_row.begin(), of_row.end());
  size_t at = 0;
  for (const FreeAxis& each : free_axes(receiver)) {
    if (each.feature == feature) shape[static_cast<size_t>(each.axis)] = lengths[at];
    ++at;
  }
  return shape;
}

std::vector<int64_t> first_lengths(
    const ServingInputReceiver& receiver,
    const std::function<void(const std::vector<int64_t>& lengths)>& takes) {
  const std::vector<FreeAxis> axes = free_axes(receiver);
  std::optional<Error> first;
  for (const int64_t length : {7, 33, 129}) {
    std::vector<int64_t> lengths;
    bool chosen = false;
    for (const FreeAxis& each : axes) {
      const std::optional<Tensor>& example = receiver.features.at(each.feature).example;
      chosen = chosen || !example;
      lengths.push_back(example ? example->size(each.axis) : length);
    }
    try {
      takes(lengths);
      return lengths;
    } catch (const Error& error) {
      if (!first) first = error;
      if (!chosen) break;
    }
  }
  throw Error(*first);
}

}  // namespace muster::inline v0_1
