#include "muster/checkpoint/warm_start_settings.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/files/regular_expression.h"

namespace muster::inline v0_1 {

void VocabInfo::validate() const {
  for (const auto& [field, file] : {std::pair{"new_vocab", new_vocab}, {"old_vocab", old_vocab}}) {
    if (!file.empty()) continue;
    throw invalid_argument(fmt::format("VocabInfo.{} is empty; it must name a file", field),
                           "a text file with a word on each line, in the order of the rows");
  }
  for (const auto& [field, size] :
       {std::pair{"new_vocab_size", new_vocab_size}, {"old_vocab_size", old_vocab_size}}) {
    if (size >= 1 || size == -1) continue;
    throw invalid_argument(
        fmt::format("VocabInfo.{} is {}; it must be 1 or more, or -1 for all lines", field, size));
  }
  if (num_oov_buckets < 0) {
    throw invalid_argument(
        fmt::format("VocabInfo.num_oov_buckets is {}; it must be 0 or more", num_oov_buckets));
  }
  if (axis != 0 && axis != 1) {
    throw invalid_argument(
        fmt::format("VocabInfo.axis is {}; it must be 0 (rows) or 1 (columns)", axis));
  }
}

void WarmStartSettings::validate() const {
  if (ckpt_to_initialize_from.empty()) {
    throw invalid_argument(
        "WarmStartSettings.ckpt_to_initialize_from is empty; it must name a checkpoint or a "
        "model_dir",
        "leave RunConfig.warm_start_from unset for a run that begins with initial values");
  }
  for (const std::string& pattern : vars_to_warm_start.patterns()) {
    try {
      const RegularExpression checked(pattern);
    } catch (const Error& error) {
      throw error.with_context(
          fmt::format("WarmStartSettings.vars_to_warm_start has \"{}\"", pattern));
    }
  }
  for (const auto& [name, info] : var_name_to_vocab_info) {
    try {
      info.validate();
    } catch (const Error& error) {
      throw error.with_context(
          fmt::format("WarmStartSettings.var_name_to_vocab_info of \"{}\"", name));
    }
  }
  for (const auto& [name, previous] : var_name_to_prev_var_name) {
    if (!previous.empty()) continue;
    throw invalid_argument(
        fmt::format("WarmStartSettings.var_name_to_prev_var_name of \"{}\" is empty; it must be "
                    "the variable's name in the checkpoint",
                    name));
  }
}

}  // namespace muster::inline v0_1
