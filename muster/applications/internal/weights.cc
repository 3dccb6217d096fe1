#include "muster/applications/internal/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/files/file_systems.h"
#include "muster/formats/safetensors.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// The names, and the differences, that a message lists.
constexpr size_t kShown = 8;

std::optional<DType> floating_dtype(const std::string& name) {
  if (name == "F32") return at::kFloat;
  if (name == "F64") return at::kDouble;
  if (name == "F16") return at::kHalf;
  if (name == "BF16") return at::kBFloat16;
  return std::nullopt;
}

// Records the variables that a model asks for, and draws no value.
class SpecStore final : public VariableStore {
 public:
  Variable& get_or_create(const VariableSpec& spec) override {
    if (Variable* known = find(spec.name)) return *known;
    // One element seen from everywhere: layers that are called on no rows compute with nothing.
    const Tensor value = at::zeros({1}, spec.dtype).expand(spec.shape);
    variables_.push_back(std::make_unique<Variable>(spec, value));
    return *variables_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : variables_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<Variable>> variables_;
};

std::vector<VariableSpec> variables_of(const Functional& model) {
  const at::NoGradGuard no_grad;
  SpecStore store;
  StepContext context(store, /*seed=*/0);
  context.set_for_shapes_alone();
  LayerInputs inputs;
  for (const SymbolicTensor& input : model.inputs()) {
    Shape shape = input.shape();
    // An axis that may have any size is large enough for the windows that move over it.
    for (int64_t& size : shape) size = size < 0 ? 256 : size;
    shape[0] = 0;
    inputs.tensors.push_back(at::zeros(shape, input.dtype()));
  }
  model(inputs, context);
  std::vector<VariableSpec> specs;
  for (const auto& variable : store.variables()) specs.push_back(variable->spec());
  return specs;
}

// `pattern` may begin or end with a star, which matches anything.
bool matches(std::string_view pattern, std::string_view text) {
  const bool open = pattern.ends_with('*');
  if (open) pattern.remove_suffix(1);
  if (pattern.starts_with('*')) return text.ends_with(pattern.substr(1));
  return open ? text.starts_with(pattern) : text == pattern;
}

std::string listed(const std::vector<std::string>& lines) { return list_lines(lines, kShown); }

}  // namespace

namespace layouts {
Tensor same(const Tensor& tensor) { return tensor; }
Tensor convolution(const Tensor& tensor) { return tensor.permute({2, 3, 1, 0}); }
Tensor depthwise(const Tensor& tensor) { return tensor.permute({2, 3, 0, 1}); }
Tensor transposed(const Tensor& tensor) { return tensor.transpose(0, 1); }
}  // namespace layouts

// An open file, and which of its tensors is the value of which variable.
class Weights::File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}

  void open() {
    Result<formats::SafetensorsReader> opened =
        formats::SafetensorsReader::open(file_systems(), path_);
    if (!opened.ok()) {
      throw opened.error().with_context(fmt::format("cannot read the weights '{}'", path_));
    }
    reader_ = std::move(opened.value());
  }
  const std::vector<formats::TensorEntry>& tensors() const { return reader_->tensors(); }
  const formats::TensorEntry* find(const std::string& name) const { return reader_->find(name); }
  const std::string& path() const { return path_; }

  void take(const std::string& variable, Source source) {
    sources_.emplace(variable, std::move(source));
  }
  // Returns nothing for a variable that has its value from elsewhere.
  std::optional<Tensor> value(const std::string& variable, const Shape& shape, DType dtype) const {
    const auto found = sources_.find(variable);
    if (found == sources_.end()) return std::nullopt;
    const Tensor value = found->second.layout(read(found->second.tensor));
    if (value.sizes() != at::IntArrayRef(shape)) {
      throw invalid_argument(
          fmt::format("{} is {}; '{}' has it as {}, for which the application was made", variable,
                      describe(shape), path_, describe(value)),
          "call it on inputs of the shape it was made for");
    }
    // A copy in any case: it is going to be trained.
    return value.to(dtype).clone(at::MemoryFormat::Contiguous);
  }
  Tensor read(const std::string& name) const {
    const formats::TensorEntry& entry = *reader_->find(name);
    Tensor tensor = at::empty(entry.shape, *floating_dtype(entry.dtype));
    const MutableBytes bytes(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    const Status status = reader_->read(entry, bytes);
    if (!status.ok()) throw status.error().with_context(fmt::format("cannot read '{}'", path_));
    return tensor;
  }

 private:
  std::string path_;
  std::optional<formats::SafetensorsReader> reader_;
  std::map<std::string, Source> sources_;
};

