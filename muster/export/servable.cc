#include "muster/export/servable.h"

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/base/uri.h"
#include "muster/export/internal/description.h"
#include "muster/export/internal/text_ids.h"
#include "muster/export/internal/trace.h"
#include "muster/export/model_reader.h"
#include "muster/files/file_systems.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1 {
namespace {

template <typename Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

// A version is a name that std::to_string() writes.
std::optional<int64_t> version_of(std::string_view name) {
  const auto number = parse_int(name);
  if (!number || *number < 0 || std::to_string(*number) != name) return std::nullopt;
  return number;
}

bool fits(const Tensor& tensor, const TensorInfo& info) {
  if (tensor.scalar_type() != info.dtype ||
      tensor.dim() != static_cast<int64_t>(info.shape.size())) {
    return false;
  }
  for (size_t axis = 0; axis < info.shape.size(); ++axis) {
    const int64_t size = info.shape[axis];
    if (size >= 0 && tensor.size(static_cast<int64_t>(axis)) != size) return false;
  }
  return true;
}

// A module with the data for calling it, made for one signature: which outputs to take.
struct Call {
  const std::string* name{};
  const Signature* signature{};
  std::vector<std::pair<std::string, c10::IValue>> outputs;  // name, and key of the module's dict
};

}  // namespace

struct Servable::Impl {
  std::string directory{};
  internal::ServableDescription description;
  torch::jit::Module module;
  std::optional<torch::jit::Method> forward{};
  std::map<std::string, Call> calls{};
  std::unique_ptr<const RequestReader> raw{};  // if columns come before the model
  std::optional<data::ExampleParser> parser{};
  std::map<std::string, internal::TextIds> texts{};
  // Computes instead of the module, if the model is of another kind.
  std::function<Tensors(const std::string& signature, const Tensors&)> foreign{};

  Impl(const std::string& folder, FileSystem& files) : directory(folder) {
    const std::string file = foreign_model(files, directory);
    if (file.empty()) {
      load_export(files);
    } else {
      load_foreign(files, file);
    }
    for (const auto& [name, input] : description.texts) texts.emplace(name, input);
    for (const auto& [name, signature] : description.signatures) {
      Call& call = calls[name];
      call.name = &name;
      call.signature = &signature;
      for (const auto& [output, key] : description.keys.at(name))
        call.outputs.emplace_back(output, key);
    }
    if (!calls.contains(kServingDefault))
      throw corrupt(fmt::format("{} has no signature \"{}\"", directory, kServingDefault));
    warm_up();
  }

