#include "muster/cluster/internal/tf_config_mistake.h"

#include "muster/cluster/internal/tf_config_corrections.h"

namespace muster::inline v0_1::cluster {

Error to_error(const TfConfigMistake& mistake, const Rules& rules) {
  constexpr int kMostMistakes = 64;
  TfConfig shown = mistake.corrected;
  for (int i = 0; i < kMostMistakes; ++i) {
    try {
      rules(shown);
      return invalid_argument(mistake.message, hint_with(shown, mistake.advice));
    } catch (const TfConfigMistake& next) {
      shown = next.corrected;
    } catch (const Error&) {
      // The program is wrong as well; its error is reported once TF_CONFIG is right.
      return invalid_argument(mistake.message, hint_with(shown, mistake.advice));
    }
  }
  return invalid_argument(mistake.message, hint_with(example_config(), mistake.advice));
}

void accept_for_some_program(const TfConfig& config) {
  const bool worker_leads = !config.cluster.has_job("chief") && !config.cluster.has_job("master") &&
                            config.cluster.num_tasks("worker") > 0;
  refuse_bad_addresses(config);
  apply_run_config(config, {}, worker_leads);
}

}  // namespace muster::inline v0_1::cluster
