#include "muster/export/internal/length_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/export/internal/request_rows.h"
#include "muster/export/internal/trace.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// With a length of 1 an axis would be repeated to fit another one.
constexpr int64_t kLeastTraced = 2;
// The export is compared with the model at least up to this length.
constexpr int64_t kFar = 50;

using Places = std::vector<size_t>;

bool are_finite(const std::vector<Tensor>& outputs) {
  return std::ranges::all_of(outputs, [](const Tensor& each) {
    return !each.is_floating_point() || each.isfinite().all().item<bool>();
  });
}

std::vector<int64_t> near_lengths(int64_t base) {
  std::vector<int64_t> lengths{base + 3, base - 3, base + 1, base - 1};
  std::erase_if(lengths, [](int64_t length) { return length < kLeastTraced; });
  return lengths;
}

class Planner {
 public:
  Planner(const ServingInputReceiver& receiver, const ModelCall& call)
      : receiver_(receiver), call_(call), axes_(free_axes(receiver)) {}

  LengthPlan plan() {
    LengthPlan plan{.axes = axes_.size(), .of = {}};
    if (axes_.empty()) return plan;
    base_ = first_lengths(receiver_, [&](const std::vector<int64_t>& lengths) {
      finite_ = are_finite(outputs_at(lengths));
    });
    plan.of = groups();
    for (const Places& group : plan.of) add_lengths(group, plan);
    return plan;
  }

 private:
  std::vector<Tensor> outputs_at(const std::vector<int64_t>& lengths) const {
    try {
      return call_(batch_of(receiver_, 1, lengths));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw invalid_argument(cause_of(error));
    }
  }

  // Whether the model takes this length on these axes, and its first lengths on the others.
  bool takes(const Places& axes, int64_t length) {
    std::vector<int64_t> lengths = base_;
    for (const size_t axis : axes) lengths[axis] = length;
    try {
      const bool finite = are_finite(outputs_at(lengths));
      if (finite || !finite_) return true;
      why_ = "an output is not finite";
    } catch (const Error& error) {
      why_ = error.message();
    }
    return false;
  }

  bool may_vary(const Places& axes) {
    const int64_t base = base_[axes.front()];
    if (std::ranges::any_of(axes, [&](size_t axis) { return base_[axis] != base; })) return false;
    return std::ranges::any_of(near_lengths(base),
                               [&](int64_t length) { return takes(axes, length); });
  }

  // Axes that vary alone, and those that vary only together: with the same axes of other features,
  // or all.
  std::vector<Places> groups() {
    std::vector<Places> groups;
    Places tied;
    for (size_t axis = 0; axis < axes_.size(); ++axis) {
      if (may_vary({axis})) {
        groups.push_back({axis});
      } else {
        tied.push_back(axis);
      }
    }
    if (tied.empty()) return groups;
    const std::string why = why_;
    std::map<int64_t, Places> by_axis;
    for (const size_t place : tied) by_axis[axes_[place].axis].push_back(place);
    std::vector<Places> alike;
    for (const auto& entry : by_axis) alike.push_back(entry.second);
    if (std::ranges::all_of(alike, [&](const Places& each) { return may_vary(each); })) {
      groups.insert(groups.end(), alike.begin(), alike.end());
    } else if (may_vary(tied)) {
      groups.push_back(tied);
    } else {
      const FreeAxis& first = axes_[tied.front()];
      throw invalid_argument(
          fmt::format("export_model: on axis {} of the feature \"{}\", whose size is -1, the model "
                      "function takes no length near {}, which it takes: {}",
                      first.axis, first.feature, base_[tied.front()], why),
          "give the axis this size, and let clients pad the rows; or let the model function take "
          "every length of a range");
    }
    return groups;
  }

  void add_lengths(const Places& group, LengthPlan& plan) {
    const int64_t base = base_[group.front()];
    LengthRange range;
    for (const size_t axis : group) range.axes.push_back(axes_[axis]);
    range.least = boundary(group, base, -1);
    int64_t far = std::max(kFar, base + base / 2 + 1);
    if (!takes(group, far)) range.most = far = boundary(group, base, far);
    const auto choose = [&](std::vector<int64_t> wanted, int64_t otherwise) {
      for (const int64_t length : wanted) {
        if (length >= std::max(range.least, kLeastTraced) && length <= far && length != base &&
            length != otherwise) {
          return length;
        }
      }
      return otherwise;
    };
    const int64_t other = choose(near_lengths(base), base);
    plan.base.push_back(base);
    plan.other.push_back(other);
    plan.third.push_back(
        choose({base + 11, base + 5, base + 2, base - 2, base + 1, base - 1}, other));
    plan.far.push_back(far);
    plan.ranges.push_back(std::move(range));
  }

  // The length nearest to `refused` that the model takes; it takes all from `taken` on.
  int64_t boundary(const Places& group, int64_t taken, int64_t refused) {
    while (std::abs(taken - refused) > 1) {
      const int64_t middle = (taken + refused) / 2;
      (takes(group, middle) ? taken : refused) = middle;
    }
    return taken;
  }

  const ServingInputReceiver& receiver_;
  const ModelCall& call_;
  const std::vector<FreeAxis> axes_;
  std::vector<int64_t> base_;
  bool finite_ = true;  // at the first lengths
  std::string why_;     // the last length was refused
};

}  // namespace

std::vector<int64_t> LengthPlan::by_axis(const GroupLengths& lengths) const {
  std::vector<int64_t> result(axes);
  for (size_t group = 0; group < of.size(); ++group) {
    for (const size_t axis : of[group]) result[axis] = lengths[group];
  }
  return result;
}

std::string LengthPlan::name_of(size_t group) const {
  std::vector<std::string> names;
  for (const auto& [feature, axis] : ranges[group].axes)
    names.push_back(fmt::format("axis {} of the feature \"{}\"", axis, feature));
  return join(names, " and ");
}

LengthPlan plan_lengths(const ServingInputReceiver& receiver, const ModelCall& call) {
  return Planner(receiver, call).plan();
}

}  // namespace muster::inline v0_1::internal