  void load_export(FileSystem& files) {
    const std::string path = join_path(directory, internal::kSignaturesFile);
    Result<std::string> text = files.read_file(path);
    if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) {
      throw not_found(directory + " holds no exported model: there is no " + path,
                      "Estimator::export_model() writes one; a folder of several versions is not "
                      "one of them");
    }
    description = internal::description_from_json(text.value(), path);
    if (!description.files) {
      log::info(
          fmt::format("{} has no checksums, because an older Muster wrote it: damage to its files "
                      "cannot be detected; export it again",
                      directory));
    }
    check_other_files(files);
    load_module(files);
    read_features();
  }

  void load_foreign(FileSystem& files, const std::string& file) {
    LoadedModel loaded = read_foreign_model(files, file);
    description.global_step = loaded.global_step;
    description.signatures = std::move(loaded.signatures);
    description.keys = std::move(loaded.outputs);
    for (const auto& [name, signature] : description.signatures)
      description.texts.insert(signature.texts.begin(), signature.texts.end());
    foreign = std::move(loaded.run);
  }

  // The features of serialized examples. The error is for the sender: which example it is, and what
  // the signature takes.
  Element parse(const Call& call, const std::vector<std::string>& examples) const {
    try {
      return (*parser)(Strings(examples));
    } catch (const Error&) {
      for (size_t row = 0; row < examples.size(); ++row) parse_one(call, examples[row], row);
      throw;
    }
  }
  void parse_one(const Call& call, const std::string& example, size_t row) const {
    try {
      (void)(*parser)(Strings(std::vector<std::string>{example}));
    } catch (const Error& error) {
      std::vector<std::string> taken;
      for (const auto& [name, feature] : call.signature->features)
        taken.push_back(fmt::format("'{}' {}", name, feature.describe()));
      if (taken.empty()) {
        for (const auto& [name, info] : call.signature->inputs)
          taken.push_back(fmt::format("'{}' {}", name, info.describe()));
      }
      throw Error(error.kind(), fmt::format("examples[{}]: {}", row, error.message()),
                  fmt::format("signature '{}' takes {}", *call.name, join(taken, ", ")));
    }
  }

  // Determines how a client's features become the inputs, which all signatures share.
  void read_features() {
    if (!description.columns || description.signatures.empty()) {
      if (description.parsing) parser.emplace(*description.parsing);
      return;
    }
    raw = description.columns->reader(description.signatures.begin()->second.inputs,
                                      description.parsing);
    parser = raw->parser();
    for (auto& [name, signature] : description.signatures) {
      signature.features = raw->features();
      signature.takes_examples = parser.has_value();
    }
  }

  // Checks the files that are not read, but belong to the model.
  void check_other_files(FileSystem& files) const {
    if (!description.files) return;
    for (const auto& [name, digest] : *description.files) {
      if (name != internal::kModuleFile)
        formats::check_digest(files, join_path(directory, name), digest).value();
    }
  }

  void load_module(FileSystem& files) {
    const std::string path = join_path(directory, internal::kModuleFile);
    std::string bytes = files.read_file(path).value();
    if (description.files) {
      const auto digest = description.files->find(internal::kModuleFile);
      if (digest == description.files->end())
        throw corrupt(fmt::format("{}: {} has no digest of it", path, internal::kSignaturesFile));
      formats::check_digest(bytes_of(bytes), path, digest->second).value();
    }
    std::istringstream stream(std::move(bytes));
    try {
      module = torch::jit::load(stream);
      forward = module.get_method("forward");
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const c10::Error*>(&error);
      throw corrupt(fmt::format("{} cannot be loaded: {}", path,
                                known != nullptr ? text_of(*known) : error.what()),
                    "export the model again");
    }
  }

  Shape smallest_batch(const std::string& input, const TensorInfo& info) const {
    Shape shape = info.shape;
    std::replace(shape.begin(), shape.end(), int64_t{-1}, int64_t{1});
    for (const internal::LengthRange& range : description.lengths) {
      for (const auto& [feature, axis] : range.axes) {
        if (feature == input) shape[static_cast<size_t>(axis)] = std::max<int64_t>(range.least, 1);
      }
    }
    return shape;
  }

  // LibTorch optimizes a graph in its first calls, so they are slow.
  void warm_up() {
    Tensors zeros;
    const Call& call = calls.at(kServingDefault);
    for (const auto& [name, info] : call.signature->inputs)
      zeros[name] = torch::zeros(smallest_batch(name, info), info.dtype);
    try {
      for (int i = 0; i < 3; ++i) (void)compute(call, zeros);
    } catch (const Error& error) {
      // The model may refuse zeros; its first requests are slower then.
      if (error.kind() == ErrorKind::kCorrupt) throw;
      log::debug(fmt::format("{} does not take zeros: {}", directory, error.message()));
    }
  }

  const Call& call_of(const std::string& name) const {
    const auto found = calls.find(name);
    if (found == calls.end()) throw unknown_name(directory, "signature", name, keys_of(calls));
    return found->second;
  }

  // `unknown`: the caller's name of an input, if no input has that name.
  [[noreturn]] void refuse(const Call& call, const std::string& what,
                           const std::string& unknown = "") const {
    std::vector<std::string> expected;
    for (const auto& [name, info] : call.signature->inputs)
      expected.push_back(name + " " + info.describe());
    const std::string takes =
        "it takes " + join(expected, ", ") + "; -1 is the batch" +
        (description.lengths.empty() ? ""
                                     : ", and on other axes a length that the request chooses");
    throw invalid_argument(
        fmt::format("the signature \"{}\": {}", *call.name, what),
        unknown.empty() ? takes : nearest_hint(unknown, keys_of(call.signature->inputs), takes));
  }

  void check(const Call& call, const Tensors& inputs) const {
    // Before missing inputs, one of which a misspelt one may have meant.
    for (const auto& [name, tensor] : inputs) {
      if (!call.signature->inputs.contains(name))
        refuse(call, fmt::format("there is no input \"{}\"", name), name);
    }
    int64_t rows = -1;
    for (const auto& [name, info] : call.signature->inputs) {
      const auto found = inputs.find(name);
      if (found == inputs.end()) refuse(call, fmt::format("the input \"{}\" is missing", name));
      const Tensor& given = found->second;
      if (!given.defined() || !fits(given, info)) {
        refuse(call, fmt::format("the input \"{}\" is {}, expected {}", name,
                                 muster::describe(given), info.describe()));
      }
      if (rows >= 0 && given.size(0) != rows) {
        refuse(call, fmt::format("the input \"{}\" has {} rows, others have {}", name,
                                 given.size(0), rows));
      }
      rows = given.size(0);
    }
    for (const internal::LengthRange& range : description.lengths)
      check_lengths(call, inputs, range);
  }

  void check_lengths(const Call& call, const Tensors& inputs,
                     const internal::LengthRange& range) const {
    const FreeAxis& first = range.axes.front();
    const int64_t wanted = inputs.at(first.feature).size(first.axis);
    if (wanted < range.least || (range.most && wanted > *range.most)) {
      refuse(call, fmt::format("axis {} of the input \"{}\" has the length {}, the model takes {}",
                               first.axis, first.feature, wanted,
                               range.most ? fmt::format("{} to {}", range.least, *range.most)
                                          : fmt::format("{} or more", range.least)));
    }
    for (const auto& [feature, axis] : range.axes) {
      const int64_t length = inputs.at(feature).size(axis);
      if (length == wanted) continue;
      refuse(call, fmt::format("axis {} of the input \"{}\" has the length {}, and axis {} of the "
                               "input \"{}\" has {}; the model takes equal lengths",
                               axis, feature, length, first.axis, first.feature, wanted));
    }
  }

  Tensors compute(const Call& call, const Tensors& inputs) const {
    const torch::NoGradGuard no_grad;
    check(call, inputs);
    if (foreign) return outputs_of_foreign(call, foreign(*call.name, inputs));
    torch::jit::Stack stack;
    stack.reserve(inputs.size() + 1);
    for (const auto& [name, tensor] : inputs) stack.emplace_back(tensor);
    c10::IValue given;
    try {
      given = (*forward)(std::move(stack));
    } catch (const std::exception& error) {
      std::string given_shapes;
      for (const auto& [name, tensor] : inputs)
        given_shapes += fmt::format("; the input \"{}\" is {}", name, muster::describe(tensor));
      throw converted_error(
          fmt::format("the signature \"{}\" cannot compute this batch: {}{}", *call.name,
                      internal::cause_of(error), description.lengths.empty() ? "" : given_shapes),
          [&] {
            return std::string(description.lengths.empty()
                                   ? "the values must be such as it trained on"
                                   : "values and lengths must be such as it trained on");
          });
    }
    return outputs_of(call, given);
  }

  static Tensors outputs_of_foreign(const Call& call, const Tensors& given) {
    Tensors outputs;
    for (const auto& [name, key] : call.outputs)
      outputs.emplace_hint(outputs.end(), name, given.at(key.toStringRef()));
    return outputs;
  }

  Tensors outputs_of(const Call& call, const c10::IValue& given) const {
    try {
      const auto all = given.toGenericDict();
      Tensors outputs;
      for (const auto& [name, key] : call.outputs)
        outputs.emplace_hint(outputs.end(), name, all.at(key).toTensor());
      return outputs;
    } catch (const std::exception& error) {
      throw corrupt(fmt::format("{}: the module does not give what the signature \"{}\" says: {}",
                                join_path(directory, internal::kModuleFile), *call.name,
                                internal::cause_of(error)),
                    "export the model again");
    }
  }
};

