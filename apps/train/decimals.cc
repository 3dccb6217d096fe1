#include "apps/train/decimals.h"

namespace muster::app {

Decimals::Decimals(const std::string& flag, char delimiter) : semicolons_(delimiter == ';') {
  if (flag != "auto") asked_ = flag == ",";
}

void Decimals::look_at(const ColumnProfile& profile) {
  const DecimalEvidence seen = profile.evidence();
  // One alone may be a slip.
  comma_elsewhere_ = comma_elsewhere_ || (seen.comma > seen.point && seen.comma > 1);
  point_elsewhere_ = point_elsewhere_ || seen.point > seen.comma;
}

bool Decimals::unknown(const ColumnProfile& profile) const {
  const DecimalEvidence seen = profile.evidence();
  return !asked_ && seen.point + seen.comma == 0 && seen.maybe_point + seen.maybe_comma > 0 &&
         comma_elsewhere_ == point_elsewhere_;
}

bool Decimals::comma_in(const ColumnProfile& profile) const {
  if (asked_) return *asked_;
  const DecimalEvidence seen = profile.evidence();
  if (seen.point != seen.comma) return seen.comma > seen.point;
  if (comma_elsewhere_ != point_elsewhere_) return comma_elsewhere_;
  return seen.maybe_comma > seen.maybe_point && semicolons_;
}

void Decimals::settle(ColumnProfile& profile) const {
  const bool comma = comma_in(profile);
  profile.settle({.decimal_comma = comma, .unit = profile.unit(comma)});
}

}  // namespace muster::app
