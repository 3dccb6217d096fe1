// The data of TensorBoard's HParams page: the settings of a run with its results. Thread safety:
// pure functions.
//
// A run is a session: its first event file holds session_start() with its hyperparameters, and
// session_end() when it is over. The page takes the metrics from the scalars of the run and of
// folders below it (eval). hparams_experiment(), in the folder above the runs, says which
// hyperparameters and metrics are shown, and in which order; without it the page shows all of them.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::formats {

// A hyperparameter is a truth value, a number or a text.
using HParam = std::variant<bool, double, std::string>;

// A hyperparameter as a column of the page.
struct HParamColumn {
  std::string name{};
  std::string display_name{};    // empty: `name`
  std::vector<HParam> domain{};  // the values it may have, of one type; empty: any
};

// A metric as a column of the page: the scalar `tag` of the runs' subfolder `group` ("eval"; empty:
// of the runs themselves).
struct HParamsMetric {
  std::string tag{};
  std::string group{};
  std::string display_name{};  // empty: `tag`
};

// How a session ended, by TensorBoard's numbers.
enum class SessionResult { kSuccess = 1, kFailure = 2, kRunning = 3 };

// Returns the summary that describes all runs together. `created`: Unix time, seconds.
SummaryValue hparams_experiment(const std::vector<HParamColumn>& hparams,
                                const std::vector<HParamsMetric>& metrics, double created);
// Returns the summary that begins a session. `group` joins runs of the same settings; empty: each
// run is separate. `started`: Unix time, seconds.
SummaryValue hparams_session_start(const std::map<std::string, HParam>& hparams,
                                   const std::string& group, double started);
// Returns the summary that ends it.
SummaryValue hparams_session_end(SessionResult result, double ended);

}  // namespace muster::inline v0_1::formats
