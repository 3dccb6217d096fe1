// What a run that begins takes from a checkpoint of another one: which variables, under which
// names, and by which vocabularies.
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

// Chooses variables by regular expressions (of RE2) that match from the beginning of the
// name: "encoder/" and "encoder/.*" are the same. One expression chooses of those that train, as in
// tf.estimator; a list of them, {".*"}, of all, moving statistics among them. An empty list chooses
// none.
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
  // A checkpoint ("runs/base/model.ckpt-100", also with ".safetensors" behind), or a model_dir, of
  // which it is the newest one. Required.
  std::string ckpt_to_initialize_from{};
  WarmStartVariables vars_to_warm_start = ".*";
  // By the variable's name in this model. They are taken whether vars_to_warm_start chooses them or
  // not.
  std::map<std::string, VocabInfo> var_name_to_vocab_info = {};
  // The name in the checkpoint of a variable that is called otherwise there, by its name in this
  // model.
  std::map<std::string, std::string> var_name_to_prev_var_name = {};

  // Throws InvalidArgument naming the field, its value and what is allowed. Reads no file.
  void validate() const;
};

// Settings, or a checkpoint or model_dir alone, of which all variables that train are then taken.
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
