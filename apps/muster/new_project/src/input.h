// The data: for training and for measuring. Replace it with your own.
#pragma once

#include <muster/muster.h>

constexpr int64_t kClasses = 3;

// (features, label) pairs: {"point": float32[2]} and an int64 scalar in [0, kClasses).
muster::Dataset training_data();
muster::Dataset test_data();