// Compares a model's variables with the tensors of a file.
class Weights::Matching {
 public:
  Matching(const Weights& weights, const std::vector<VariableSpec>& specs)
      : weights_(weights), file_(*weights.file_), specs_(specs) {
    choose();
  }

  const std::string& program() const { return program_; }

  void match() {
    const Naming& naming = names();
    for (const VariableSpec& spec : specs_) {
      const auto sources = naming.sources.find(spec.name);
      if (sources == naming.sources.end()) {
        missing_.push_back(
            fmt::format("missing: {}, for which {} has no name", spec.describe(), program_));
        continue;
      }
      match(spec, sources->second);
    }
    for (const formats::TensorEntry& entry : file_.tensors()) {
      if (!used_.contains(entry.name) && !is_ignored(entry.name)) unused_.push_back(&entry);
    }
    if (missing_.empty() && unused_.empty() && reshaped_.empty()) return check_ties();
    refuse();
  }

 private:
  // Chooses the program most of whose names are in the file, and the prefix they have there.
  void choose() {
    size_t most = 0;
    for (const auto& [program, naming] : weights_.namings_) {
      std::vector<std::string> prefixes = naming.prefixes;
      if (program == kOwn) add_scopes(prefixes);
      for (const std::string& prefix : prefixes) {
        size_t count = 0;
        for (const auto& [variable, sources] : naming.sources) {
          for (const Source& source : sources)
            count += file_.find(prefix + source.tensor) != nullptr ? 1 : 0;
        }
        if (count <= most) continue;
        most = count;
        program_ = program;
        prefix_ = prefix;
      }
    }
    if (most == 0) refuse_names();
  }

