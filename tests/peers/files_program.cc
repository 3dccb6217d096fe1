// Writes each kind of file that Muster writes for others, below --model_dir, or prints the values
// of the files that others wrote below --data_dir. tools/peers/read_back.py knows these values.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muster/muster.h>
#include <torch/types.h>

#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/formats/example.h"
#include "muster/formats/safetensors.h"
#include "muster/formats/tfrecord.h"
#include "muster/formats/torch_state_dict.h"

using namespace muster;

namespace {

struct Named {
  std::string name{};
  std::string dtype{};  // in safetensors
  Tensor tensor{};
};

std::vector<Named> arrays() {
  const Tensor numbers = torch::arange(6).view({2, 3}) - 2;
  return {{"bool", "BOOL", numbers > 0},
          {"uint8", "U8", (numbers + 2).to(torch::kUInt8)},
          {"int8", "I8", numbers.to(torch::kInt8)},
          {"int16", "I16", numbers.to(torch::kInt16)},
          {"int32", "I32", numbers.to(torch::kInt32)},
          {"int64", "I64", numbers},
          {"float16", "F16", numbers.to(torch::kFloat16) / 4},
          {"float32", "F32", numbers.to(torch::kFloat32) / 3},
          {"float64", "F64", numbers.to(torch::kFloat64) / 3},
          {"bfloat16", "BF16", numbers.to(torch::kBFloat16) / 4},
          {"odd", "F32", torch::tensor({NAN, INFINITY, -INFINITY, -0.0F, 1e-40F})},
          {"scalar", "F32", torch::tensor(1.5F)},
          {"empty", "F32", torch::zeros({0, 3})},
          {"transposed", "F32", numbers.to(torch::kFloat32).t()}};
}

void write_arrays(const std::string& folder) {
  std::vector<formats::TensorView> views;
  std::vector<Named> all = arrays();
  for (Named& one : all) {
    if (one.dtype != "BF16") data::save_npy(folder + "/" + one.name + ".npy", one.tensor);
    one.tensor = one.tensor.contiguous();
    views.push_back({one.name,
                     one.dtype,
                     one.tensor.sizes().vec(),
                     {static_cast<const std::byte*>(one.tensor.data_ptr()), one.tensor.nbytes()}});
  }
  const auto tensors = file_systems().open_staged(folder + "/tensors.safetensors").value();
  formats::write_safetensors(*tensors, views, {{"note", "größe"}}).value();
  tensors->commit().value();
  const auto state = file_systems().open_staged(folder + "/state.pt").value();
  formats::write_torch_state_dict(*state, views).value();
  state->commit().value();
}

// Two examples, the second one without most of it.
void write_records(const std::string& folder) {
  const formats::Example full{
      {{"ids", std::vector<int64_t>{-1, 0, std::numeric_limits<int64_t>::max()}},
       {"numbers", std::vector<float>{0.5F, NAN, INFINITY}},
       {"texts", std::vector<std::string>{"größe", "", std::string("\0\xff", 2)}}}};
  const formats::Example bare{{{"ids", std::vector<int64_t>{7}}, {"none", std::monostate{}}}};
  using formats::Compression;
  const std::vector<std::pair<std::string, Compression>> files{
      {"plain", Compression::kNone}, {"gzip", Compression::kGzip}, {"zlib", Compression::kZlib}};
  for (const auto& [name, compression] : files) {
    auto writer = formats::TfrecordWriter::open(file_systems(), folder + "/" + name + ".tfrecord",
                                                {.compression = compression})
                      .value();
    for (const formats::Example& example : {full, bare, full})
      writer.write(bytes_of(formats::encode_example(example))).value();
    writer.close().value();
  }
  auto writer =
      formats::TfrecordWriter::open(file_systems(), folder + "/sequences.tfrecord").value();
  const formats::SequenceExample sequence{
      {{"length", std::vector<int64_t>{2}}},
      {{"steps", {std::vector<float>{1, 2}, std::vector<float>{3, 4}}}}};
  writer.write(bytes_of(formats::encode_sequence_example(sequence))).value();
  writer.close().value();
}

std::string hex(std::string_view text) {
  std::string digits;
  for (const char byte : text) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return "x" + digits;
}

// "FILE NAME [SHAPE] VALUES"; texts are hexadecimal.
void print(const std::string& file, const std::string& name, const std::string& shape,
           const std::vector<std::string>& values) {
  std::printf("%s %s [%s] %s\n", file.c_str(), name.c_str(), shape.c_str(),
              fmt::format("{}", fmt::join(values, " ")).c_str());
}

void print(const std::string& file, const std::string& name, const Value& value) {
  std::vector<std::string> values;
  if (!value.is_tensor()) {
    const Strings& texts = value.strings();
    for (int64_t i = 0; i < texts.size(); ++i) values.push_back(hex(texts[i]));
    return print(file, name, fmt::format("{}", fmt::join(texts.shape(), ",")), values);
  }
  const Tensor& tensor = value.tensor();
  const Tensor flat = tensor.contiguous().view({-1});
  for (int64_t i = 0; i < flat.numel(); ++i) {
    values.push_back(tensor.is_floating_point() ? fmt::format("{:.17g}", flat[i].item<double>())
                                                : fmt::format("{}", flat[i].item<int64_t>()));
  }
  print(file, name, fmt::format("{}", fmt::join(tensor.sizes().vec(), ",")), values);
}

void print(const std::string& file, const std::string& name, const formats::Feature& feature) {
  std::vector<std::string> values;
  if (const auto* texts = std::get_if<std::vector<std::string>>(&feature)) {
    for (const std::string& text : *texts) values.push_back(hex(text));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
    for (const float number : *floats) values.push_back(fmt::format("{:.17g}", number));
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&feature)) {
    for (const int64_t number : *integers) values.push_back(fmt::format("{}", number));
  }
  print(file, name, fmt::format("{}", values.size()), values);
}

