#include "muster/formats/torch_state_dict.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "muster/base/strings.h"
#include "muster/formats/zip_writer.h"

namespace muster::inline v0_1::formats {
namespace {

// All entries are in a folder, as torch.save() has them.
const std::string kFolder = "archive/";
// The version of the format in which tensors are rebuilt by _rebuild_tensor_v2.
constexpr std::string_view kFormatVersion = "3\n";

// PyTorch's name of a dtype's storage; nothing when it has none.
std::optional<std::string> storage_of(const std::string& dtype) {
  static const std::map<std::string, std::string> kStorages = {
      {"F64", "Double"}, {"F32", "Float"}, {"F16", "Half"}, {"BF16", "BFloat16"}, {"I64", "Long"},
      {"I32", "Int"},    {"I16", "Short"}, {"I8", "Char"},  {"U8", "Byte"},       {"BOOL", "Bool"}};
  const auto found = kStorages.find(dtype);
  if (found == kStorages.end()) return std::nullopt;
  return found->second + "Storage";
}

// The opcodes of protocol 2 that a state dict needs.
class Pickle {
 public:
  Pickle() : bytes_("\x80\x02") {}

  void text(std::string_view value) {
    bytes_ += 'X';
    append_little_endian<uint32_t>(bytes_, static_cast<uint32_t>(value.size()));
    bytes_ += value;
  }
  void number(int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) {
      bytes_ += 'J';
      append_little_endian<uint32_t>(bytes_, static_cast<uint32_t>(value));
    } else {
      bytes_ += "\x8a\x08";
      append_little_endian<uint64_t>(bytes_, static_cast<uint64_t>(value));
    }
  }
  void numbers(const std::vector<int64_t>& values) {
    mark();
    for (const int64_t value : values) number(value);
    tuple();
  }
  void global(std::string_view module, std::string_view name) {
    bytes_ += fmt::format("c{}\n{}\n", module, name);
  }
  void mark() { bytes_ += '('; }
  void tuple() { bytes_ += 't'; }
  void empty_tuple() { bytes_ += ')'; }
  void empty_dict() { bytes_ += '}'; }
  void set_items() { bytes_ += 'u'; }
  void persistent() { bytes_ += 'Q'; }
  void reduce() { bytes_ += 'R'; }
  void no() { bytes_ += '\x89'; }
  std::string finish() { return bytes_ + '.'; }

 private:
  std::string bytes_;
};

// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), of the
// storage in the entry data/<key>.
void add_tensor(Pickle& pickle, const TensorView& tensor, const std::string& storage, size_t key) {
  std::vector<int64_t> strides(tensor.shape.size());
  int64_t elements = 1;
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = elements;
    elements *= tensor.shape[d];
  }
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.text("storage");
  pickle.global("torch", storage);
  pickle.text(std::to_string(key));
  pickle.text("cpu");
  pickle.number(elements);
  pickle.tuple();
  pickle.persistent();
  pickle.number(0);
  pickle.numbers(tensor.shape);
  pickle.numbers(strides);
  pickle.no();
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
  pickle.tuple();
  pickle.reduce();
}

Status check(const TensorView& tensor, std::set<std::string>* names) {
  if (!is_utf8(tensor.name)) return invalid_argument("the name of a tensor is not UTF-8");
  if (!names->insert(tensor.name).second)
    return invalid_argument(fmt::format("the tensor \"{}\" is given twice", tensor.name));
  if (!storage_of(tensor.dtype)) {
    return invalid_argument(
        fmt::format("not supported: \"{}\" has the dtype {}, for which PyTorch "
                    "has no storage",
                    tensor.name, tensor.dtype));
  }
  uint64_t bytes = static_cast<uint64_t>(*safetensors_bits(tensor.dtype)) / 8;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      bytes = UINT64_MAX;
  }
  if (bytes == tensor.data.size()) return {};
  return invalid_argument(
      fmt::format("the data of \"{}\" have {} bytes, which do not fill its "
                  "shape",
                  tensor.name, tensor.data.size()));
}

}  // namespace

Status write_torch_state_dict(ByteSink& sink, std::span<const TensorView> tensors) {
  std::set<std::string> names;
  // A dict, for C++ does not read an OrderedDict here.
  Pickle pickle;
  pickle.empty_dict();
  pickle.mark();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (Status good = check(tensors[i], &names); !good.ok()) return good;
    pickle.text(tensors[i].name);
    add_tensor(pickle, tensors[i], *storage_of(tensors[i].dtype), i);
  }
  pickle.set_items();
  ZipWriter zip(sink);
  if (Status added = zip.add(kFolder + "data.pkl", bytes_of(pickle.finish())); !added.ok())
    return added;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Status added = zip.add(fmt::format("{}data/{}", kFolder, i), tensors[i].data);
    if (!added.ok()) return added;
  }
  if (Status added = zip.add(kFolder + "version", bytes_of(kFormatVersion)); !added.ok())
    return added;
  return zip.finish();
}

}  // namespace muster::inline v0_1::formats
