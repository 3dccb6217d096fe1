// Elements in groups: window(), group_by_window().
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/node.h"

namespace muster::inline v0_1 {

namespace in = data::internal;

namespace {

in::Window window_of(int64_t size, const WindowOptions& options, Dataset::WindowFunction fn) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t shift = options.shift == 0 ? size : options.shift;
  for (const auto& [number, what] :
       {std::pair{size, "size"}, {shift, "shift"}, {options.stride, "stride"}}) {
    if (number >= 1 && number <= kMost) continue;
    throw invalid_argument(fmt::format("window(): the {} is {}", what, number),
                           fmt::format("pass 1 to {}", kMost));
  }
  return {.size = size,
          .shift = shift,
          .stride = options.stride,
          .drop_remainder = options.drop_remainder,
          .fn = std::move(fn),
          .name = options.name};
}

void check_functions(bool given) {
  if (!given) throw invalid_argument("group_by_window() got an empty function");
}

}  // namespace

Dataset Dataset::window(int64_t size, const WindowOptions& options) const {
  return Dataset(in::make_node(window_of(size, options, nullptr), {node_}));
}

Dataset Dataset::window(int64_t size, WindowFunction fn, const WindowOptions& options) const {
  if (fn == nullptr) throw invalid_argument("window() got an empty function");
  return Dataset(in::make_node(window_of(size, options, std::move(fn)), {node_}));
}

Dataset Dataset::group_by_window(KeyFunction key, GroupFunction reduce, int64_t window_size,
                                 const std::string& name) const {
  if (window_size < 1) {
    throw invalid_argument(fmt::format("group_by_window(): the window size is {}", window_size),
                           "a window holds at least one element");
  }
  check_functions(key != nullptr && reduce != nullptr);
  return Dataset(
      in::make_node(in::GroupByWindow{.key = std::move(key),
                                      .reduce = std::move(reduce),
                                      .size = [window_size](int64_t) { return window_size; },
                                      .name = name,
                                      .call = "group_by_window",
                                      .params = fmt::format("({})", window_size)},
                    {node_}));
}

Dataset Dataset::group_by_window(KeyFunction key, GroupFunction reduce,
                                 WindowSizeFunction window_size, const std::string& name) const {
  check_functions(key != nullptr && reduce != nullptr && window_size != nullptr);
  return Dataset(in::make_node(in::GroupByWindow{.key = std::move(key),
                                                 .reduce = std::move(reduce),
                                                 .size = std::move(window_size),
                                                 .name = name,
                                                 .call = "group_by_window",
                                                 .params = ""},
                               {node_}));
}

}  // namespace muster::inline v0_1
