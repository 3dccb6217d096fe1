#include "muster/formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "muster/base/crc32c.h"
#include "muster/base/direct_output.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/formats/internal/shape_text.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::shape_text;

constexpr std::string_view kMetadataKey = "__metadata__";
// A program that replaces a file with parts deletes the old parts; a reader then looks again.
constexpr int kMaxLooks = 3;

// Reads a JSON integer that is not negative and fits int64; returns nothing for anything else.
std::optional<int64_t> whole_number(const nlohmann::json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

// Reads the entry `name`, whose offset still counts from the start of the data, or returns a text
// that says what is wrong with it.
std::variant<TensorEntry, std::string> parse_entry(const std::string& name,
                                                   const nlohmann::json& value) {
  if (!value.is_object()) return "is not an object";
  TensorEntry entry{.name = name};
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string()) return "has no text \"dtype\"";
  if (shape == value.end() || !shape->is_array()) return "has no list \"shape\"";
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2) {
    return "has no pair \"data_offsets\"";
  }
  entry.dtype = dtype->get<std::string>();
  if (!safetensors_bits(entry.dtype)) return "has the unknown dtype \"" + entry.dtype + "\"";
  for (const nlohmann::json& size : *shape) {
    const std::optional<int64_t> number = whole_number(size);
    if (!number) return "has the impossible shape " + shape->dump();
    entry.shape.push_back(*number);
  }
  const std::optional<int64_t> begin = whole_number((*offsets)[0]);
  const std::optional<int64_t> end = whole_number((*offsets)[1]);
  if (!begin || !end || *end < *begin) return "has the impossible data_offsets " + offsets->dump();
  const std::optional<uint64_t> expected = safetensors_bytes(entry.dtype, entry.shape);
  entry.offset = static_cast<uint64_t>(*begin);
  entry.bytes = static_cast<uint64_t>(*end - *begin);
  if (expected != entry.bytes) {
    return "has " + std::to_string(entry.bytes) + " bytes, which is not what " + entry.dtype +
           shape_text(entry.shape) + " takes";
  }
  return entry;
}

