// The strategy for TPUs: TPUStrategy of tf.distribute, on OpenXLA.
// Thread safety: immutable values, shared by pointer.
#pragma once

#include "muster/base/export.h"
#include "muster/distribute/strategy.h"
#include "muster/tpu/tpu_resolver.h"

namespace muster::inline v0_1::distribute {

// Trains on all chips of a TPU: the chips of this process compute as one replica, "xla:0". The rows
// of each batch are divided between them, and each has all weights. XLA adds their gradients in the
// compiled step. `num_replicas_in_sync` is the number of chips of all workers, and batch(n) in an
// input function means n rows for each chip. If the rows of a batch are not a multiple of the
// chips, every chip computes all of them; the result is the same. A BatchNormalization sees the
// rows of all chips of a process.
//
// If the resolver has several workers, each process trains one replica as with
// multi_worker_mirrored(), and workers add gradients through the CPU. The runtime of a process must
// then have only the chips of that process.
//
// By name: strategy_by_name("tpu") is tpu() of a TpuResolver with its defaults, in a program that
// links muster::tpu. Needs libmuster-xla.so and Python's packages torch and torch_xla: docs/tpu.md.
// Call it before the program uses a device of XLA in another way. Throws NotFound if the library or
// a package is missing, InvalidArgument if this process has no device, and Unavailable with the
// message of the runtime if it does not start.
MUSTER_EXPORT StrategyPtr tpu(const cluster::TpuResolver& resolver);

}  // namespace muster::inline v0_1::distribute
