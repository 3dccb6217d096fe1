#include "muster/checkpoint/internal/vocabulary_remap.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/base/error.h"
#include "muster/formats/vocabulary_file.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// The tokens of one file in their order, and the place of each.
struct Vocabulary {
  std::vector<std::string> words{};
  std::unordered_map<std::string, int64_t> places{};

  int64_t size() const { return static_cast<int64_t>(words.size()); }
};

// Reads the first `size` tokens, or all if it is -1.
Vocabulary read_vocabulary(FileSystem& fs, const char* field, const std::string& path,
                           int64_t size) {
  const std::optional<int64_t> most = size < 0 ? std::nullopt : std::optional(size);
  auto read = formats::read_vocabulary_file(fs, path, most);
  if (!read.ok()) throw read.error().with_detail(fmt::format("it is VocabInfo.{}", field));
  Vocabulary vocabulary{.words = std::move(read).value(), .places = {}};
  for (const std::string& word : vocabulary.words)
    vocabulary.places.emplace(word, static_cast<int64_t>(vocabulary.places.size()));
  if (vocabulary.size() < size || vocabulary.size() == 0) {
    throw invalid_argument(fmt::format("VocabInfo.{} '{}' has {} lines; VocabInfo.{}_size is {}",
                                       field, path, vocabulary.size(), field, size),
                           "name the file with all words, or the number it has");
  }
  return vocabulary;
}

// Whether the shapes are the same but along `axis`.
bool alike_but(const Shape& a, at::IntArrayRef b, int64_t axis) {
  if (a.size() != b.size() || axis >= static_cast<int64_t>(a.size())) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (static_cast<int64_t>(d) != axis && a[d] != b[d]) return false;
  }
  return true;
}

void check_shapes(const VocabInfo& info, const VariableSpec& spec, const Tensor& old,
                  int64_t new_words, int64_t old_words) {
  const char* lines = info.axis == 0 ? "rows" : "columns";
  const std::string both =
      fmt::format("the model's is {}, the checkpoint's {}", spec.describe(), describe(old));
  if (old.scalar_type() != spec.dtype || !alike_but(spec.shape, old.sizes(), info.axis)) {
    throw invalid_argument(
        fmt::format("{}; they may differ in their number of {} alone", both, lines));
  }
  const int64_t here = spec.shape[static_cast<size_t>(info.axis)];
  if (here != new_words + info.num_oov_buckets) {
    throw invalid_argument(
        fmt::format("{}; the variable has {} {}, the vocabulary '{}' of {} words and "
                    "num_oov_buckets = {} make {}",
                    both, here, lines, info.new_vocab, new_words, info.num_oov_buckets,
                    new_words + info.num_oov_buckets),
        "new_vocab_size says how many words count");
  }
  if (old.size(info.axis) < old_words) {
    throw invalid_argument(fmt::format("{}, which has {} {}; the vocabulary '{}' has {} words",
                                       both, old.size(info.axis), lines, info.old_vocab, old_words),
                           "old_vocab_size says how many words count");
  }
}

Tensor backup(const VocabInfo& info, const VariableSpec& spec, RandomKey key) {
  if (!info.backup_initializer) return torch::zeros(spec.shape, torch::TensorOptions(spec.dtype));
  Tensor value = info.backup_initializer(spec.shape, spec.dtype, key);
  if (value.sizes() != at::IntArrayRef(spec.shape) || value.scalar_type() != spec.dtype) {
    throw invalid_argument(
        fmt::format("backup_initializer gave {} for {}", describe(value), spec.describe()),
        "an initializer must return the shape and dtype it is asked for");
  }
  // The memory of `value` may be shared.
  return value.detach().to(at::kCPU).clone();
}

}  // namespace

Remapped remap_vocabulary(FileSystem& fs, const VocabInfo& info, const VariableSpec& spec,
                          const Tensor& old, RandomKey key) {
  const Vocabulary fresh = read_vocabulary(fs, "new_vocab", info.new_vocab, info.new_vocab_size);
  const Vocabulary before = read_vocabulary(fs, "old_vocab", info.old_vocab, info.old_vocab_size);
  check_shapes(info, spec, old, fresh.size(), before.size());
  const int64_t begin = info.oov_first ? info.num_oov_buckets : 0;
  const int64_t old_begin = info.oov_first ? old.size(info.axis) - before.size() : 0;
  std::vector<int64_t> to, from;
  for (int64_t w = 0; w < fresh.size(); ++w) {
    const auto known = before.places.find(fresh.words[static_cast<size_t>(w)]);
    if (known == before.places.end()) continue;
    to.push_back(begin + w);
    from.push_back(old_begin + known->second);
  }
  torch::NoGradGuard no_grad;
  Remapped result{backup(info, spec, key), static_cast<int64_t>(to.size()), fresh.size()};
  result.value.index_copy_(info.axis, torch::tensor(to, at::kLong),
                           old.index_select(info.axis, torch::tensor(from, at::kLong)));
  return result;
}

}  // namespace muster::inline v0_1::internal