// Reads a header member by member, so that never more than one of them is a tree: as one tree, a
// header of brackets would take 57 times its bytes.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::vector<TensorEntry>& tensors, SafetensorsMetadata& metadata,
               std::map<std::string, size_t, std::less<>>& index)
      : tensors_(tensors), metadata_(metadata), index_(index) {}

  // What is wrong, as words that follow the name of the file; "" when nothing is.
  const std::string& fault() const { return fault_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& text) override {
    if (!in_metadata_) return add(std::move(text));
    metadata_[key_] = std::move(text);
    return true;
  }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return add(nullptr); }
  bool start_object(size_t /*size*/) override {
    if (!begun_) return begun_ = true;
    if (in_metadata_) return fail_of_metadata();
    if (open_.empty() && name_ == kMetadataKey) return in_metadata_ = true;
    return open(nlohmann::json::object());
  }
  bool key(std::string& name) override {
    if (in_metadata_) {
      key_ = std::move(name);
      return !metadata_.contains(key_) || fail("has the metadata '" + key_ + "' twice");
    }
    if (!open_.empty()) {
      keys_.back() = std::move(name);
      return !open_.back().contains(keys_.back()) ||
             fail("has a wrong header: the tensor '" + name_ + "' has '" + keys_.back() +
                  "' twice");
    }
    name_ = std::move(name);
    if (name_ != kMetadataKey)
      return index_.emplace(name_, tensors_.size()).second || fail("has '" + name_ + "' twice");
    if (std::exchange(had_metadata_, true)) return fail("has metadata twice");
    return true;
  }
  bool end_object() override {
    if (in_metadata_) {
      in_metadata_ = false;
      return true;
    }
    // The last one is the header itself.
    return open_.empty() || close();
  }
  bool start_array(size_t /*size*/) override { return open(nlohmann::json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return fail("is not a safetensors file: its header is not JSON at byte " +
                std::to_string(position));
  }

 private:
  bool fail(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }
  bool open(nlohmann::json value) {
    if (in_metadata_) return fail_of_metadata();
    if (!begun_) return fail("is not a safetensors file: its header is not JSON object");
    if (open_.size() == kMostDepth) return fail_of_size();
    open_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    nlohmann::json value = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return add(std::move(value));
  }
  // Takes a value that is complete: into the one around it, or as what the header says of a tensor.
  bool add(nlohmann::json value) {
    if (in_metadata_) return fail_of_metadata();
    if (!begun_) return fail("is not a safetensors file: its header is not JSON object");
    if (++values_ > kMostValues) return fail_of_size();
    if (!open_.empty()) {
      nlohmann::json& around = open_.back();
      if (around.is_array()) {
        around.push_back(std::move(value));
      } else {
        around[keys_.back()] = std::move(value);
      }
      return true;
    }
    values_ = 0;
    if (name_ == kMetadataKey) return fail("has metadata that are not an object");
    std::variant<TensorEntry, std::string> entry = parse_entry(name_, value);
    if (const auto* fault = std::get_if<std::string>(&entry))
      return fail("has a wrong header: the tensor '" + name_ + "' " + *fault);
    tensors_.push_back(std::get<TensorEntry>(std::move(entry)));
    return true;
  }
  bool fail_of_metadata() { return fail("has metadata '" + key_ + "' that are not text"); }
  bool fail_of_size() {
    return fail("has a wrong header: the tensor '" + name_ +
                "' has more values than a dtype, a shape and two offsets");
  }

  // A shape of 255 axes, which is more than any program has, and some that are of nobody.
  static constexpr int kMostValues = 300;
  static constexpr size_t kMostDepth = 16;

  std::vector<TensorEntry>& tensors_;
  SafetensorsMetadata& metadata_;
  std::map<std::string, size_t, std::less<>>& index_;
  std::string fault_;
  bool begun_ = false, in_metadata_ = false, had_metadata_ = false;
  std::string name_, key_;            // of the member, and within the metadata
  std::vector<nlohmann::json> open_;  // what is not complete yet, the outermost first
  std::vector<std::string> keys_;     // the last key of each
  int values_ = 0;                    // of the member
};

// What people give for safetensors that other programs wrote, by the first bytes of the file.
std::optional<Error> error_of_other_format(std::string_view first_bytes, const std::string& who) {
  if (first_bytes.starts_with("\x89HDF")) {
    return invalid_argument(
        "not supported: " + who + "is an HDF5 file, as Keras writes .h5 and .weights.h5",
        "let its name end in .h5, and link the part of Muster that reads these: muster::kerasfiles "
        "in CMake, -lmuster-kerasfiles");
  }
  if (first_bytes.starts_with("PK\x03\x04")) {
    return invalid_argument(
        "not supported: " + who + "is a zip archive, as Keras writes .keras and PyTorch .pt",
        "of Keras: let its name end in .keras, and link muster::kerasfiles; of PyTorch: "
        "safetensors.torch.save_file(model.state_dict(), PATH)");
  }
  return std::nullopt;
}

constexpr size_t kLengthBytes = 8;  // before the header

// Blanks at the end of the header, a multiple of 8, so that the largest tensor begins a block of
// the disk. A tensor that begins a block in memory, too, can be written from there. Where an odd
// number of values of 4 bytes is before it, it begins 4 bytes later: the data begin at a multiple
// of 8. `data`: where they would begin without these blanks.
size_t blanks_before_data(const std::vector<const TensorView*>& order, size_t data) {
  size_t largest = 0, place = 0, offset = 0;
  for (const TensorView* tensor : order) {
    if (tensor->data.size() > largest) {
      largest = tensor->data.size();
      place = offset;
    }
    offset += tensor->data.size();
  }
  if (largest < DirectOutput::kLarge) return 0;
  const size_t begin = (data + place - place % 8) % DirectOutput::kBlock;
  return (DirectOutput::kBlock - begin) % DirectOutput::kBlock;
}

}  // namespace

