// Mistakes of a program that the compiler reports in words: compile_user.sh looks for them.
#include <muster/muster.h>

using namespace muster;

void wrong_input(Estimator& estimator) {
  estimator.train([](Mode, const InputContext&) { return Dataset::range(3); });
}

void wrong_replica_function(const distribute::Strategy& strategy,
                            const distribute::PerReplica<Batch>& batch) {
  strategy.run([](int) {}, batch);
}
