// Tells from the name of a metric which of its values are better. Thread safety: pure functions.
#pragma once

#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Whether higher or lower values are better; kUnknown when the name does not tell.
enum class Better { kUnknown, kHigher, kLower };

// Returns which values of a metric with this name are better. The function looks for known words
// anywhere in the name: "val_auc_pr", "my_accuracy", "f1" and "mean_iou" are better when higher;
// "loss", "rmse" and "kl_divergence" are better when lower. It returns kUnknown for a name without
// such a word ("label/mean", "brier_score"), and for a name with words of both kinds.
MUSTER_EXPORT Better better_by_name(std::string_view name);

// Logs a warning, once, when a program asks for the other direction than the metric's name
// suggests. `whose` begins the line: "stop_if_no_decrease". Logs nothing when the name suggests
// nothing.
MUSTER_EXPORT void warn_of_direction(std::string_view whose, std::string_view name, Better asked);

}  // namespace muster::inline v0_1