  // Variables of a model function are called "<scope>/<layer>/<weight>".
  void add_scopes(std::vector<std::string>& prefixes) const {
    if (specs_.empty()) return;
    const std::string ending = "/" + specs_.front().name;
    for (const formats::TensorEntry& entry : file_.tensors()) {
      if (entry.name.ends_with(ending))
        prefixes.push_back(entry.name.substr(0, entry.name.size() - ending.size() + 1));
    }
    // The slots of an optimizer lie deeper.
    std::stable_sort(prefixes.begin(), prefixes.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
  }

  const Naming& names() const { return weights_.namings_.at(program_); }

  void match(const VariableSpec& spec, const std::vector<Source>& sources) {
    for (const Source& source : sources) {
      for (const std::string& name : {prefix_ + source.tensor, source.tensor}) {
        const formats::TensorEntry* entry = file_.find(name);
        if (entry != nullptr) return match(spec, *entry, source.layout);
      }
    }
    const std::string name = prefix_ + sources.front().tensor;
    missing_.push_back(fmt::format("missing: {}, for {}{}", name, spec.describe(),
                                   near(name, file_names(), missing_.size())));
  }

  void match(const VariableSpec& spec, const formats::TensorEntry& entry, const Layout& layout) {
    const std::string& name = entry.name;
    used_.insert(name);
    if (!floating_dtype(entry.dtype)) {
      reshaped_.push_back(
          fmt::format("of another dtype: {} is {}, and no floating one", name, entry.dtype));
      return;
    }
    const std::optional<Shape> shape = shape_of(layout, entry);
    if (shape == spec.shape) {
      file_.take(spec.name, {name, layout});
      return;
    }
    check_head(spec, entry, shape);
    reshaped_.push_back(
        fmt::format("of another shape: {} is {}{}; {} is {}", name, describe(entry.shape),
                    shape && shape != entry.shape ? ", here " + describe(*shape) : std::string(),
                    spec.name, describe(spec.shape)));
  }

  // The shape of a layout's result, found without numbers; nothing if the layout does not fit.
  static std::optional<Shape> shape_of(const Layout& layout, const formats::TensorEntry& entry) {
    try {
      return layout(at::empty(entry.shape, at::TensorOptions(at::kFloat).device(at::kMeta)))
          .sizes()
          .vec();
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  }

  void check_head(const VariableSpec& spec, const formats::TensorEntry& entry,
                  const std::optional<Shape>& shape) const {
    const bool is_head = !weights_.head_.empty() && spec.name == weights_.head_ + "/kernel";
    if (!is_head || !shape || shape->size() != spec.shape.size() ||
        shape->back() == spec.shape.back())
      return;
    throw invalid_argument(
        fmt::format("{}: the head of '{}' ({} {}) has {} classes, and classes is {}",
                    weights_.application_, file_.path(), entry.name, describe(entry.shape),
                    shape->back(), spec.shape.back()),
        fmt::format("give .classes = {} to take the head along, or .include_top = false and put a "
                    "layer of your own on it",
                    shape->back()));
  }

  // Returns a note for line `line` of a list: to compare names takes a while, and of hundreds of
  // names only a few are shown.
  static std::string near(const std::string& name, const std::vector<std::string>& known,
                          size_t line) {
    if (line >= kShown) return "";
    const auto found = nearest(name, known);
    return found ? "; the nearest name is " + *found : "";
  }

  std::vector<std::string> file_names() const {
    std::vector<std::string> names;
    for (const formats::TensorEntry& entry : file_.tensors()) names.push_back(entry.name);
    return names;
  }

  bool is_ignored(const std::string& name) const {
    if (program_ == kOwn) {
      // The step, optimizer slots, and other models of the program.
      if (name == "global_step" || !name.starts_with(prefix_)) return true;
      for (const VariableSpec& spec : specs_) {
        if (name.size() > spec.name.size() + 1 && name.ends_with("/" + spec.name)) return true;
      }
    }
    const std::string plain =
        name.starts_with(prefix_) ? name.substr(prefix_.size()) : std::string();
    return std::any_of(
        names().ignored.begin(), names().ignored.end(), [&](const std::string& pattern) {
          return matches(pattern, name) || (!plain.empty() && matches(pattern, plain));
        });
  }

  void check_ties() const {
    for (const auto& [first, second] : names().ties) {
      // A head is outside the model, without its prefix.
      const std::string other = file_.find(prefix_ + second) != nullptr ? prefix_ + second : second;
      if (file_.find(other) == nullptr || at::equal(file_.read(prefix_ + first), file_.read(other)))
        continue;
      throw invalid_argument(
          fmt::format("{}: '{}' has {} and {}, which differ; the application "
                      "has one weight for both",
                      weights_.application_, file_.path(), prefix_ + first, other));
    }
  }

  [[noreturn]] void refuse_names() const {
    std::vector<std::string> expected;
    for (const auto& [program, naming] : weights_.namings_) {
      if (naming.sources.empty()) continue;
      const auto first = naming.sources.find(specs_.front().name);
      const std::vector<Source>& sources =
          first == naming.sources.end() ? naming.sources.begin()->second : first->second;
      expected.push_back(fmt::format("'{}' ({})", sources.front().tensor, program));
    }
    throw not_found(
        fmt::format("{}: '{}' has no tensor of a name that it knows; it has {}",
                    weights_.application_, file_.path(), join_quoted(file_names(), kShown)),
        "it knows names such as " + join(expected, ", "));
  }

  [[noreturn]] void refuse() const {
    std::vector<std::string> unused, expected;
    for (const auto& [variable, sources] : names().sources) {
      for (const Source& source : sources) expected.push_back(prefix_ + source.tensor);
    }
    for (const formats::TensorEntry* entry : unused_) {
      unused.push_back(fmt::format("unused: {} {}{}", entry->name, describe(entry->shape),
                                   near(entry->name, expected, unused.size())));
    }
    throw invalid_argument(
        fmt::format("{}: the weights '{}' ({}'s names) do not fit: {} missing, {} unused, {} of "
                    "another shape or dtype{}{}{}",
                    weights_.application_, file_.path(), program_, missing_.size(), unused.size(),
                    reshaped_.size(), listed(missing_), listed(unused), listed(reshaped_)),
        "make the application with the options the file was made for");
  }

  const Weights& weights_;
  File& file_;
  const std::vector<VariableSpec>& specs_;
  std::string program_, prefix_;
  std::set<std::string> used_;
  std::vector<std::string> missing_, reshaped_;
  std::vector<const formats::TensorEntry*> unused_;
};

Weights::Weights(std::string application, std::string path)
    : application_(std::move(application)), path_(std::move(path)) {
  if (!path_.empty()) file_ = std::make_shared<File>(path_);
}

Initializer Weights::initializer(const std::string& variable, Initializer otherwise) const {
  if (file_ == nullptr) return otherwise;
  return [file = file_, variable, otherwise = std::move(otherwise)](const Shape& shape, DType dtype,
                                                                    RandomKey key) {
    std::optional<Tensor> value = file->value(variable, shape, dtype);
    return value ? *std::move(value) : otherwise(shape, dtype, key);
  };
}

void Weights::prefixes(const std::string& program, std::vector<std::string> prefixes) {
  namings_[program].prefixes = std::move(prefixes);
}

void Weights::ignore(const std::string& program, const std::string& pattern) {
  namings_[program].ignored.push_back(pattern);
}

void Weights::tie(const std::string& program, const std::string& first, const std::string& second) {
  namings_[program].ties.emplace_back(first, second);
}

void Weights::add(const std::string& program, const std::string& variable,
                  const std::string& tensor, Layout layout) {
  if (file_ == nullptr) return;
  namings_[program].sources[variable].push_back({tensor, std::move(layout)});
}

void Weights::convolution(const std::string& layer, const ModuleNames& modules) {
  for (const auto& [program, module] : modules) {
    add(program, layer + "/kernel", module + ".weight", layouts::convolution);
    add(program, layer + "/bias", module + ".bias");
  }
}

void Weights::depthwise(const std::string& layer, const ModuleNames& modules) {
  for (const auto& [program, module] : modules) {
    add(program, layer + "/depthwise_kernel", module + ".weight", layouts::depthwise);
    add(program, layer + "/bias", module + ".bias");
  }
}

void Weights::dense(const std::string& layer, const ModuleNames& modules) {
  for (const auto& [program, module] : modules) {
    add(program, layer + "/kernel", module + ".weight", layouts::transposed);
    add(program, layer + "/bias", module + ".bias");
  }
}

void Weights::batch_normalization(const std::string& layer, const ModuleNames& modules) {
  for (const auto& [program, module] : modules) {
    add(program, layer + "/gamma", module + ".weight");
    add(program, layer + "/beta", module + ".bias");
    add(program, layer + "/moving_mean", module + ".running_mean");
    add(program, layer + "/moving_variance", module + ".running_var");
    // PyTorch counts the batches, on which nothing depends here.
    ignore(program, module + ".num_batches_tracked");
  }
}

void Weights::layer_normalization(const std::string& layer, const ModuleNames& modules) {
  for (const auto& [program, module] : modules) {
    add(program, layer + "/gamma", module + ".weight");
    add(program, layer + "/beta", module + ".bias");
  }
}

Functional Weights::load(Functional model, const std::string& needed) const {
  if (file_ == nullptr) return model;
  file_->open();
  const std::vector<VariableSpec> specs = variables_of(model);
  Weights with_own = *this;
  for (const VariableSpec& spec : specs) with_own.add(kOwn, spec.name, spec.name);
  Matching matching(with_own, specs);
  if (!needed.empty() && matching.program() != kOwn) {
    throw invalid_argument(
        fmt::format("{}: the weights '{}' have {}'s names, and {} is false", application_, path_,
                    matching.program(), needed),
        fmt::format("give .{} = true, for the structure they belong to", needed));
  }
  matching.match();
  return model;
}

}  // namespace muster::inline v0_1::internal
