#include "muster/checkpoint/warm_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/internal/vocabulary_remap.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/regular_expression.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

// The names that a message lists; of models with hundreds of variables the rest is counted.
constexpr size_t kNamesShown = 8;
constexpr int64_t kReadAtOnce = int64_t{32} << 20;  // bytes of a table that is elsewhere

// A prefix or file as it is; of a model_dir the newest.
std::string prefix_of(FileSystem& fs, const std::string& from) {
  if (fs.exists(checkpoint_file(from)).value()) return from;
  const Result<FileInfo> info = fs.info(from);
  if (!info.ok() && info.error().kind() == ErrorKind::kNotFound) return from;
  if (!info.value().is_directory) return from;
  const auto newest = CheckpointManager(from, {.fs = &fs}).latest();
  if (newest) return *newest;
  throw not_found(fmt::format("there is no checkpoint in the directory '{}'", from),
                  "name a model_dir that was trained in, or a checkpoint of it");
}

std::unique_ptr<CheckpointReader> open_source(FileSystem& fs, const std::string& prefix) {
  try {
    return open_checkpoint(fs, prefix);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw not_found("warm_start_from: " + error.message(),
                    "name a model_dir that was trained in, or a checkpoint of it");
  }
}

class WarmStart {
 public:
  WarmStart(FileSystem& fs, const WarmStartSettings& settings, VariableStore& variables,
            uint64_t seed, const WriteRows& write_rows)
      : fs_(fs),
        settings_(settings),
        variables_(variables),
        seed_(seed),
        write_rows_(write_rows),
        prefix_(prefix_of(fs, settings.ckpt_to_initialize_from)),
        reader_(open_source(fs, prefix_)) {
    for (const std::string& name : reader_->names()) held_.insert(name);
    for (const auto& variable : variables_.variables()) known_.push_back(variable->name());
  }

  WarmStartReport operator()() {
    const std::set<std::string> chosen = choose();
    WarmStartReport report{.checkpoint = prefix_};
    torch::NoGradGuard no_grad;
    for (const auto& variable : variables_.variables()) {
      if (chosen.contains(variable->name())) {
        if (auto taken = take(*variable)) report.taken.push_back(*std::move(taken));
      } else {
        report.initialised.push_back(variable->name());
      }
    }
    if (!misfits_.empty()) throw_misfits(chosen.size());
    tell(report);
    return report;
  }

 private:
  // The names of the variables to take, each of which exists.
  std::set<std::string> choose() const {
    std::set<std::string> chosen;
    for (const auto& [name, info] : settings_.var_name_to_vocab_info) {
      check_known("var_name_to_vocab_info", name);
      chosen.insert(name);
    }
    for (const std::string& pattern : settings_.vars_to_warm_start.patterns()) {
      if (add_matches(pattern, &chosen)) continue;
      throw invalid_argument(
          fmt::format("vars_to_warm_start: \"{}\" matches none of the model's variables: {}",
                      pattern, join_quoted(known_, kNamesShown)),
          settings_.vars_to_warm_start.trainable_only()
              ? "an expression must match from the beginning of a name; a single expression "
                "chooses only trainable variables, a list {\"...\"} chooses from all"
              : "an expression matches from the beginning of a name");
    }
    for (const auto& [name, previous] : settings_.var_name_to_prev_var_name) {
      check_known("var_name_to_prev_var_name", name);
      if (chosen.contains(name)) continue;
      throw invalid_argument(
          fmt::format("var_name_to_prev_var_name renames \"{}\", which vars_to_warm_start does not "
                      "choose",
                      name),
          "choose it, or take the name out");
    }
    return chosen;
  }

  bool add_matches(const std::string& pattern, std::set<std::string>* chosen) const {
    const RegularExpression expression("^(?:" + pattern + ")");
    bool any = false;
    for (const auto& variable : variables_.variables()) {
      if (settings_.vars_to_warm_start.trainable_only() && !variable->spec().trainable) continue;
      if (!expression.search(variable->name())) continue;
      chosen->insert(variable->name());
      any = true;
    }
    return any;
  }

