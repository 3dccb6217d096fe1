// Decisions about a table that a user may want to change, each with the flag that changes it.
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

  // `no_classes`: the words among the labels that stand for a missing one.
  void look_at_label(const std::string& name, const ColumnProfile& label,
                     const std::set<std::string>& no_classes);
  void look_at(const std::string& name, const ColumnProfile& profile);
  // Notes about a column of numbers.
  void look_at_numbers(const std::string& name, const ColumnProfile& profile);
  // Notes about a label that is a number.
  void look_at_target(const std::string& name, const ColumnProfile& label);
  // Notes about a column of texts that looks like numbers, also if it is excluded.
  void look_at_texts(const std::string& name, const ColumnProfile& profile);
  // Notes about texts that differ in case alone, such as "Yes" and "yes".
  void look_at_spellings(const std::string& name, const ColumnProfile& profile);

  std::vector<std::string> all() const;

 private:
  const Decimals& decimals_;
  std::vector<std::string> own_, commas_, thousands_, fractions_;
  std::map<std::string, std::vector<std::string>> texts_;
  std::map<std::string, int64_t> missing_;
};

}  // namespace muster::app
