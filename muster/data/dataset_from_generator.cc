
#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/element_row.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class GeneratorReader final : public ElementReader {
 public:
  explicit GeneratorReader(Dataset::Generator next) : next_(std::move(next)) {}

  int64_t read(int64_t, Element* rows) override {
    const torch::NoGradGuard no_grad;
    std::optional<Element> element = next_();
    if (!element) return 0;
    *rows = data::internal::element_as_row(*element, "generator");
    return 1;
  }

 private:
  const Dataset::Generator next_;
};

class GeneratorSource final : public SequentialSource {
 public:
  explicit GeneratorSource(std::function<Dataset::Generator()> make) : make_(std::move(make)) {}

  std::string kind() const override { return "generator"; }
  std::unique_ptr<ElementReader> open() const override {
    Dataset::Generator next = make_();
    if (!next) throw invalid_argument("from_generator(): the function gave an empty generator");
    return std::make_unique<GeneratorReader>(std::move(next));
  }

 private:
  const std::function<Dataset::Generator()> make_;
};

}  // namespace

Dataset Dataset::from_generator(std::function<Generator()> make) {
  if (!make) throw invalid_argument("from_generator() got an empty function");
  return from_sequential(std::make_shared<const GeneratorSource>(std::move(make)));
}

}  // namespace muster::inline v0_1