  void check_known(const char* field, const std::string& name) const {
    if (variables_.find(name) != nullptr) return;
    const auto meant = nearest(name, known_);
    throw invalid_argument(
        fmt::format("{} names \"{}\", which is not a variable of the model", field, name),
        (meant ? fmt::format("did you mean \"{}\"? ", *meant) : "") + "it has " +
            join_quoted(known_, kNamesShown));
  }

  std::string previous_name(const std::string& name) const {
    const auto renamed = settings_.var_name_to_prev_var_name.find(name);
    return renamed == settings_.var_name_to_prev_var_name.end() ? name : renamed->second;
  }

  // Gives the variable its value; nothing when it does not fit, which is noted.
  std::optional<WarmStartReport::Taken> take(Variable& variable) {
    const VariableSpec& spec = variable.spec();
    WarmStartReport::Taken taken{.name = spec.name, .previous_name = previous_name(spec.name)};
    if (!held_.contains(taken.previous_name)) {
      misfits_.push_back(fmt::format("{}: the checkpoint holds no \"{}\"; {}", spec.describe(),
                                     taken.previous_name, what_fits(spec)));
      return std::nullopt;
    }
    const auto info = settings_.var_name_to_vocab_info.find(spec.name);
    if (info == settings_.var_name_to_vocab_info.end() && variable.is_elsewhere())
      return take_rows(variable, taken);
    const Tensor value = reader_->read(taken.previous_name);
    if (info != settings_.var_name_to_vocab_info.end()) {
      const internal::Remapped remapped = remap(info->second, spec, value);
      if (variable.is_elsewhere()) {
        write_rows_(variable, 0, remapped.value);
      } else {
        variable.value().copy_(remapped.value);
      }
      taken.words_found = remapped.words_found;
      taken.words = remapped.words;
      return taken;
    }
    if (!fits(spec, taken, {value.sizes().vec(), value.scalar_type()})) return std::nullopt;
    variable.value().copy_(value);
    return taken;
  }

  // The same for a table that is elsewhere, for which there need not be room here.
  std::optional<WarmStartReport::Taken> take_rows(const Variable& table,
                                                  const WarmStartReport::Taken& taken) {
    const VariableSpec& spec = table.spec();
    if (!fits(spec, taken, reader_->specs().at(taken.previous_name))) return std::nullopt;
    const int64_t row_bytes =
        std::max<int64_t>(1, static_cast<int64_t>(c10::elementSize(spec.dtype)) *
                                 c10::multiply_integers(spec.shape.begin() + 1, spec.shape.end()));
    const int64_t at_once = std::max<int64_t>(1, kReadAtOnce / row_bytes);
    for (int64_t begin = 0; begin < spec.shape[0]; begin += at_once) {
      const int64_t end = std::min(spec.shape[0], begin + at_once);
      write_rows_(table, begin, reader_->read_rows(taken.previous_name, begin, end));
    }
    return taken;
  }

  // Whether what the checkpoint holds has the variable's form; that it does not is noted.
  bool fits(const VariableSpec& spec, const WarmStartReport::Taken& taken, const TensorSpec& held) {
    if (held == TensorSpec{spec.shape, spec.dtype}) return true;
    misfits_.push_back(fmt::format("{}: the checkpoint holds \"{}\" as {}; {}", spec.describe(),
                                   taken.previous_name, held.describe(), what_fits(spec)));
    return false;
  }

  internal::Remapped remap(const VocabInfo& info, const VariableSpec& spec, const Tensor& value) {
    try {
      return internal::remap_vocabulary(fs_, info, spec, value,
                                        derive_key(seed_, {id_of(spec.name)}));
    } catch (const Error& error) {
      throw error.with_context(
          fmt::format("var_name_to_vocab_info of \"{}\" cannot be used with the checkpoint '{}'",
                      spec.name, prefix_));
    }
  }

