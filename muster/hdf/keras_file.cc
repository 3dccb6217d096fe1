#include "muster/hdf/keras_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/formats/zip.h"

namespace muster::inline v0_1::hdf {
namespace {

constexpr const char* kWeights = "model.weights.h5";

bool is_zip(FileReader& file) {
  std::string head(4, '\0');
  const auto count = file.read_at(0, std::as_writable_bytes(std::span(head)));
  return count.value() == head.size() && head == std::string("PK\x03\x04", 4);
}

// The content of an entry; "" where there is none.
std::string entry_of(const formats::ZipReader& archive, const std::string& name) {
  for (const formats::ZipEntry& entry : archive.entries()) {
    if (entry.name == name) return archive.read(entry).value();
  }
  return "";
}

// A reader with the bytes it reads.
std::shared_ptr<FileReader> held(std::string content, std::string name) {
  const auto bytes = std::make_shared<std::string>(std::move(content));
  std::unique_ptr<FileReader> reader = memory_reader(bytes_of(*bytes), std::move(name));
  return {reader.release(), [bytes](FileReader* each) { delete each; }};
}

}  // namespace

KerasFile::KerasFile(FileSystem& files, const std::string& path) {
  std::unique_ptr<FileReader> reader = files.open_reader(path).value();
  std::string config;
  if (is_zip(*reader)) {
    const formats::ZipReader archive = formats::ZipReader::open(std::move(reader)).value();
    std::string weights = entry_of(archive, kWeights);
    if (weights.empty()) {
      throw invalid_argument(
          fmt::format("not supported: '{}' is an archive without '{}'", path, kWeights),
          "let Keras write the weights alone: model.save_weights("
          "\"NAME.weights.h5\")");
    }
    config = entry_of(archive, "config.json");
    file_ = std::make_unique<HdfFile>(held(std::move(weights), path));
  } else {
    file_ = std::make_unique<HdfFile>(std::move(reader));
  }
  names_ = name_weights(file_->listing(), config, path);
}

}  // namespace muster::inline v0_1::hdf