Servable::Servable(const std::string& directory, FileSystem* files)
    : impl_(std::make_unique<Impl>(directory, files != nullptr ? *files : file_systems())) {}
Servable::~Servable() = default;
Servable::Servable(Servable&&) noexcept = default;
Servable& Servable::operator=(Servable&&) noexcept = default;

const std::map<std::string, Signature>& Servable::signatures() const {
  return impl_->description.signatures;
}

const Signature& Servable::signature(const std::string& name) const {
  return *impl_->call_of(name).signature;
}

Servable::Tensors Servable::run(const std::string& signature, const Tensors& inputs) const {
  return impl_->compute(impl_->call_of(signature), inputs);
}

Tensor Servable::text_ids(const std::string& input, const Strings& texts) const {
  const auto found = impl_->texts.find(input);
  if (found == impl_->texts.end())
    throw unknown_name(directory(), "input of texts", input, keys_of(impl_->texts));
  return found->second(texts);
}

Servable::Tensors Servable::run_features(const std::string& signature,
                                         const Element& features) const {
  const Call& call = impl_->call_of(signature);
  if (impl_->raw) {
    impl_->raw->check(features);
    return impl_->compute(call, impl_->raw->inputs_of(features));
  }
  Tensors inputs;
  for (const std::string& name : features.structure().keys)
    inputs[name] = features.at(name).value().tensor();
  return impl_->compute(call, inputs);
}

