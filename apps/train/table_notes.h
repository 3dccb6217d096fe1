// The decisions about a table that a user may want to change, and the flag that changes each.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "apps/train/column_profile.h"
#include "apps/train/decimals.h"

namespace muster::app {

class TableNotes {
 public:
  // `decimals` must outlive it.
  explicit TableNotes(const Decimals& decimals) : decimals_(decimals) {}

  // `no_classes`: the words among the labels that mean a missing label.
  void look_at_label(const std::string& name, const ColumnProfile& label,
                     const std::set<std::string>& no_classes);
  void look_at(const std::string& name, const ColumnProfile& profile);
  // Notes on a column of numbers by itself.
  void look_at_numbers(const std::string& name, const ColumnProfile& profile);
  // Looks at a label that is a number.
  void look_at_target(const std::string& name, const ColumnProfile& label);
  // Looks at a column of texts that looks like one of numbers, also if it is left out.
  void look_at_texts(const std::string& name, const ColumnProfile& profile);

  std::vector<std::string> all() const;

 private:
  const Decimals& decimals_;
  std::vector<std::string> own_, commas_, thousands_, fractions_;
  std::map<std::string, std::vector<std::string>> texts_;
  std::map<std::string, int64_t> missing_;
};

}  // namespace muster::app
