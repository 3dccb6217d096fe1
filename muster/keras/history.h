// What fit() tells of its epochs. Thread safety: a value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::keras {

struct MUSTER_EXPORT History {
  // The epochs that were trained, from 0, and what was measured in each, by name: "loss",
  // "accuracy", "val_loss", "val_accuracy". An epoch without validation has NaN there.
  std::vector<int64_t> epoch{};
  std::map<std::string, std::vector<double>> history{};

  // Notes an epoch.
  void add(int64_t number, const std::map<std::string, double>& logs);
  // The values of one name. Throws NotFound with the nearest name.
  const std::vector<double>& operator[](const std::string& name) const;
  // Writes curves as a picture that any browser opens: one panel for each metric, training and
  // validation in it. `path` ends in ".svg". Throws InvalidArgument for another ending, and what
  // writing throws.
  void plot(const std::string& path) const;
  // Gives "epoch,accuracy,loss\n0,0.91,0.31\n" and so on.
  std::string to_csv() const;
};

}  // namespace muster::inline v0_1::keras
