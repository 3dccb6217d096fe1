// The calls of a model function in which it shows summaries: the caller reports the begin of each
// call, and takes the gathered summaries. Thread safety: as Summaries.
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
  // Forgets the gathered values.
  void clear();
  // The summaries since the last take(), merged over all replicas, which call it together; forgets
  // them. Throws InvalidArgument if replicas used a name for different kinds.
  std::vector<formats::SummaryValue> take(distribute::Exchange& exchange);

 private:
  Summaries& summaries_;
};

}  // namespace internal
}  // namespace muster::inline v0_1
