// Reports metrics to the service that tries hyper-parameters, if this process is one of its trials:
// the file that Google's hypertune package writes, which AI Platform and Vertex AI read, and
// `muster submit` where no event file has the metric. Thread safety: one call at a time for a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::summary {

// The place of the report without CLOUD_ML_HP_METRIC_FILE, as in the package.
constexpr const char* kTuningReportFile = "/tmp/hypertune/output.metrics";

// Adds the measurements of a step to the report; does nothing if CLOUD_ML_TRIAL_ID is not set or is
// empty. `folder` holds the summaries of the same values: values of "eval" and "validation" have
// their own names ("accuracy"), values of other folders have the folder's name in front
// ("eval_test/accuracy"). If CLOUD_ML_HP_METRIC_TAG names one of them, by its name or by folder and
// name, only that is reported, under the tag. Values that are not finite are left out. The last
// hundred lines are kept. A report that cannot be written causes a warning, because training can
// continue without it.
MUSTER_PART_EXPORT void report_to_tuner(const Environment& environment, Clock& clock,
                                        const std::string& folder,
                                        const std::vector<std::pair<std::string, double>>& values,
                                        int64_t step);

}  // namespace muster::inline v0_1::summary
