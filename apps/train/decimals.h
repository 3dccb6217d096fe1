// Decides whether a point or a comma separates a number and its fraction, column by column. Thread
// safety: values.
#pragma once

#include <optional>
#include <string>

#include "apps/train/column_profile.h"

namespace muster::app {

// First it looks at all columns: a column whose numbers are ambiguous is read as the others are.
class Decimals {
 public:
  // `flag` is --decimal: "auto", "." or ",". With semicolons as delimiter, a comma that is
  // ambiguous without other evidence is the mark of fractions.
  Decimals(const std::string& flag, char delimiter);

  void look_at(const ColumnProfile& profile);
  // Whether the numbers of a column are ambiguous, and no evidence decides.
  bool unknown(const ColumnProfile& profile) const;
  bool comma_in(const ColumnProfile& profile) const;
  void settle(ColumnProfile& profile) const;

 private:
  std::optional<bool> asked_;
  bool semicolons_;
  bool comma_elsewhere_ = false, point_elsewhere_ = false;
};

}  // namespace muster::app
