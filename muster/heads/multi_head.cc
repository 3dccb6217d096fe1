#include "muster/heads/multi_head.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/data/example.h"
#include "muster/heads/internal/arguments.h"
#include "muster/metrics/mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kMulti = "MultiHead";

void check_heads(const std::vector<Head>& heads) {
  if (heads.empty()) internal::refuse(kMulti, "heads", "empty", "at least one head");
  std::set<std::string> names;
  for (size_t i = 0; i < heads.size(); ++i) {
    const std::string argument =
        fmt::format("the name of heads[{}], a {},", i, heads[i].rule().kind());
    const std::string name = heads[i].name();
    if (name.empty()) {
      internal::refuse(kMulti, argument, "empty", "one of its own",
                       "labels, logits and metrics are told apart by the names of heads");
    }
    if (!names.insert(name).second)
      internal::refuse(kMulti, argument, fmt::format("\"{}\", as one before it", name), "another");
    if (heads[i].loss_reduction() != heads.front().loss_reduction()) {
      internal::refuse(kMulti, fmt::format("the loss_reduction of \"{}\"", name),
                       fmt::format("another than that of \"{}\"", heads.front().name()),
                       "the same for all heads");
    }
  }
}

void check_head_weights(const std::vector<double>& weights, size_t heads) {
  if (!weights.empty() && weights.size() != heads) {
    internal::refuse(kMulti, "head_weights", fmt::format("{} numbers", weights.size()),
                     fmt::format("one for each of {} heads", heads));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= 0 && std::isfinite(weights[i])) continue;
    internal::refuse(kMulti, fmt::format("head_weights[{}]", i), fmt::format("{}", weights[i]),
                     "finite and 0 or more");
  }
}

class MultiHeadRule : public HeadRule {
 public:
  explicit MultiHeadRule(MultiHeadOptions options)
      : heads_(std::move(options.heads)), weights_(std::move(options.head_weights)) {
    check_heads(heads_);
    check_head_weights(weights_, heads_.size());
  }

  std::string kind() const override { return kMulti; }
  std::string name() const override { return {}; }
  int64_t logits_dimension() const override {
    int64_t sum = 0;
    for (const Head& head : heads_) sum += head.logits_dimension();
    return sum;
  }
  losses::Reduction loss_reduction() const override { return heads_.front().loss_reduction(); }

  HeadScore score(const Features& features, const Labels& labels, const Logits& logits,
                  bool with_metrics) const override {
    check_labels(labels);
    const std::vector<Tensor> parts = divided(logits);
    HeadScore all;
    for (size_t i = 0; i < heads_.size(); ++i) {
      const std::string name = heads_[i].name();
      HeadScore one =
          heads_[i].rule().score(features, labels_of(labels, name), parts[i], with_metrics);
      if (with_metrics) all.metrics["loss/" + name] = metrics::mean(one.loss);
      all.metrics.merge(std::move(one.metrics));
      all.losses_of_heads.emplace(name, one.loss);
      const Tensor weighted = weights_.empty() ? one.loss : one.loss * weights_[i];
      all.loss = all.loss.defined() ? all.loss + weighted : weighted;
    }
    return all;
  }

  std::map<std::string, Tensor> predictions(const Logits& logits) const override {
    const std::vector<Tensor> parts = divided(logits);
    std::map<std::string, Tensor> all;
    for (size_t i = 0; i < heads_.size(); ++i) {
      for (auto& [key, tensor] : heads_[i].predictions(parts[i]))
        all.emplace(heads_[i].name() + "/" + key, std::move(tensor));
    }
    return all;
  }

  std::map<std::string, ExportOutput> export_outputs(const Logits& logits) const override {
    const std::vector<Tensor> parts = divided(logits);
    std::map<std::string, ExportOutput> all{{"predict", PredictOutput(predictions(logits))}};
    for (size_t i = 0; i < heads_.size(); ++i) {
      const std::string name = heads_[i].name();
      std::map<std::string, ExportOutput> outputs = heads_[i].export_outputs(parts[i]);
      if (outputs.empty())
        outputs.emplace(kServingDefault, PredictOutput(heads_[i].predictions(parts[i])));
      for (auto& [key, output] : outputs) {
        const bool usual = key == kServingDefault;
        if (usual && i == 0) all.emplace(kServingDefault, output);
        all.emplace(usual ? name : name + "/" + key, std::move(output));
      }
    }
    return all;
  }

 private:
  // Lists of labels come with their lengths.
  static Labels labels_of(const Labels& labels, const std::string& head) {
    const std::string lengths = head + data::kRowLengths;
    if (!labels.contains(lengths)) return Labels(labels.element().at(head));
    return Labels(Element::dict(
        {{head, labels.element().at(head)}, {lengths, labels.element().at(lengths)}}));
  }

  void check_labels(const Labels& labels) const {
    const std::string there = labels.defined() ? labels.element().describe() : "missing";
    check_all_there("labels", there,
                    [&](const std::string& name) { return labels.contains(name); });
  }

  // Throws InvalidArgument with the heads that have none.
  void check_all_there(const std::string& what, const std::string& there,
                       const std::function<bool(const std::string&)>& has) const {
    std::vector<std::string> missing;
    for (const Head& head : heads_)
      if (!has(head.name())) missing.push_back(head.name());
    if (missing.empty()) return;
    throw invalid_argument(
        fmt::format("{}: there are no {} for {}; the {} are {}", kMulti, what, join_quoted(missing),
                    what, there),
        fmt::format("{} are a dict with an entry for each head, by its name", what));
  }

  // Returns the logits of each head.
  std::vector<Tensor> divided(const Logits& logits) const {
    std::vector<Tensor> parts;
    if (logits.is_by_head()) {
      const auto& by_head = logits.by_head();
      check_all_there("logits", logits.describe(),
                      [&](const std::string& name) { return by_head.contains(name); });
      for (const Head& head : heads_) parts.push_back(by_head.at(head.name()));
      return parts;
    }
    const Tensor all = internal::checked_logits(kMulti, logits, logits_dimension());
    int64_t begin = 0;
    for (const Head& head : heads_) {
      parts.push_back(all.narrow(-1, begin, head.logits_dimension()));
      begin += head.logits_dimension();
    }
    return parts;
  }

  std::vector<Head> heads_;
  std::vector<double> weights_;
};

}  // namespace

Head MultiHead(MultiHeadOptions options) {
  return Head(std::make_shared<const MultiHeadRule>(std::move(options)));
}

}  // namespace muster::inline v0_1
