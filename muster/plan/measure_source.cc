#include "muster/plan/measure_source.h"

#include <mutex>
#include <utility>
#include <vector>

namespace muster::inline v0_1::plan {
namespace {

// It outlives all threads.
struct Sources {
  std::mutex mutex;
  std::vector<const MeasureSource*> all;
};

Sources& sources() {
  static auto* const one = new Sources;
  return *one;
}

}  // namespace

MeasureSource::MeasureSource(std::function<Measures()> read) : read_(std::move(read)) {
  const std::lock_guard lock(sources().mutex);
  sources().all.push_back(this);
}

MeasureSource::~MeasureSource() {
  const std::lock_guard lock(sources().mutex);
  std::erase(sources().all, this);
}

Measures measures() {
  const std::lock_guard lock(sources().mutex);
  Measures all;
  for (const MeasureSource* source : sources().all) all.merge(source->read_());
  return all;
}

}  // namespace muster::inline v0_1::plan
