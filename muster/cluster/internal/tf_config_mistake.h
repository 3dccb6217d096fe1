// A mistake in a TF_CONFIG, on its way to an error whose example works: the rules throw a
// TfConfigMistake, and the code that knows all rules of the caller makes the error of it. Thread
// safety: values and pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {

struct TfConfigMistake {
  std::string message;
  std::string advice;
  TfConfig corrected;  // without this mistake; it may hold others
};

// Throws a TfConfigMistake unless the caller takes the TF_CONFIG.
using Rules = std::function<void(const TfConfig& config)>;

// Returns an InvalidArgument with the message and the advice of `mistake`, and with a TF_CONFIG
// that `rules` accept: mistakes in the corrected one are corrected as well.
Error to_error(const TfConfigMistake& mistake, const Rules& rules);

// --- rules; they throw Mistakes ---

TfConfig parse_text(std::string_view text);
void refuse_bad_addresses(const TfConfig& config);
RunConfigCluster apply_run_config(const TfConfig& config,
                                  const std::optional<std::string>& model_dir, bool worker_leads);
// The requirements of any program: a cluster of workers alone may be meant for a strategy of
// several workers.
void accept_for_some_program(const TfConfig& config);

}  // namespace muster::inline v0_1::cluster