std::optional<int> safetensors_bits(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int> kBits[] = {
      {"BOOL", 8},    {"U8", 8},   {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"I16", 16},
      {"U16", 16},    {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},
      {"F32", 32},    {"I64", 64}, {"U64", 64},    {"F64", 64},    {"C64", 64}};
  for (const auto& [name, bits] : kBits) {
    if (name == dtype) return bits;
  }
  return std::nullopt;
}

std::optional<uint64_t> safetensors_bytes(std::string_view dtype,
                                          const std::vector<int64_t>& shape) {
  const std::optional<int> bits = safetensors_bits(dtype);
  if (!bits) return std::nullopt;
  uint64_t total = static_cast<uint64_t>(*bits);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(total, static_cast<uint64_t>(size), &total))
      return std::nullopt;
  }
  if (total % 8 != 0) return std::nullopt;
  return total / 8;
}

Status write_safetensors(ByteSink& sink, std::span<const TensorView> tensors,
                         const SafetensorsMetadata& metadata) {
  std::set<std::string_view> names;
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    const std::string who = "cannot write the tensor '" + tensor.name + "': ";
    if (tensor.name == kMetadataKey)
      return invalid_argument(who + "the format keeps this name for itself");
    if (!names.insert(tensor.name).second) return invalid_argument(who + "the name is given twice");
    if (!safetensors_bits(tensor.dtype))
      return invalid_argument(who + "unknown dtype '" + tensor.dtype + "'");
    if (safetensors_bytes(tensor.dtype, tensor.shape) != tensor.data.size()) {
      return invalid_argument(who + std::to_string(tensor.data.size()) + " bytes are not what " +
                              tensor.dtype + shape_text(tensor.shape) + " takes");
    }
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return *safetensors_bits(a->dtype) > *safetensors_bits(b->dtype);
  });

  std::string header;
  try {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (!metadata.empty()) json[std::string(kMetadataKey)] = metadata;
    // A vector behind ordered_json makes look-ups linear: members are appended, their names known
    // to differ.
    auto& members = json.get_ref<nlohmann::ordered_json::object_t&>();
    uint64_t offset = 0;
    for (const TensorView* tensor : order) {
      nlohmann::ordered_json entry = nlohmann::ordered_json::object();
      entry["dtype"] = tensor->dtype;
      entry["shape"] = tensor->shape;
      entry["data_offsets"] = {offset, offset + tensor->data.size()};
      offset += tensor->data.size();
      members.push_back({tensor->name, std::move(entry)});
    }
    header = json.dump();
  } catch (const nlohmann::json::exception& error) {
    return invalid_argument(std::string("cannot write a safetensors header: ") + error.what(),
                            "names and metadata must be UTF-8");
  }
  header.append((8 - header.size() % 8) % 8, ' ');
  header.append(blanks_before_data(order, kLengthBytes + header.size()), ' ');
  if (header.size() > kSafetensorsHeaderLimit) {
    return invalid_argument("a safetensors header of " + human_bytes(header.size()) +
                                " is over the limit of " + human_bytes(kSafetensorsHeaderLimit),
                            "write the tensors to several files");
  }
  std::string front;
  append_little_endian<uint64_t>(front, header.size());
  front += header;
  if (Status written = sink.append(bytes_of(front)); !written.ok()) return written;
  // Tensors that follow each other in memory as in the file are written together.
  std::erase_if(order, [](const TensorView* tensor) { return tensor->data.empty(); });
  for (size_t i = 0; i < order.size();) {
    Bytes together = order[i++]->data;
    for (; i < order.size() && order[i]->data.data() == together.data() + together.size(); ++i)
      together = {together.data(), together.size() + order[i]->data.size()};
    if (Status written = sink.append(together); !written.ok()) return written;
  }
  return {};
}

Result<SafetensorsReader> SafetensorsReader::open(FileSystem& files, const std::string& path) {
  SafetensorsParts before;
  for (int look = 1;; ++look) {
    Result<std::unique_ptr<FileReader>> file = files.open_reader(path);
    if (!file.ok()) return file.error();
    Result<SafetensorsReader> reader = open_alone(std::move(file.value()));
    if (!reader.ok()) return reader;
    const Status opened = reader.value().open_parts(files, directory_of(path));
    if (opened.ok()) return reader;
    if (opened.error().kind() != ErrorKind::kNotFound) return opened.error();
    // It may have been replaced or deleted since.
    if (look >= kMaxLooks || before == reader.value().parts()) {
      return corrupt("'" + path + "' lacks a part: " + opened.error().message(),
                     "copy the parts together with the file that names them");
    }
    before = reader.value().parts();
  }
}

