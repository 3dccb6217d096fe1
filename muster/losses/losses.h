// All losses. They have Keras's definitions: labels come first, predictions second. Inputs in
// bfloat16 and float16 are computed in float32, which is the dtype of the loss; others in the dtype
// of the predictions. Labels may have any dtype, unless a loss says otherwise.
// Every loss has the options `reduction` and `sample_weight`; compute_weighted_loss() says which
// weights fit. docs/losses.md compares them with Keras's.
#pragma once

#include "muster/losses/class_weights.h"
#include "muster/losses/cross_entropy.h"
#include "muster/losses/ctc.h"
#include "muster/losses/focal.h"
#include "muster/losses/hinge.h"
#include "muster/losses/kl_divergence.h"
#include "muster/losses/poisson.h"
#include "muster/losses/reduction.h"
#include "muster/losses/regression.h"
#include "muster/losses/sample_weight.h"
