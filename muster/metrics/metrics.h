// Makes a mergeable Metric from the labels and predictions of a batch, with Keras's names and
// definitions: labels come first, predictions second, weights third. It is computed when it is
// first read or merged, so a metric that is never read costs nothing. Do not change the tensors
// before that. Wrong numbers, such as labels outside of the classes, are also found then; wrong
// shapes at once. docs/metrics.md has a table of all metrics.
// Thread safety: pure functions.
//
// Values of examples are computed in float32 or float64, whatever the dtypes of the arguments, and
// added in float64. Weights are real numbers: a scalar, or of the shape of the leading axes of the
// values, [batch]; [batch, 1] counts as [batch], and an axis of size 1 fits any size. Elements
// without a weight count as 1. Without data, or with all weights 0, the result is 0.
#pragma once

#include "muster/metrics/accuracy.h"
#include "muster/metrics/auc.h"
#include "muster/metrics/confusion_matrix.h"
#include "muster/metrics/crossentropy.h"
#include "muster/metrics/f_score.h"
#include "muster/metrics/hinge.h"
#include "muster/metrics/mean.h"
#include "muster/metrics/mean_iou.h"
#include "muster/metrics/metric.h"
#include "muster/metrics/operating_point.h"
#include "muster/metrics/precision.h"
#include "muster/metrics/r2_score.h"
#include "muster/metrics/regression.h"