Result<SafetensorsReader> SafetensorsReader::open(std::shared_ptr<FileReader> file) {
  const std::string name = file->name();
  Result<SafetensorsReader> reader = open_alone(std::move(file));
  if (!reader.ok() || reader.value().parts().empty()) return reader;
  return invalid_argument("'" + name + "' has parts in other files of its folder",
                          "open it by its path, so that they are found");
}

Result<SafetensorsReader> SafetensorsReader::open_alone(std::shared_ptr<FileReader> file) {
  const std::string who = "'" + file->name() + "' ";
  Result<uint64_t> size = file->size();
  if (!size.ok()) return size.error();
  std::string word(8, '\0');
  if (size.value() < word.size()) {
    return corrupt(who + "has " + std::to_string(size.value()) +
                   " bytes: too few for a safetensors file");
  }
  if (Status read = file->read_exactly_at(0, std::as_writable_bytes(std::span(word))); !read.ok())
    return read.error();
  const auto length = load_little_endian<uint64_t>(word.data());
  if (length > kSafetensorsHeaderLimit || length > size.value() - 8) {
    if (std::optional<Error> other = error_of_other_format(word, who)) return *other;
    return corrupt(who + "is not a safetensors file or is cut short: it announces a header of " +
                       std::to_string(length) + " bytes in a file of " +
                       std::to_string(size.value()),
                   "checkpoints are the files model.ckpt-STEP.safetensors of a model_dir");
  }
  std::string header(length, '\0');
  if (Status read = file->read_exactly_at(8, std::as_writable_bytes(std::span(header)));
      !read.ok()) {
    return read.error();
  }
  SafetensorsReader reader;
  if (Status read = reader.read_header(header, who); !read.ok()) return read.error();
  if (Status placed = reader.place_tensors(8 + length, size.value(), who); !placed.ok())
    return placed.error();
  if (Status read = reader.read_parts(who); !read.ok()) return read.error();
  reader.file_ = std::move(file);
  return reader;
}

Status SafetensorsReader::read_parts(const std::string& who) {
  const auto text = metadata_.find(std::string(kSafetensorsParts));
  if (text == metadata_.end()) return {};
  Result<SafetensorsParts> parsed =
      SafetensorsParts::parse(text->second, "the parts of " + std::string(trim(who)));
  if (!parsed.ok()) return parsed.error();
  parts_ = std::move(parsed.value());
  for (const auto& [name, tensor] : parts_.tensors) {
    if (!index_.emplace(name, tensors_.size()).second)
      return corrupt(who + "has the tensor '" + name + "' itself, and in parts as well");
    tensors_.push_back({.name = name,
                        .dtype = tensor.dtype,
                        .shape = tensor.shape,
                        .bytes = *safetensors_bytes(tensor.dtype, tensor.shape),
                        .pieces = tensor.pieces});
  }
  return {};
}

Status SafetensorsReader::open_parts(FileSystem& files, const std::string& directory) {
  for (const SafetensorsParts::File& part : parts_.files) {
    Result<std::unique_ptr<FileReader>> file = files.open_reader(join_path(directory, part.name));
    if (!file.ok()) return file.error();
    const Result<uint64_t> size = file.value()->size();
    if (!size.ok()) return size.error();
    if (size.value() != part.bytes) {
      return corrupt("'" + file.value()->name() + "', a part of '" + file_->name() + "', has " +
                         std::to_string(size.value()) + " bytes, and had " +
                         std::to_string(part.bytes),
                     "copy or write the file again");
    }
    part_files_.push_back(std::move(file.value()));
  }
  return {};
}

