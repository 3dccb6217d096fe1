// Loops over LibTorch's own modules and optimizers on several workers. Opt-in: this header includes
// LibTorch's modules, which <muster/muster.h> does not.
#pragma once

#include "muster/parallel/autocast.h"
#include "muster/parallel/cluster.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/grad_scaler.h"
#include "muster/parallel/loop_checkpoint.h"
#include "muster/parallel/sync_batch_norm.h"
#include "muster/parallel/worker_data.h"
