// Largest numbers and means of windows.
#include <algorithm>
#include <limits>

#include "muster/savedmodel/internal/operations.h"
#include "muster/savedmodel/internal/windows.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

std::string pooled(Call& call, const Windows& windows, const std::string& name,
                   const std::string& x) {
  return call.add(windows.axes() == 3 ? name + "3D" : name, {x},
                  {{"ksize", integer_values(windows.with_batch_and_channels(windows.kernel))},
                   {"strides", integer_values(windows.with_batch_and_channels(windows.strides))},
                   {"padding", text_value(windows.padding)}});
}

// What is missing at the ends for the last window, if their number is rounded up; all 0 otherwise.
std::vector<int64_t> missing(Call& call, const Windows& windows) {
  const size_t axes = windows.axes();
  std::vector<int64_t> pads(2 * axes, 0);
  if (call.integer("ceil_mode", 0) == 0) return pads;
  for (size_t axis = 0; axis < axes; ++axis) {
    if (windows.sizes[axis] < 0) call.refuse("rounds up the number of windows of a free size");
    const int64_t there = windows.sizes[axis] + windows.pads[axis] + windows.pads[axes + axis];
    const int64_t count = windows.widened && axis == 0
                              ? 1
                              : call.result().shape[2 + axis - (windows.widened ? 1 : 0)];
    pads[axes + axis] =
        std::max<int64_t>(0, (count - 1) * windows.strides[axis] + windows.kernel[axis] - there);
  }
  return pads;
}

bool has_some(const std::vector<int64_t>& pads) {
  return std::ranges::any_of(pads, [](int64_t pad) { return pad != 0; });
}

void pool_largest(Call& call) {
  Windows windows = Windows::of_pool(call);
  if (std::ranges::any_of(windows.dilations, [](int64_t each) { return each != 1; }))
    call.refuse("has windows with holes");
  const auto more = missing(call, windows);
  for (size_t i = 0; i < more.size(); ++i) windows.pads[i] += more[i];
  const std::string x =
      windows.padded(call, windows.image(call), -std::numeric_limits<double>::infinity());
  call.give(windows.channels_first(call, pooled(call, windows, "MaxPool", x)));
}

void pool_average(Call& call) {
  Windows windows = Windows::of_pool(call);
  const std::string x = windows.image(call);
  const auto more = missing(call, windows);
  const bool counts_pads = call.integer("count_include_pad", 0) != 0;
  std::string y;
  if (!has_some(more) && (counts_pads || !has_some(windows.pads))) {
    y = pooled(call, windows, "AvgPool", Windows::around(call, x, windows.pads, 0));
  } else if (!has_some(more) && windows.is_same()) {
    windows.padding = "SAME";
    y = pooled(call, windows, "AvgPool", x);
  } else {
    // The mean of the window, by the share of it that counts.
    const auto mean = [&](const std::string& image, double number) {
      const std::string inner = Windows::around(call, image, windows.pads, number);
      return pooled(call, windows, "AvgPool", Windows::around(call, inner, more, 0));
    };
    const std::string share = mean(call.add("OnesLike", {x}), counts_pads ? 1 : 0);
    y = call.add("RealDiv", {mean(x, 0), share});
  }
  call.give(windows.channels_first(call, y));
}

}  // namespace

void add_pools(OperationMap& map) {
  map["MaxPool"] = pool_largest;
  map["AveragePool"] = pool_average;
}

}  // namespace muster::inline v0_1::saved_model::internal
