// Layers that change images at random: tools/peers/cases/augmentation.py.
#include <stdexcept>
#include <string>

#include "muster/keras/model.h"
#include "muster/layers/sequential.h"
#include "muster/preprocessing/image_augmentation.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

constexpr int64_t kDraws = 4000;

RandomFactor factor_of(const Json& given) {
  if (given.is_array()) return {given.at(0).get<double>(), given.at(1).get<double>()};
  return given.get<double>();
}

template <typename Options>
Options with_fill(const Json& given) {
  Options options;
  const std::string mode = given.value("fill_mode", "reflect");
  options.fill_mode = mode == "constant"  ? FillMode::kConstant
                      : mode == "wrap"    ? FillMode::kWrap
                      : mode == "nearest" ? FillMode::kNearest
                                          : FillMode::kReflect;
  if (given.value("interpolation", "bilinear") == "nearest")
    options.interpolation = Interpolation::kNearest;
  take(given, "fill_value", options.fill_value);
  return options;
}

ImageAugmentation augmentation_of(const std::string& name, const Json& given) {
  if (name == "RandomFlip") {
    const std::string mode = given.at("mode");
    return RandomFlip(mode == "horizontal" ? FlipMode::kHorizontal
                      : mode == "vertical" ? FlipMode::kVertical
                                           : FlipMode::kHorizontalAndVertical);
  }
  if (name == "RandomRotation")
    return RandomRotation(factor_of(given.at("factor")), with_fill<RandomRotationOptions>(given));
  if (name == "RandomZoom") {
    auto options = with_fill<RandomZoomOptions>(given);
    if (given.contains("width_factor")) options.width_factor = factor_of(given.at("width_factor"));
    return RandomZoom(factor_of(given.at("height_factor")), options);
  }
  if (name == "RandomTranslation") {
    return RandomTranslation(factor_of(given.at("height_factor")),
                             factor_of(given.at("width_factor")),
                             with_fill<RandomTranslationOptions>(given));
  }
  if (name == "RandomCrop") return RandomCrop(given.at("height"), given.at("width"));
  if (name == "RandomContrast") {
    const Json& factor = given.at("factor");
    return factor.is_array()
               ? RandomContrast(factor.at(0).get<double>(), factor.at(1).get<double>())
               : RandomContrast(factor.get<double>());
  }
  if (name != "RandomBrightness") throw std::runtime_error("no augmentation is called " + name);
  RandomBrightnessOptions options;
  if (given.contains("value_range")) options.value_range = factor_of(given.at("value_range"));
  return RandomBrightness(factor_of(given.at("factor")), options);
}

PeerArrays run_augmentation(const PeerCase& a_case) {
  const Json& program = a_case.program;
  const Tensor image = a_case.inputs.at("image").tensor().unsqueeze(0);
  const ImageAugmentation augment = augmentation_of(program.at("layer"), program.at("options"));
  const Tensor many = augment(image.repeat({kDraws, 1, 1, 1}), RandomKey{1}).to(kFloat64);
  keras::Model model(Sequential({Layer(augment)}), {.environment = Environment()});
  return {{"inference", PeerArray::of(model.predict(image))},
          {"mean", PeerArray::of(many.mean(0))},
          {"square", PeerArray::of(many.square().mean(0))},
          {"least", PeerArray::of(many.amin(0))},
          {"most", PeerArray::of(many.amax(0))}};
}

const PeerKind kAugmentation("augmentation", run_augmentation);

}  // namespace
}  // namespace muster::inline v0_1