void print_records(const std::string& file, const std::string& path) {
  auto reader = formats::TfrecordReader::open(file_systems(), path).value();
  Bytes payload;
  for (int64_t i = 0; reader.read(&payload).value(); ++i) {
    const formats::Example example = formats::decode_example(payload).value();
    for (const auto& [name, feature] : example.features)
      print(file, fmt::format("{}:{}", i, name), feature);
  }
}

void print_safetensors(const std::string& file, const std::string& path) {
  const auto reader = formats::SafetensorsReader::open(file_systems(), path).value();
  for (const formats::TensorEntry& entry : reader.tensors()) {
    std::string shape = fmt::format("{}", fmt::join(entry.shape, ","));
    print(file, entry.name + ":" + entry.dtype, shape, {hex(reader.read(entry.name).value())});
  }
}

void read(const std::string& folder) {
  for (const std::string& file : file_systems().list_directory(folder).value()) {
    const std::string path = folder + "/" + file;
    if (file.ends_with(".npy")) print(file, "-", data::load_npy_value(path));
    if (file.ends_with(".npz")) {
      const Element all = data::load_npz(path);
      for (const std::string& name : all.structure().keys) print(file, name, all.at(name).value());
    }
    if (file.ends_with(".safetensors")) print_safetensors(file, path);
    if (file.ends_with(".tfrecord")) print_records(file, path);
    if (file.ends_with(".h5")) {
      const auto reader = kerasfiles::open_keras_checkpoint(file_systems(), path);
      for (const auto& [name, spec] : reader->specs()) {
        if (name != "global_step") print(file, name, Value(reader->read(name)));
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv,
                  [](const Flags& flags) {
                    if (!flags.data_dir.empty()) return read(flags.data_dir);
                    file_systems().make_directories(flags.model_dir).value();
                    write_arrays(flags.model_dir);
                    write_records(flags.model_dir);
                  },
                  {.description = "Writes files for others, or reads those of others.",
                   .uses = {"data_dir", "model_dir"}});
}
