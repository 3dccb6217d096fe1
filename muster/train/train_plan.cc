#include "muster/train/train_plan.h"

#include <algorithm>
#include <utility>

namespace muster::inline v0_1 {
namespace {

bool is_named(const std::vector<optim::TrainOp::Entry>& entries, const std::string& name) {
  return std::ranges::any_of(entries,
                             [&](const auto& entry) { return entry.optimizer.name() == name; });
}

}  // namespace

bool TrainPlan::covers(const optim::TrainOp& train_op) const {
  return std::ranges::all_of(train_op.entries, [&](const auto& entry) {
    return is_named(entries_, entry.optimizer.name());
  });
}

void TrainPlan::add(const optim::TrainOp& train_op) {
  std::vector<optim::TrainOp::Entry> added;
  for (const auto& entry : train_op.entries) {
    if (is_named(entries_, entry.optimizer.name())) continue;
    added.push_back(entry);
    added.back().loss.reset();
    added.back().rests = true;
  }
  for (auto& entry : added) entries_.push_back(std::move(entry));
}

optim::TrainOp TrainPlan::completed(optim::TrainOp train_op) const {
  optim::TrainOp complete{.entries = {}, .updates = train_op.updates};
  std::vector<bool> taken(train_op.entries.size(), false);
  for (const auto& known : entries_) {
    const std::string& name = known.optimizer.name();
    if (!is_named(train_op.entries, name)) {
      complete.entries.push_back(known);
      continue;
    }
    for (size_t e = 0; e < train_op.entries.size(); ++e) {
      if (taken[e] || train_op.entries[e].optimizer.name() != name) continue;
      complete.entries.push_back(train_op.entries[e]);
      taken[e] = true;
      break;
    }
  }
  const bool fits = complete.entries.size() == entries_.size() &&
                    std::ranges::all_of(taken, [](bool each) { return each; });
  return fits ? complete : train_op;
}

std::vector<std::string> TrainPlan::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) {
    if (std::ranges::find(names, entry.optimizer.name()) == names.end())
      names.push_back(entry.optimizer.name());
  }
  return names;
}

}  // namespace muster::inline v0_1