Status SafetensorsReader::read_header(const std::string& header, const std::string& who) {
  if (header.empty() || header[0] != '{')
    return corrupt(who + "is not a safetensors file: its header is not JSON object");
  HeaderReader reader(tensors_, metadata_, index_);
  if (nlohmann::json::sax_parse(header, &reader)) return {};
  return corrupt(who + reader.fault());
}

Status SafetensorsReader::place_tensors(uint64_t begin, uint64_t file_size,
                                        const std::string& who) {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  uint64_t next = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    TensorEntry& entry = tensors_[i];
    if (entry.offset != next) {
      return corrupt(who + "has a wrong header: the data of '" + entry.name + "' start at byte " +
                     std::to_string(entry.offset) +
                     (entry.offset < next ? ", inside" : ", not at the end") +
                     " of those before, which end at " + std::to_string(next));
    }
    // The sum cannot overflow, because both numbers are below 2^63.
    next += entry.bytes;
    entry.offset += begin;
    index_.find(entry.name)->second = i;
  }
  if (next != file_size - begin) {
    return corrupt(who + (next > file_size - begin ? "is cut short: " : "is too long: ") +
                       std::to_string(next) + " bytes of data expected, " +
                       std::to_string(file_size - begin) + " found",
                   "copy or write the file again");
  }
  return {};
}

const TensorEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Status SafetensorsReader::read(const TensorEntry& entry, MutableBytes out) const {
  if (out.size() != entry.bytes) {
    return invalid_argument("the tensor '" + entry.name + "' has " + std::to_string(entry.bytes) +
                            " bytes, the buffer for it " + std::to_string(out.size()));
  }
  return read_range(entry, 0, out);
}

Status SafetensorsReader::read_range(const TensorEntry& entry, uint64_t begin,
                                     MutableBytes out) const {
  if (begin > entry.bytes || out.size() > entry.bytes - begin) {
    return invalid_argument("bytes from " + std::to_string(begin) + " to " +
                            std::to_string(begin + out.size()) + " were asked of the tensor '" +
                            entry.name + "', which has " + std::to_string(entry.bytes));
  }
  if (entry.pieces.empty()) return file_->read_exactly_at(entry.offset + begin, out);
  const uint64_t end = begin + out.size();
  uint64_t at = 0;  // where the piece begins in the tensor
  std::string whole;
  for (const TensorPiece& piece : entry.pieces) {
    const uint64_t from = std::max(begin, at), to = std::min(end, at + piece.bytes);
    if (from < to) {
      const MutableBytes wanted = out.subspan(from - begin, to - from);
      const bool all = wanted.size() == piece.bytes;
      if (!all) whole.resize(piece.bytes);
      const MutableBytes into = all ? wanted : std::as_writable_bytes(std::span(whole));
      if (Status read = read_piece(entry, piece, into); !read.ok()) return read;
      if (!all) std::memcpy(wanted.data(), whole.data() + (from - at), wanted.size());
    }
    at += piece.bytes;
  }
  return {};
}

Status SafetensorsReader::read_piece(const TensorEntry& entry, const TensorPiece& piece,
                                     MutableBytes out) const {
  FileReader& part = *part_files_[piece.file];
  if (Status read = part.read_exactly_at(piece.offset, out); !read.ok()) return read;
  if (crc32c(out) == piece.crc32c) return {};
  return corrupt("'" + part.name() + "': the bytes " + std::to_string(piece.offset) + " to " +
                     std::to_string(piece.offset + piece.bytes) + ", which are of the tensor '" +
                     entry.name + "' of '" + file_->name() + "', are damaged",
                 "restore the file from a copy; training falls back to the checkpoint before");
}

Result<std::string> SafetensorsReader::read(std::string_view name) const {
  const TensorEntry* entry = find(name);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const TensorEntry& each : tensors_) names.push_back(each.name);
    return not_found("'" + file_->name() + "' has no tensor '" + std::string(name) + "'; it has " +
                         join_quoted(names),
                     nearest_hint(name, names, ""));
  }
  std::string data(entry->bytes, '\0');
  if (Status done = read(*entry, std::as_writable_bytes(std::span(data))); !done.ok())
    return done.error();
  return data;
}

}  // namespace muster::inline v0_1::formats
