#include "apps/model/model_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/data/npy.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

// Axes of -1 are the batch, and lengths that requests choose; 0: the least that the model takes.
constexpr int64_t kLengths[] = {7, 33, 129, 0};

Tensor random_rows(const std::string& name, const TensorInfo& info, const Shape& shape,
                   uint64_t seed) {
  Random random(derive_key(seed, {id_of(name)}));
  Tensor values = torch::empty(shape, at::kDouble);
  const bool floats = at::isFloatingType(info.dtype);
  for (int64_t i = 0; i < values.numel(); ++i)
    values.data_ptr<double>()[i] =
        floats ? random.uniform() : static_cast<double>(random.uniform_below(2));
  return values.to(info.dtype);
}

Servable::Tensors batch_of_length(const Servable& model, const std::string& signature,
                                  const RandomBatch& wanted, int64_t length) {
  Servable::Tensors batch;
  for (const auto& [name, info] : model.signature(signature).inputs) {
    Shape shape = model.smallest_batch(signature, name);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (info.shape[axis] >= 0) continue;
      if (axis == 0) {
        shape[axis] = wanted.rows;
      } else if (length > 0) {
        shape[axis] = std::max(shape[axis], length);
      }
    }
    batch[name] = random_rows(name, info, shape, wanted.seed);
  }
  return batch;
}

}  // namespace

Servable::Tensors random_batch(const std::vector<const Servable*>& models,
                               const std::string& signature, const RandomBatch& wanted) {
  std::optional<Error> failed;
  for (const int64_t length : kLengths) {
    try {
      Servable::Tensors batch = batch_of_length(*models.front(), signature, wanted, length);
      for (const Servable* model : models) (void)model->run(signature, batch);
      return batch;
    } catch (const Error& error) {
      failed = error;
    }
  }
  throw *failed;
}

Servable::Tensors read_batch(FileSystem& files, const std::string& path) {
  Servable::Tensors batch;
  if (path.ends_with(".safetensors")) {
    const auto reader = open_checkpoint(files, path);
    for (const auto& [name, spec] : reader->specs()) {
      if (name != kGlobalStep) batch[name] = reader->read(name);
    }
    return batch;
  }
  if (!path.ends_with(".npz")) {
    throw invalid_argument("not supported: inputs of a model in " + path,
                           "save the arrays under the names of the inputs as .npz "
                           "(numpy.savez) or .safetensors");
  }
  const Element arrays = data::load_npz(path);
  for (const std::string& name : arrays.structure().keys) {
    const Value& value = arrays.at(name).value();
    if (!value.is_tensor())
      throw invalid_argument(
          fmt::format("not supported: the array \"{}\" of {} has texts", name, path),
          "a model takes numbers");
    batch[name] = value.tensor();
  }
  return batch;
}

}  // namespace muster::app
