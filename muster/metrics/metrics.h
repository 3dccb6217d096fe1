// Makes a mergeable Metric of the labels and predictions of a batch, with Keras's names and
// definitions: labels come first, predictions second, weights third. What it measures is computed
// when it is first read or merged, so a metric that nobody reads costs nothing. Do not write the
// tensors before. Numbers that are wrong, labels outside of the classes among them, are found then
// too, and shapes at once. docs/metrics.md has the table of all of them.
// Thread safety: pure functions.
//
// Values of examples are computed in float32 or float64, whatever the dtypes of the arguments, and
// added in float64. Weights are real numbers: a scalar, or of the shape of the leading axes of the
// values, [batch]; [batch, 1] counts as [batch], and a size of 1 stands for any. What has no weight
// counts as 1. Nothing seen, or weights of 0 alone, give 0.
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
