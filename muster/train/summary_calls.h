// The calls of a model function around what it shows: the caller says when one begins, and takes
// the gathered summaries. Thread safety: as Summaries.
#pragma once

#include <vector>

#include "muster/formats/summary_value.h"
#include "muster/train/summaries.h"

namespace muster::inline v0_1 {

namespace distribute {
class Exchange;
}

namespace internal {

class SummaryCalls {
 public:
  // One call of the model function.
  using Call = Summaries::Call;

  // `summaries` outlives it.
  explicit SummaryCalls(Summaries& summaries) : summaries_(summaries) {}

  // Before a call of the model function.
  void begin(const Call& call);
  // Forgets what was gathered.
  void clear();
  // What was gathered since the last take(), merged over all replicas, which call it together;
  // forgets it. Throws InvalidArgument when replicas used a name for different kinds.
  std::vector<formats::SummaryValue> take(distribute::Exchange& exchange);

 private:
  Summaries& summaries_;
};

}  // namespace internal
}  // namespace muster::inline v0_1