  // What an optimizer keeps of a variable is called "<optimizer>/<slot>/<variable>".
  bool is_slot(const std::string& name) const {
    for (size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      if (held_.contains(name.substr(slash + 1))) return true;
    }
    return false;
  }

  // Says which variables of the checkpoint have the shape and dtype, the most alike first.
  std::string what_fits(const VariableSpec& spec) {
    if (shapes_.empty()) {
      for (const std::string& name : held_) {
        if (name == kGlobalStep || is_slot(name)) continue;
        const Tensor value = reader_->read(name);
        shapes_[name] = {value.sizes().vec(), value.scalar_type()};
      }
    }
    std::vector<std::string> fitting;
    for (const auto& [name, held] : shapes_) {
      if (held == TensorSpec{spec.shape, spec.dtype}) fitting.push_back(name);
    }
    if (fitting.empty()) return "it holds nothing of that shape";
    if (const auto alike = nearest(spec.name, fitting)) {
      std::erase(fitting, *alike);
      fitting.insert(fitting.begin(), *alike);
    }
    return "of that shape it holds " + join_quoted(fitting, kNamesShown);
  }

  [[noreturn]] void throw_misfits(size_t chosen) const {
    throw invalid_argument(
        fmt::format("warm start from '{}': {} of {} variables do not fit\n{}", prefix_,
                    misfits_.size(), chosen, join(misfits_, "\n")),
        "give the names the checkpoint has in var_name_to_prev_var_name, leave variables that are "
        "new out of vars_to_warm_start, and rows of words to var_name_to_vocab_info");
  }

  void tell(const WarmStartReport& report) const {
    json taken = json::array();
    for (const auto& entry : report.taken) {
      taken.push_back({{"name", entry.name}, {"from", entry.previous_name}});
      if (entry.words > 0) {
        taken.back()["words"] = entry.words;
        taken.back()["words_found"] = entry.words_found;
      }
    }
    log::event("warm_started",
               {{"checkpoint", prefix_}, {"taken", taken}, {"initialised", report.initialised}},
               fmt::format("warm start from {}: {} variables loaded, {} keep their initial values",
                           prefix_, report.taken.size(), report.initialised.size()));
    for (const auto& entry : report.taken) {
      std::string more;
      if (entry.previous_name != entry.name) more += " from " + entry.previous_name;
      if (entry.words > 0)
        more += fmt::format(", {} of {} words found", entry.words_found, entry.words);
      log::info(fmt::format("  taken: {}{}", entry.name, more));
    }
    for (const std::string& name : report.initialised)
      log::info(fmt::format("  initialised: {}{}", name, why_not(name)));
  }

  // Statistics that were not chosen, although the checkpoint has them, are easily forgotten.
  std::string why_not(const std::string& name) const {
    const bool left = settings_.vars_to_warm_start.trainable_only() && held_.contains(name) &&
                      !variables_.find(name)->spec().trainable;
    return left ? " (it does not train; vars_to_warm_start = {\".*\"} takes it too)" : "";
  }

  FileSystem& fs_;
  const WarmStartSettings& settings_;
  VariableStore& variables_;
  const uint64_t seed_;
  const WriteRows& write_rows_;
  const std::string prefix_;
  const std::unique_ptr<CheckpointReader> reader_;
  std::set<std::string> held_;                // what the checkpoint holds
  std::vector<std::string> known_;            // the model's variables
  std::map<std::string, TensorSpec> shapes_;  // of the checkpoint's variables, once one is asked
  std::vector<std::string> misfits_;          // a line each
};

}  // namespace

WarmStartReport warm_start(FileSystem& fs, const WarmStartSettings& settings,
                           VariableStore& variables, uint64_t seed, const WriteRows& write_rows) {
  settings.validate();
  return WarmStart(fs, settings, variables, seed, write_rows)();
}

}  // namespace muster::inline v0_1
