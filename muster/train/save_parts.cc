#include "muster/train/save_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/host_identity.h"
#include "muster/base/log.h"
#include "muster/base/process_identity.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/distribute/replica_values.h"
#include "muster/files/file_systems.h"
#include "muster/files/shared_patience.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using distribute::Mailbox;
using distribute::ServedState;
using nlohmann::json;

std::atomic<int64_t> large_state = int64_t{512} << 20;  // bytes
// A tensor below this share of a large state is the chief's: it is not worth a line in the table of
// the parts.
constexpr int64_t kShareOfSmall = 8192;

int64_t rows_of(const TensorSpec& spec) { return spec.shape.empty() ? 1 : spec.shape[0]; }

int64_t bytes_of_spec(const TensorSpec& spec) {
  auto bytes = static_cast<int64_t>(c10::elementSize(spec.dtype));
  for (const int64_t size : spec.shape) bytes *= size;
  return bytes;
}

std::string host_or_none() {
  try {
    return host_identity();
  } catch (const Error&) {
    return "";
  }
}

// What a worker tells the chief of its part.
std::string told(const Error& error) {
  return json{{"kind", static_cast<int>(error.kind())},
              {"message", error.message()},
              {"hint", error.hint()}}
      .dump(-1, ' ', false, json::error_handler_t::replace);  // names of files are any bytes
}

}  // namespace

int64_t internal::divide_states_from(int64_t bytes) { return large_state.exchange(bytes); }

std::vector<std::vector<StateRows>> divide_state(const std::map<std::string, TensorSpec>& tensors,
                                                 size_t parts) {
  int64_t total = 0;
  for (const auto& [name, spec] : tensors) total += bytes_of_spec(spec);
  std::vector<std::vector<StateRows>> shares(parts);
  int64_t before = 0;  // bytes of the tensors so far
  for (const auto& [name, spec] : tensors) {
    const int64_t rows = rows_of(spec), bytes = bytes_of_spec(spec);
    // The first row that belongs to `part` or to a later one.
    const auto first = [&](size_t part) -> int64_t {
      if (part == parts) return rows;
      const double wanted =
          static_cast<double>(total) * static_cast<double>(part) / static_cast<double>(parts) -
          static_cast<double>(before);
      const double row = bytes == 0 ? 0 : wanted * static_cast<double>(rows) / bytes;
      return std::clamp<int64_t>(std::llround(row), 0, rows);
    };
    int64_t place = 0;
    for (size_t part = 0; part < parts; ++part) {
      const int64_t begin = part == 0 ? 0 : first(part), end = first(part + 1);
      if (begin == end) continue;
      const bool whole = end - begin == rows;
      shares[part].push_back({.as = {.name = whole ? name : fmt::format("{}/part_{}", name, place),
                                     .tensor = name,
                                     .place = place},
                              .begin = begin,
                              .end = end,
                              .whole = whole});
      ++place;
    }
    before += bytes;
  }
  return shares;
}

// What the threads of one save need.
struct SaveParts::Plan {
  FileSystem& fs;
  std::string model_dir{};
  int64_t step = 0;
  std::vector<std::string> files{};    // of the parts
  std::vector<std::string> writers{};  // of these
  std::shared_ptr<Mailbox> mailbox{};

  std::string path(size_t part) const { return join_path(model_dir, files[part]); }

  formats::SafetensorsParts write(size_t part, const std::map<std::string, Tensor>& copy) const {
    const SharedPatience patience;
    return write_checkpoint_part(fs, path(part), copy);
  }

  // The error that is being handled, of a part: it names the worker.
  Error failure_of(size_t part) const {
    const Error error = current_error();
    const std::string hint = error.hint().empty() ? "" : error.hint() + "; ";
    return {error.kind(),
            fmt::format("{} could not write its part of the checkpoint of step {}: {}",
                        writers[part], step, error.message()),
            hint + "the checkpoints before it are untouched"};
  }

