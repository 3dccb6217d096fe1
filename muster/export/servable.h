// A model that Estimator::export_model() wrote, ready to answer. It needs neither the model
// function nor the Estimator.
//
//   Servable model("export/1732400000");
//   auto outputs = model.run("serving_default", {{"x", x}});  // {"logits": …}
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/export/signature.h"
#include "muster/tensor/element.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1 {

// A loaded model. It stays as it was loaded, whatever becomes of its folder.
// Thread safety: all members may be called from several threads at once. A computation uses the
// threads that muster/tensor/threads.h gives the thread that calls.
class MUSTER_EXPORT Servable {
 public:
  // Inputs or outputs by name.
  using Tensors = std::map<std::string, Tensor>;

  // Loads a version's folder, from the local file system unless another is given, and runs the
  // model once. Throws NotFound where it holds no exported model, Corrupt where a byte of one of
  // its files is another one than was written (which is not known of what Muster 0.1 wrote first;
  // the log says so), and InvalidArgument where a newer Muster wrote it.
  explicit Servable(const std::string& directory, FileSystem* files = nullptr);
  ~Servable();
  Servable(Servable&&) noexcept;
  Servable& operator=(Servable&&) noexcept;

  // All signatures by name; kServingDefault is always among them.
  const std::map<std::string, Signature>& signatures() const;
  // Throws InvalidArgument, listing those there are, for a name that is none.
  const Signature& signature(const std::string& name) const;

  // Answers one batch, of 0 rows or more. `inputs` holds exactly the inputs of the signature, on
  // the CPU; the outputs' axis 0 is that of the inputs, unless their shape says otherwise. Throws
  // InvalidArgument for an unknown signature, an input that is missing, unknown, or of another
  // dtype or shape than the signature says, and inputs whose numbers of rows differ.
  Tensors run(const std::string& signature, const Tensors& inputs) const;
  // Gives the ids, int64 in the shape of the texts, that run() takes for an input of texts: those
  // of its words, and that of the unknown for others. Throws InvalidArgument for an input that
  // takes no texts, listing those that do.
  Tensor text_ids(const std::string& input, const Strings& texts) const;
  // As run(), for a batch of the features that the signature lists, as a dict: texts and numbers
  // that feature columns read in front of the model. Where it lists none, they are the inputs.
  // Throws what run() throws, and InvalidArgument naming the feature or the column for one that is
  // missing, unknown, of another kind or shape, or has more values of an example than the model
  // takes.
  Tensors run_features(const std::string& signature, const Element& features) const;
  // As run(), for serialized tf.Examples, one for each row. Throws what run() throws;
  // InvalidArgument for a signature that takes none, and naming the example for one that lacks a
  // feature without default or has one of another kind or size; Corrupt for one that is damaged.
  Tensors run_examples(const std::string& signature,
                       const std::vector<std::string>& examples) const;

  // The folder it was loaded from.
  const std::string& directory() const;
  // The folder's name as a number; nothing where it is none.
  std::optional<int64_t> version() const;
  // The training step of its weights.
  int64_t global_step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The versions in a folder of exported models: the names of its folders that are decimal numbers
// ("1732400000", not "007" or "temp-1"), in rising order. Empty where there is no such folder. In a
// store, where folders are not made in one step, only those that are whole: their signatures.json,
// which is written last, is there.
// Throws what reading a directory throws.
MUSTER_EXPORT std::vector<int64_t> model_versions(const std::string& directory,
                                                  FileSystem* files = nullptr);
// The greatest of them; nothing where there is none. Its folder is
// join_path(directory, std::to_string(version)).
MUSTER_EXPORT std::optional<int64_t> newest_version(const std::string& directory,
                                                    FileSystem* files = nullptr);

}  // namespace muster::inline v0_1