Servable::Tensors Servable::run_examples(const std::string& signature,
                                         const std::vector<std::string>& examples) const {
  const Call& call = impl_->call_of(signature);
  if (!impl_->parser) impl_->refuse(call, "it takes no serialized tf.Examples");
  const Element parsed = impl_->parse(call, examples);
  if (impl_->raw) return impl_->compute(call, impl_->raw->inputs_of(parsed));
  Tensors inputs;
  for (const auto& [name, info] : call.signature->inputs)
    inputs[name] = parsed.at(name).value().tensor();
  return impl_->compute(call, inputs);
}

Shape Servable::smallest_batch(const std::string& signature, const std::string& input) const {
  const auto& inputs = impl_->call_of(signature).signature->inputs;
  const auto found = inputs.find(input);
  if (found == inputs.end())
    throw unknown_name("the signature '" + signature + "'", "input", input, keys_of(inputs));
  return impl_->smallest_batch(input, found->second);
}

const std::string& Servable::directory() const { return impl_->directory; }

std::optional<int64_t> Servable::version() const {
  std::string_view path = impl_->directory;
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return version_of(base_name(path));
}

int64_t Servable::global_step() const { return impl_->description.global_step; }

std::vector<int64_t> model_versions(const std::string& directory, FileSystem* files) {
  FileSystem& fs = files != nullptr ? *files : file_systems();
  std::vector<int64_t> versions = internal::numbered_folders(fs, directory);
  if (is_remote(directory)) {
    std::erase_if(versions, [&](int64_t version) {
      const std::string folder = join_path(directory, std::to_string(version));
      return !fs.exists(join_path(folder, internal::kSignaturesFile)).value();
    });
  }
  return versions;
}

std::vector<int64_t> internal::numbered_folders(FileSystem& files, const std::string& directory) {
  if (directory.ends_with(".onnx") || directory.ends_with(".pb")) return {};  // a file
  const Result<std::vector<DirectoryEntry>> entries = files.list_entries(directory);
  if (!entries.ok() && entries.error().kind() == ErrorKind::kNotFound) return {};
  std::vector<int64_t> versions;
  for (const DirectoryEntry& entry : entries.value()) {
    if (const auto version = version_of(entry.name); version && entry.info.is_directory)
      versions.push_back(*version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

std::optional<int64_t> newest_version(const std::string& directory, FileSystem* files) {
  const std::vector<int64_t> versions = model_versions(directory, files);
  return versions.empty() ? std::nullopt : std::optional(versions.back());
}

}  // namespace muster::inline v0_1
