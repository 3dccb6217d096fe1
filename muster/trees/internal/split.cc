#include "muster/trees/internal/split.h"

#include <algorithm>
#include <cmath>

namespace muster::inline v0_1::trees {
namespace {

// G minus an l1 penalty, towards 0.
inline double softened(double g, double l1) { return g > l1 ? g - l1 : g < -l1 ? g + l1 : 0.0; }

inline double score_of(const Sums& sums, const Scale& scale, const Regularization& regularization) {
  const double g = softened(static_cast<double>(sums.gradient) * scale.gradient, regularization.l1);
  const double below = static_cast<double>(sums.hessian) * scale.hessian + regularization.l2;
  return below > 0 ? g * g / below : 0.0;
}

// The smallest sum of whole hessians that a child may have: of one example at least.
int64_t least_hessian(const Scale& scale, double min_node_weight) {
  constexpr double kMost = 9e18;  // more than any sum
  const double whole = std::ceil(min_node_weight / scale.hessian);
  return static_cast<int64_t>(std::clamp(whole, 1.0, kMost));
}

// Looks at splits of one node, and keeps the best.
class Search {
 public:
  Search(const Sums& node, const Scale& scale, const Regularization& regularization)
      : node_(node),
        scale_(scale),
        regularization_(regularization),
        node_score_(score_of(node, scale, regularization)),
        least_(least_hessian(scale, regularization.min_node_weight)) {}

  void look(uint32_t feature, size_t bin, bool category, bool missing_left, const Sums& left) {
    const Sums right = node_ - left;
    if (left.hessian < least_ || right.hessian < least_) return;
    const double score =
        score_of(left, scale_, regularization_) + score_of(right, scale_, regularization_);
    // A gain that rounding makes out of nothing is none.
    constexpr double kRounding = 1e-10;
    const double gain = score - node_score_;
    if (gain <= kRounding * score || (best_ && gain <= best_->gain)) return;
    best_ = Split{.feature = feature,
                  .bin = static_cast<uint8_t>(bin),
                  .category = category,
                  .missing_left = missing_left,
                  .gain = gain,
                  .left = left};
  }

  const std::optional<Split>& best() const { return best_; }

 private:
  const Sums node_;
  const Scale scale_;
  const Regularization regularization_;
  const double node_score_;
  const int64_t least_;
  std::optional<Split> best_;
};

}  // namespace

double leaf_value(const Sums& sums, const Scale& scale, const Regularization& regularization) {
  const double below = static_cast<double>(sums.hessian) * scale.hessian + regularization.l2;
  const double g = static_cast<double>(sums.gradient) * scale.gradient;
  return below > 0 ? -softened(g, regularization.l1) / below : 0.0;
}

std::optional<Split> best_split(std::span<const Sums> histogram, const Sums& node, const Bins& bins,
                                const Scale& scale, const Regularization& regularization) {
  Search search(node, scale, regularization);
  for (uint32_t f = 0; f < bins.features(); ++f) {
    const Sums* sums = histogram.data() + bins.offsets[f];
    const size_t last = bins.upper[f].size();
    const Sums missing = sums[0];
    const bool category = bins.category[f];
    Sums left;
    for (size_t b = 1; b <= last; ++b) {
      if (category) {
        left = sums[b];
      } else {
        left += sums[b];
      }
      // An empty bin makes the same children as the one before.
      if (sums[b].hessian == 0) continue;
      if (missing.hessian == 0) {
        search.look(f, b, category, 2 * left.hessian >= node.hessian, left);
        continue;
      }
      search.look(f, b, category, /*missing_left=*/false, left);
      Sums with = left;
      search.look(f, b, category, /*missing_left=*/true, with += missing);
    }
  }
  return search.best();
}

}  // namespace muster::inline v0_1::trees
