#include "muster/ps/internal/part_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/checkpoint/checkpoint_reader.h"

namespace muster::inline v0_1::ps {

using nlohmann::json;

json WrittenPart::to_json() const {
  return non_finite.empty() ? json{{"part", part.to_text()}} : json{{"non_finite", non_finite}};
}

WrittenPart WrittenPart::of_json(const json& told) {
  WrittenPart written{.non_finite = told.value("non_finite", "")};
  if (written.non_finite.empty()) {
    written.part =
        formats::SafetensorsParts::parse(told.at("part").get<std::string>(), "the table of a part")
            .value();
  }
  return written;
}

PartFiles::PartFiles(std::string model_dir, FileSystem* fs)
    : model_dir_(std::move(model_dir)), fs_(fs != nullptr ? *fs : local_file_system()) {}

bool PartFiles::sees(const std::string& text) const {
  if (model_dir_.empty()) return false;
  const Result<std::string> found = fs_.read_file(join_path(model_dir_, kSightFile));
  return found.ok() && found.value() == text;
}

WrittenPart PartFiles::write(const std::string& name, const ShardStore& store,
                             const std::map<std::string, Tensor>& copy) const {
  if (checkpoint_part_step(name) < 0)
    throw invalid_argument(fmt::format("'{}' is no name of a part of a checkpoint", name));
  WrittenPart written;
  if (const auto bad = store.find_non_finite(copy)) {
    written.non_finite = *bad;
  } else {
    written.part = write_checkpoint_part(fs_, join_path(model_dir_, name), copy);
  }
  return written;
}

void PartFiles::restore(const json& request, ShardStore& store) const {
  const auto name = request.at("checkpoint").get<std::string>();
  if (checkpoint_step(name) < 0 || base_name(name) != name)
    throw invalid_argument(fmt::format("'{}' is no name of a checkpoint", name));
  const auto reader = open_checkpoint(fs_, join_path(model_dir_, name));
  for (const json& told : request.at("tensors")) {
    const auto from = told.at("from").get<std::string>();
    store.write({{told.at("name").get<std::string>(),
                  told.contains("begin") ? reader->read_rows(from, told.at("begin").get<int64_t>(),
                                                             told.at("end").get<int64_t>())
                                         : reader->read(from)}});
  }
}

}  // namespace muster::inline v0_1::ps
