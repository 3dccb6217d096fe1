#include "muster/heads/sequential_head.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/heads/internal/arguments.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kSequential = "SequentialHeadWrapper";

// The steps of a batch that count.
struct Steps {
  std::string head{};
  Shape shape{};     // [batch, steps]
  Tensor indices{};  // of [batch * steps], on the CPU

  // Returns the values of these steps: [batch, steps, ...] becomes [steps that count, ...].
  Value of(const std::string& what, const Value& value) const {
    const Shape given =
        value.is_strings() ? value.strings().shape() : Shape(value.tensor().sizes().vec());
    if (given.size() < 2 || given[0] != shape[0] || given[1] != shape[1]) {
      internal::refuse(head, what, value.describe(),
                       fmt::format("[{}, {}, ...], as the logits", shape[0], shape[1]),
                       "each step of a sequence has a value; pad them as the sequences are");
    }
    if (value.is_tensor()) {
      const Tensor& tensor = value.tensor();
      return tensor.flatten(0, 1).index_select(0, indices.to(tensor.device()));
    }
    Shape flat(given.begin() + 1, given.end());
    flat[0] = given[0] * given[1];
    std::vector<int64_t> offsets{0};
    std::string bytes;
    const Strings& texts = value.strings();
    for (int64_t i = 0; i < texts.size(); ++i) {
      bytes += texts[i];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
    const Value all(Strings(std::move(flat), std::move(offsets), std::move(bytes)));
    return all.gather({indices.data_ptr<int64_t>(), static_cast<size_t>(indices.numel())});
  }
};

class SequentialRule : public HeadRule {
 public:
  SequentialRule(const Head& head, SequentialHeadOptions options)
      : head_(head), options_(std::move(options)) {
    if (head_.rule().kind() == "MultiHead" || !head_.rule().sequence_mask_key().empty()) {
      internal::refuse(kSequential, "static_head", head_.rule().kind(),
                       "a head of one objective, for an example");
    }
    if (options_.sequence_length_mask.empty())
      internal::refuse(kSequential, "sequence_length_mask", "empty", "the name of a feature");
  }

  std::string kind() const override { return head_.rule().kind(); }
  std::string name() const override { return head_.name(); }
  int64_t logits_dimension() const override { return head_.logits_dimension(); }
  losses::Reduction loss_reduction() const override { return head_.loss_reduction(); }
  std::vector<std::string> classes() const override { return head_.classes(); }
  std::string sequence_mask_key() const override { return options_.sequence_length_mask; }

  HeadScore score(const Features& features, const Labels& labels, const Logits& logits,
                  bool with_metrics) const override {
    const std::string title = internal::title_of(kind(), name());
    const Tensor values = internal::checked_logits(title, logits, logits_dimension());
    const Steps steps = steps_of(title, features, values);
    std::vector<std::pair<std::string, Element>> entries;
    for (const std::string& key : options_.feature_columns) {
      entries.emplace_back(
          key, Element(steps.of("the feature '" + key + "'", feature(title, features, key))));
    }
    const Value flat = steps.of("labels", internal::label_value(title, labels, features));
    HeadScore score =
        head_.rule().score(Features(Element::dict(std::move(entries))), Labels(Element(flat)),
                           steps.of("logits", values).tensor(), with_metrics);
    score.loss_weight = static_cast<double>(steps.indices.numel());
    return score;
  }

  std::map<std::string, Tensor> predictions(const Logits& logits) const override {
    return head_.predictions(logits);
  }
  std::map<std::string, ExportOutput> export_outputs(const Logits& logits) const override {
    return head_.export_outputs(logits);
  }

 private:
  static const Value& feature(const std::string& title, const Features& features,
                              const std::string& key) {
    if (features.contains(key)) return features.value(key);
    throw invalid_argument(fmt::format("{}: the features have no '{}'; they are {}", title, key,
                                       features.element().describe()),
                           "it is [batch, steps], as SequentialHeadOptions says");
  }

  Steps steps_of(const std::string& title, const Features& features, const Tensor& logits) const {
    if (logits.dim() < 3) {
      internal::refuse(title, "logits", describe(logits),
                       fmt::format("[batch, steps, {}]", logits_dimension()),
                       "a recurrent layer gives them with return_sequences");
    }
    Steps steps{.head = title, .shape = {logits.size(0), logits.size(1)}, .indices = {}};
    const std::string& key = options_.sequence_length_mask;
    const Value& mask = feature(title, features, key);
    if (!mask.is_tensor() || mask.tensor().sizes() != c10::IntArrayRef(steps.shape)) {
      internal::refuse(title, "the feature '" + key + "'", mask.describe(),
                       fmt::format("[{}, {}], as the logits", steps.shape[0], steps.shape[1]));
    }
    steps.indices = mask.tensor().flatten().nonzero().flatten().cpu().contiguous();
    return steps;
  }

  Head head_;
  SequentialHeadOptions options_;
};

}  // namespace

Head SequentialHeadWrapper(const Head& static_head, SequentialHeadOptions options) {
  return Head(std::make_shared<const SequentialRule>(static_head, std::move(options)));
}

}  // namespace muster::inline v0_1
