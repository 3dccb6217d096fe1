// What a new run takes from a checkpoint of another run: which variables, under which names, and
// with which vocabularies.
// Thread safety: values.
//
//   RunConfig config{.model_dir = "runs/mine", .warm_start_from = "runs/base"};
//   RunConfig other{.model_dir = "runs/other",
//                   .warm_start_from = WarmStartSettings{.ckpt_to_initialize_from = "runs/base",
//                                                        .vars_to_warm_start = "encoder/"}};
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/checkpoint/vocab_info.h"

namespace muster::inline v0_1 {

// Chooses variables by regular expressions (RE2 syntax) that match from the beginning of the name:
// "encoder/" and "encoder/.*" are the same. A single expression chooses only trainable variables,
// as in tf.estimator; a list, such as {".*"}, chooses from all, including moving statistics. An
// empty list chooses none.
class WarmStartVariables {
 public:
  WarmStartVariables(std::string pattern)  // NOLINT(google-explicit-constructor)
      : patterns_{std::move(pattern)} {}
  WarmStartVariables(const char* pattern)  // NOLINT(google-explicit-constructor)
      : WarmStartVariables(std::string(pattern)) {}
  WarmStartVariables(std::vector<std::string> patterns)  // NOLINT(google-explicit-constructor)
      : patterns_(std::move(patterns)), trainable_only_(false) {}
  WarmStartVariables(std::initializer_list<std::string> patterns)
      : WarmStartVariables(std::vector<std::string>(patterns)) {}

  const std::vector<std::string>& patterns() const { return patterns_; }
  bool trainable_only() const { return trainable_only_; }

 private:
  std::vector<std::string> patterns_;
  bool trainable_only_ = true;
};

struct MUSTER_EXPORT WarmStartSettings {
  // A checkpoint ("runs/base/model.ckpt-100", also with ".safetensors"), or a model_dir, which
  // means its newest checkpoint. Required.
  std::string ckpt_to_initialize_from{};
  WarmStartVariables vars_to_warm_start = ".*";
  // Vocabularies by the variable's name in this model. These variables are taken even if
  // vars_to_warm_start does not choose them.
  std::map<std::string, VocabInfo> var_name_to_vocab_info = {};
  // For variables with another name in the checkpoint: that name, by the name in this model.
  std::map<std::string, std::string> var_name_to_prev_var_name = {};

  // Throws InvalidArgument with the field, its value and the allowed range. Reads no file.
  void validate() const;
};

// Settings, or only a checkpoint or model_dir, which means all of its trainable variables.
class WarmStartFrom {
 public:
  WarmStartFrom(WarmStartSettings settings)  // NOLINT(google-explicit-constructor)
      : settings_(std::move(settings)) {}
  WarmStartFrom(std::string checkpoint)  // NOLINT(google-explicit-constructor)
      : settings_{.ckpt_to_initialize_from = std::move(checkpoint)} {}
  WarmStartFrom(const char* checkpoint)  // NOLINT(google-explicit-constructor)
      : WarmStartFrom(std::string(checkpoint)) {}

  const WarmStartSettings& settings() const { return settings_; }

 private:
  WarmStartSettings settings_;
};

}  // namespace muster::inline v0_1