  // The table of the part of another process.
  formats::SafetensorsParts receive(size_t part, std::string& non_finite) const {
    const json answer = json::parse([&] {
      try {
        return mailbox->take(files[part]);
      } catch (const Error& error) {
        throw Error(error.kind(),
                    fmt::format("the checkpoint of step {} is abandoned: {} has not said that its "
                                "part is written: {}",
                                step, writers[part], error.message()),
                    error.hint());
      }
    }());
    if (answer.contains("kind")) {
      throw Error(static_cast<ErrorKind>(answer.at("kind").get<int>()),
                  answer.at("message").get<std::string>(), answer.at("hint").get<std::string>());
    }
    if (answer.contains("non_finite")) {
      non_finite = answer.at("non_finite").get<std::string>();
      return {};
    }
    return formats::SafetensorsParts::parse(answer.at("table").get<std::string>(),
                                            "the table of a part")
        .value();
  }
};

bool SaveParts::divide(const std::map<std::string, Tensor>& state, const std::string& model_dir,
                       FileSystem* fs) {
  if (model_dir.empty() || replica_.shared() != nullptr || replica_.place().processes == 1)
    return false;
  specs_ = divisible(state);
  int64_t bytes = 0;
  for (const auto& [name, spec] : specs_) bytes += bytes_of_spec(spec);
  if (specs_.empty() || bytes < large_state) return false;
  if (!std::exchange(met_, true)) {
    model_dir_ = model_dir;
    fs_ = fs != nullptr ? fs : &file_systems();
    meet();
  }
  if (model_dir != model_dir_ || writers_.size() < 2) return false;
  shares_ = divide_state(specs_, writers_.size());
  return true;
}

void SaveParts::meet() {
  const distribute::ReplicaPlace& place = replica_.place();
  const std::string path = join_path(model_dir_, kSightFile);
  json mine{{"host", host_or_none()}, {"name", place.name()}};
  if (replica_.is_chief()) {
    const uint64_t draw = new_incarnation();
    mine["draw"] = draw;
    Status written = fs_->make_directories(model_dir_);
    if (written.ok()) written = fs_->write_atomically(path, fmt::format("{:016x}", draw));
    mine["sight"] = written.ok();
  }
  std::vector<json> all;
  for (const std::string& text : replica_.group().gather_text("parts", mine.dump()))
    all.push_back(json::parse(text));
  const json& chief = all.front();  // the first replica of all
  draw_ = chief.at("draw").get<uint64_t>();
  const bool is_near = place.local == 0 && mine.at("host") != "" &&
                       mine.at("host") == chief.at("host") && chief.at("sight").get<bool>();
  const bool sees = is_near && (replica_.is_chief() ||
                                sees_directory(*fs_, model_dir_, fmt::format("{:016x}", draw_)));
  const std::vector<std::string> answers = replica_.group().gather_text("sees", sees      ? "yes"
                                                                                : is_near ? "no"
                                                                                          : "");
  std::vector<std::string> blind;
  for (size_t replica = 0; replica < all.size(); ++replica) {
    const auto name = all[replica].at("name").get<std::string>();
    if (answers[replica] == "no") blind.push_back(name);
    if (answers[replica] != "yes") continue;
    if (static_cast<int>(replica) == replica_.replica_id())
      share_ = static_cast<int>(writers_.size());
    writers_.push_back(name);
  }
  if (!replica_.is_chief()) return;
  if (chief.at("sight").get<bool>()) (void)fs_->remove(path);
  if (blind.empty()) return;
  log::info(
      fmt::format("these workers of this machine write no parts of checkpoints, because they "
                  "do not see {}: {}",
                  model_dir_, join_quoted(blind)));
}

std::map<std::string, TensorSpec> SaveParts::divisible(
    const std::map<std::string, Tensor>& state) const {
  std::set<std::string> own;  // to each replica
  for (const auto& variable : replica_.variables().variables()) {
    const VariableSpec& spec = variable->spec();
    if (spec.synchronization != VariableSynchronization::kOnRead &&
        spec.aggregation != VariableAggregation::kNone &&
        spec.aggregation != VariableAggregation::kOnlyFirstReplica)
      continue;
    if (spec.trainable && spec.synchronization != VariableSynchronization::kOnRead) continue;
    own.insert(spec.name);
    own.insert(distribute::replicas_name(spec.name));
  }
  std::map<std::string, TensorSpec> specs;
  for (const auto& [name, tensor] : state) {
    if (!tensor.defined() || tensor.layout() != at::kStrided || own.contains(name)) continue;
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes == 0 || bytes < large_state / kShareOfSmall) continue;
    specs[name] = {.shape = tensor.sizes().vec(), .dtype = tensor.scalar_type()};
  }
  return specs;
}

