// The results of fit() for each epoch. Thread safety: a value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::keras {

struct MUSTER_EXPORT History {
  // The trained epochs, from 0, and the values of each, by name: "loss", "accuracy", "val_loss",
  // "val_accuracy". An epoch without validation has NaN for those.
  std::vector<int64_t> epoch{};
  std::map<std::string, std::vector<double>> history{};

  // Adds an epoch.
  void add(int64_t number, const std::map<std::string, double>& logs);
  // Returns the values of one name. Throws NotFound with the nearest name.
  const std::vector<double>& operator[](const std::string& name) const;
  // Writes the curves as a picture for browsers: one panel for each metric, with training and
  // validation. `path` must end in ".svg". Throws InvalidArgument for another extension, and the
  // errors of writing.
  void plot(const std::string& path) const;
  // Returns "epoch,accuracy,loss\n0,0.91,0.31\n" and so on.
  std::string to_csv() const;
};

}  // namespace muster::inline v0_1::keras
