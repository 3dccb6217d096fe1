// tf.io.decode_image and tf.image: tools/peers/cases/images.py.
#include <stdexcept>
#include <string>

#include "muster/data/image.h"
#include "muster/data/image_ops.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/peer_case.h"
#include "tests/peers/peer_values.h"

namespace muster::inline v0_1 {
namespace {

Tensor decoded(const PeerCase& a_case) {
  const std::string dtype = a_case.program.at("dtype");
  return data::decode_image(
      bytes_of_hex(a_case.inputs.at("file").texts().at(0)),
      data::DecodeImageOptions{
          .channels = a_case.program.at("as"),
          .dtype = dtype == "uint8" ? kUInt8 : (dtype == "int32" ? kInt32 : kFloat32),
          .try_recover_truncated = a_case.program.value("recover", false)});
}

Tensor changed(const PeerCase& a_case) {
  const Tensor images = a_case.inputs.at("images").tensor();
  const std::string what = a_case.program.at("what");
  const auto [height, width] = a_case.program.at("to").get<std::pair<int64_t, int64_t>>();
  if (what == "crop") return data::center_crop(images, height, width);
  if (what == "flip") return data::flip_left_right(images);
  if (what == "float") return data::to_float(images);
  if (what != "resize") throw std::runtime_error("nothing is called " + what);
  const bool nearest = a_case.program.at("method") == "nearest";
  const Tensor image = data::resize(
      images, height, width,
      {.method = nearest ? data::ResizeMethod::kNearest : data::ResizeMethod::kBilinear,
       .antialias = a_case.program.at("antialias")});
  // Levels as fractions, so that one is a tolerance that a case can name.
  return nearest || image.is_floating_point() ? image : image.to(kFloat32) / 255;
}

PeerArrays run_images(const PeerCase& a_case) {
  const Tensor image = a_case.program.at("what") == "decode" ? decoded(a_case) : changed(a_case);
  return {{"image", PeerArray::of(image)}};
}

const PeerKind kImages("images", run_images);

}  // namespace
}  // namespace muster::inline v0_1