std::map<std::string, Tensor> SaveParts::share(const std::map<std::string, Tensor>& state) const {
  std::map<std::string, Tensor> views;
  if (share_ < 0) return views;
  for (const StateRows& rows : shares_[static_cast<size_t>(share_)]) {
    const Tensor& tensor = state.at(rows.as.tensor);
    views[rows.as.name] = rows.whole ? tensor : tensor.narrow(0, rows.begin, rows.end - rows.begin);
  }
  return views;
}

std::map<std::string, Tensor> SaveParts::rest(const std::map<std::string, Tensor>& state) const {
  std::map<std::string, Tensor> views;
  for (const auto& [name, tensor] : state) {
    if (!specs_.contains(name)) views[name] = tensor;
  }
  return views;
}

std::map<std::string, Tensor> SaveParts::by_state(
    const std::map<std::string, Tensor>& share) const {
  std::map<std::string, Tensor> named;
  if (share_ < 0) return named;
  for (const StateRows& rows : shares_[static_cast<size_t>(share_)])
    named[rows.as.tensor] = share.at(rows.as.name);
  return named;
}

SaveParts::Plan SaveParts::next_plan(int64_t step) {
  const auto save = static_cast<uint32_t>(derive_key(draw_, {++saves_}).key);
  Plan plan{.fs = *fs_,
            .model_dir = model_dir_,
            .step = step,
            .writers = writers_,
            .mailbox = replica_.group().mailbox()};
  for (size_t part = 0; part < writers_.size(); ++part)
    plan.files.push_back(checkpoint_part_name(step, part, writers_.size(), save));
  return plan;
}

std::function<void(ServedState::Cut& cut)> SaveParts::begin_chief(
    int64_t step, std::map<std::string, Tensor> copy) {
  std::vector<std::vector<PartTensor>> held;
  for (const auto& rows : shares_) {
    held.emplace_back();
    for (const StateRows& each : rows) held.back().push_back(each.as);
  }
  return [plan = next_plan(step), copy = std::move(copy), held = std::move(held),
          specs = specs_](ServedState::Cut& cut) {
    std::vector<formats::SafetensorsParts> tables(plan.files.size());
    // All are heard: no thread writes when this returns, unless its worker is lost.
    for (size_t part = 0; part < tables.size(); ++part) {
      try {
        tables[part] = part == 0 ? plan.write(0, copy) : plan.receive(part, cut.non_finite);
      } catch (...) {
        if (!cut.failed) cut.failed = part == 0 ? plan.failure_of(0) : current_error();
      }
    }
    if (!cut.failed && cut.non_finite.empty()) {
      cut.parts = join_parts(std::move(tables), held, specs);
      return;
    }
    for (size_t part = 0; part < tables.size(); ++part) {
      if (!tables[part].empty()) (void)plan.fs.remove(plan.path(part));
    }
  };
}

std::function<void()> SaveParts::begin(int64_t step, std::map<std::string, Tensor> copy,
                                       const std::string& non_finite) {
  const Plan plan = next_plan(step);
  if (share_ < 0) return nullptr;
  return [plan, part = static_cast<size_t>(share_), copy = std::move(copy), non_finite]() mutable {
    // Its memory is free for the next copy when the chief knows of the part.
    std::map<std::string, Tensor> mine = std::exchange(copy, {});
    const auto tell = [&](const std::string& answer) {
      plan.mailbox->put(plan.files[part], answer);
    };
    try {
      try {
        const std::string answer = non_finite.empty()
                                       ? json{{"table", plan.write(part, mine).to_text()}}.dump()
                                       : json{{"non_finite", non_finite}}.dump();
        mine.clear();
        tell(answer);
      } catch (...) {
        // Also where the answer is too long.
        mine.clear();
        tell(told(plan.failure_of(part)));
      }
    } catch (const Error& error) {
      // The chief has abandoned the checkpoint; the part goes with its next save.
      log::debug("the chief learns nothing of a part: " + error.message());
    }
  };
}

}  // namespace muster::inline v0_1
