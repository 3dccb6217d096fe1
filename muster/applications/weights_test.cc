#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include "muster/applications/efficientnet.h"
#include "muster/applications/gpt.h"
#include "muster/applications/internal/test_store.h"
#include "muster/applications/mobilenet.h"
#include "muster/applications/resnet.h"
#include "muster/applications/vgg.h"
#include "muster/applications/vision_transformer.h"
#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::applications {
namespace {

using ::testing::HasSubstr;
using testing::ModelRun;
using testing::write_tensors;

// Writes models with random weights and statistics, inputs, and the logits PyTorch computes.
constexpr const char* kPeer = R"py(
import json, struct, sys
try:
    import torch, torchvision
except ImportError:
    sys.exit(77)

def save(name, tensors):
    names = {torch.float32: 'F32', torch.int64: 'I64', torch.uint8: 'U8'}
    header, data, size = {}, [], 0
    for key, tensor in tensors.items():
        data.append(tensor.detach().contiguous().numpy())
        header[key] = {'dtype': names[tensor.dtype], 'shape': list(tensor.shape),
                       'data_offsets': [size, size + data[-1].nbytes]}
        size += data[-1].nbytes
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(sys.argv[1] + '/' + name + '.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for array in data:
            file.write(array.tobytes())

torch.manual_seed(1)
torch.set_num_threads(1)

def randomize(model):
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.1)
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model.eval()

found = {}
def answer(name, model, size):
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        found[name + '/logits'] = model(images)
    found[name + '/input'] = images.permute(0, 2, 3, 1)
    save(name, model.state_dict())

models = torchvision.models
resnet18 = randomize(models.resnet18(num_classes=10))
answer('resnet18', resnet18, 64)
answer('resnet50', randomize(models.resnet50(num_classes=10)), 65)
answer('mobilenet_v2', randomize(models.mobilenet_v2(num_classes=10)), 64)
answer('efficientnet_b0', randomize(models.efficientnet_b0(num_classes=10)), 64)

class Vgg(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = models.vgg.make_layers(models.vgg.cfgs['D'])
        self.classifier = torch.nn.Sequential(
            torch.nn.Linear(512 * 2 * 3, 24), torch.nn.ReLU(), torch.nn.Dropout(),
            torch.nn.Linear(24, 24), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(24, 10))
    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))

vgg = Vgg().eval()
for parameter in vgg.features.parameters():
    if parameter.dim() == 4:
        torch.nn.init.kaiming_normal_(parameter)
images = torch.randn(1, 3, 64, 96)
with torch.no_grad():
    found['vgg16/logits'] = vgg(images)
found['vgg16/input'] = images.permute(0, 2, 3, 1)
save('vgg16', vgg.state_dict())

vit = models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4,
                               hidden_dim=32, mlp_dim=48, num_classes=10).eval()
for name, parameter in vit.named_parameters():
    parameter.data.normal_(0, 0.2)
answer('vit', vit, 32)

# The same under other names.
def renamed(state, pairs):
    result = {}
    for key, tensor in state.items():
        for old, new in pairs:
            key = key.replace(old, new)
        result[key] = tensor
    return result

old = renamed(vit.state_dict(), [('mlp.0', 'mlp.linear_1'), ('mlp.3', 'mlp.linear_2')])
save('vit_old', old)
face = {}
for key, tensor in vit.state_dict().items():
    if 'in_proj' in key:
        kind = key.split('_')[-1]
        block = key.split('.')[2].split('_')[-1]
        for part, piece in zip(['query', 'key', 'value'], tensor.chunk(3)):
            face['vit.encoder.layer.%s.attention.attention.%s.%s' % (block, part, kind)] = piece
    else:
        face.update(renamed({key: tensor}, [
            ('class_token', 'vit.embeddings.cls_token'),
            ('conv_proj', 'vit.embeddings.patch_embeddings.projection'),
            ('encoder.pos_embedding', 'vit.embeddings.position_embeddings'),
            ('encoder.layers.encoder_layer_', 'vit.encoder.layer.'),
            ('encoder.ln', 'vit.layernorm'), ('ln_1', 'layernorm_before'),
            ('ln_2', 'layernorm_after'), ('self_attention.out_proj', 'attention.output.dense'),
            ('mlp.0', 'intermediate.dense'), ('mlp.3', 'output.dense'),
            ('heads.head', 'classifier')]))
face['vit.pooler.dense.weight'] = torch.zeros(32, 32)
save('vit_face', face)
face = {}
for key, tensor in resnet18.state_dict().items():
    words = key.split('.')
    if words[0] == 'conv1':
        key = 'resnet.embedder.embedder.convolution.weight'
    elif words[0] == 'bn1':
        key = 'resnet.embedder.embedder.normalization.' + words[1]
    elif words[0] == 'fc':
        key = 'classifier.1.' + words[1]
    else:
        block = 'resnet.encoder.stages.%d.layers.%s.' % (int(words[0][5:]) - 1, words[1])
        if words[2] == 'downsample':
            kind = ['convolution', 'normalization'][int(words[3])]
            key = block + 'shortcut.%s.%s' % (kind, words[4])
        else:
            kind = 'convolution' if words[2][:4] == 'conv' else 'normalization'
            key = block + 'layer.%d.%s.%s' % (int(words[2][-1]) - 1, kind, words[3])
    face[key] = tensor
save('resnet18_face', face)

# GPT-2's forward, with its Conv1D, whose weights are [in, out].
V, C, L, H, W = 50, 16, 2, 4, 32
state = {'wte.weight': torch.randn(V, W) * 0.3, 'wpe.weight': torch.randn(C, W) * 0.3}
def linear(name, into, out):
    state[name + '.weight'] = torch.randn(into, out) * 0.2
    state[name + '.bias'] = torch.randn(out) * 0.2
def norm(name):
    state[name + '.weight'] = torch.rand(W) + 0.5
    state[name + '.bias'] = torch.randn(W) * 0.2
for i in range(L):
    norm('h.%d.ln_1' % i)
    linear('h.%d.attn.c_attn' % i, W, 3 * W)
    linear('h.%d.attn.c_proj' % i, W, W)
    norm('h.%d.ln_2' % i)
    linear('h.%d.mlp.c_fc' % i, W, 4 * W)
    linear('h.%d.mlp.c_proj' % i, 4 * W, W)
norm('ln_f')
def product(name, x):
    return x @ state[name + '.weight'] + state[name + '.bias']
def normed(name, x):
    return torch.nn.functional.layer_norm(x, (W,), state[name + '.weight'], state[name + '.bias'])
tokens = torch.randint(0, V, (2, 11))
x = state['wte.weight'][tokens] + state['wpe.weight'][:11]
for i in range(L):
    y = product('h.%d.attn.c_attn' % i, normed('h.%d.ln_1' % i, x))
    q, k, v = [part.view(2, 11, H, W // H).transpose(1, 2) for part in y.split(W, dim=2)]
    scores = q @ k.transpose(2, 3) / (W // H) ** 0.5
    scores = scores.masked_fill(torch.ones(11, 11).triu(1).bool(), float('-inf'))
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(2, 11, W)
    x = x + product('h.%d.attn.c_proj' % i, y)
    y = product('h.%d.mlp.c_fc' % i, normed('h.%d.ln_2' % i, x))
    x = x + product('h.%d.mlp.c_proj' % i, torch.nn.functional.gelu(y, approximate='tanh'))
found['gpt/logits'] = normed('ln_f', x) @ state['wte.weight'].t()
found['gpt/input'] = tokens
extra = {'h.0.attn.bias': torch.ones(1, 1, C, C, dtype=torch.uint8)}
save('gpt', {**state, **extra})
whole = {'transformer.' + key: tensor for key, tensor in {**state, **extra}.items()}
save('gpt_whole', {**whole, 'lm_head.weight': state['wte.weight']})
save('gpt_untied', {**whole, 'lm_head.weight': state['wte.weight'] + 1})
save('found', found)
)py";

class PeerFiles : public ::testing::Test {
 protected:
  // One process writes all: it takes seconds to load PyTorch.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempDirectory>();
    const std::string script = *folder_ / "peer.py";
    std::ofstream(script) << kPeer;
    const int status =
        std::system(fmt::format("/usr/bin/python3 {} {}", script, folder_->path()).c_str());
    // The exit codes of the script, if it cannot import its modules; and of the shell, without a
    // Python.
    if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) return folder_.reset();
    ASSERT_EQ(status, 0);
    found_ = std::make_unique<formats::SafetensorsReader>(
        formats::SafetensorsReader::open(local_file_system(), file("found")).value());
  }
  static void TearDownTestSuite() {
    found_.reset();
    folder_.reset();
  }
  void SetUp() override {
    if (folder_ == nullptr)
      GTEST_SKIP() << "needs PyTorch: install python3-torch and python3-torchvision";
  }

  static std::string file(const std::string& name) { return *folder_ / (name + ".safetensors"); }
  static Tensor found(const std::string& name) {
    const formats::TensorEntry& entry = *found_->find(name);
    Tensor tensor = at::empty(entry.shape, entry.dtype == "F32" ? kFloat32 : kInt64);
    found_->read(entry, {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()}).value();
    return tensor;
  }
  static void expect_logits(const Functional& model, const std::string& name) {
    ModelRun run(model);
    const Tensor logits = run(found(name + "/input")), expected = found(name + "/logits");
    ASSERT_EQ(logits.sizes(), expected.sizes());
    const double largest = expected.abs().max().item<double>();
    EXPECT_GT(largest, 0.01);
    EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-4 * std::max(1.0, largest))
        << name << ", " << largest;
  }

  static inline std::unique_ptr<TempDirectory> folder_;
  static inline std::unique_ptr<formats::SafetensorsReader> found_;
};

ResNetOptions resnet_options(int64_t size, const std::string& weights) {
  return {.input_shape = {size, size, 3},
          .classes = 10,
          .classifier_activation = Activation::kLinear,
          .weights = weights,
          .torchvision = true};
}

TEST_F(PeerFiles, ResNet) {
  expect_logits(ResNet18(resnet_options(64, file("resnet18"))), "resnet18");
  expect_logits(ResNet18(resnet_options(64, file("resnet18_face"))), "resnet18");
  expect_logits(ResNet50(resnet_options(65, file("resnet50"))), "resnet50");
}

TEST_F(PeerFiles, MobileNetV2) {
  expect_logits(MobileNetV2({.input_shape = {64, 64, 3},
                             .classes = 10,
                             .classifier_activation = Activation::kLinear,
                             .weights = file("mobilenet_v2"),
                             .torchvision = true}),
                "mobilenet_v2");
}

TEST_F(PeerFiles, EfficientNetB0) {
  expect_logits(EfficientNetB0({.input_shape = {64, 64, 3},
                                .classes = 10,
                                .classifier_activation = Activation::kLinear,
                                .weights = file("efficientnet_b0"),
                                .torchvision = true}),
                "efficientnet_b0");
}

TEST_F(PeerFiles, VGG16) {
  expect_logits(VGG16({.input_shape = {64, 96, 3},
                       .classes = 10,
                       .classifier_activation = Activation::kLinear,
                       .units = 24,
                       .weights = file("vgg16"),
                       .torchvision = true}),
                "vgg16");
}

TEST_F(PeerFiles, VisionTransformer) {
  for (const char* name : {"vit", "vit_old", "vit_face"}) {
    expect_logits(VisionTransformer({.input_shape = {32, 32, 3},
                                     .patch_size = 8,
                                     .layers = 2,
                                     .heads = 4,
                                     .width = 32,
                                     .mlp_width = 48,
                                     .classes = 10,
                                     .classifier_activation = Activation::kLinear,
                                     .weights = file(name)}),
                  "vit");
  }
}

TEST_F(PeerFiles, GPT) {
  GPTOptions options{.vocabulary_size = 50, .context = 16, .layers = 2, .heads = 4, .width = 32};
  for (const char* name : {"gpt", "gpt_whole"}) {
    options.weights = file(name);
    expect_logits(GPT(options), "gpt");
  }
  options.weights = file("gpt_untied");
  EXPECT_THAT(message_of([&] { GPT(options); }),
              HasSubstr("has transformer.wte.weight and lm_head.weight, which differ"));
}

TEST_F(PeerFiles, LeaveTheHeadAway) {
  ResNetOptions options = resnet_options(64, file("resnet18"));
  options.include_top = false;
  options.pooling = "avg";
  ModelRun run(ResNet18(options));
  EXPECT_EQ(run(found("resnet18/input")).sizes(), (Shape{2, 512}));
}

TEST_F(PeerFiles, SayWhichHeadTheyHave) {
  ResNetOptions options = resnet_options(64, file("resnet18"));
  options.classes = 1000;
  const Error error = error_of([&] { ResNet18(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(),
            fmt::format("ResNet18: the head of '{}' (fc.weight [10, 512]) has 10 classes, and "
                        "classes is 1000",
                        file("resnet18")));
  EXPECT_THAT(error.hint(), HasSubstr(".classes = 10"));
  EXPECT_THAT(error.hint(), HasSubstr(".include_top = false"));
}

TEST_F(PeerFiles, AreRefusedByKerassStructure) {
  ResNetOptions options = resnet_options(64, file("resnet50"));
  options.torchvision = false;
  const Error error = error_of([&] { ResNet50(options); });
  EXPECT_EQ(error.message(),
            fmt::format("ResNet50: the weights '{}' have torchvision's names, and torchvision is "
                        "false",
                        file("resnet50")));
  EXPECT_THAT(error.hint(), HasSubstr(".torchvision = true"));
}

// ---- files of our own names ----

GPTOptions tiny(const std::string& weights = {}) {
  return {
      .vocabulary_size = 20, .context = 8, .layers = 1, .heads = 2, .width = 8, .weights = weights};
}

using Tensors = std::vector<std::pair<std::string, Tensor>>;

// The variables of a model with other values than it begins with.
Tensors own_tensors(const std::string& scope) {
  ModelRun run(GPT(tiny()));
  run(torch::zeros({1, 1}, at::kLong));
  Tensors tensors;
  for (const auto& variable : run.store.variables())
    tensors.emplace_back(scope + variable->name(), variable->value().detach() + 0.25);
  return tensors;
}

TEST(Weights, AreTakenFromAnOwnCheckpoint) {
  const TempDirectory folder;
  const std::string path = folder / "own.safetensors";
  Tensors tensors = own_tensors("net/");
  const Tensors expected = tensors;
  for (const auto& [name, tensor] : expected)
    tensors.emplace_back("sgd/momentum/" + name, tensor * 0);
  tensors.emplace_back("global_step", torch::tensor(3, at::kLong));
  tensors.emplace_back("head/kernel", torch::zeros({2, 2}));
  write_tensors(path, tensors);
  ModelRun run(GPT(tiny(path)));
  run(torch::zeros({1, 1}, at::kLong));
  ASSERT_EQ(run.store.variables().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(torch::equal(run.store.variables()[i]->value(), expected[i].second))
        << expected[i].first;
  }
}

TEST(Weights, TrainEachForItself) {
  const TempDirectory folder;
  const std::string path = folder / "own.safetensors";
  write_tensors(path, own_tensors(""));
  const Functional model = GPT(tiny(path));
  testing::Training first(model), second(model);
  const Tensor tokens = torch::arange(8).view({1, 8});
  const double before = first.step(tokens, tokens, 0.02);
  EXPECT_LT(first.step(tokens, tokens, 0.02), before);
  // A second context begins with the file's weights again.
  EXPECT_EQ(second.step(tokens, tokens, 0.02), before);
}

TEST(Weights, TellAllThatDoesNotFit) {
  const TempDirectory folder;
  const std::string path = folder / "own.safetensors";
  Tensors tensors = own_tensors("");
  for (auto& [name, tensor] : tensors) {
    if (name == "norm/gamma") name = "norm/gama";
    if (name == "position_embedding/embeddings") tensor = torch::zeros({9, 8});
  }
  write_tensors(path, tensors);
  const Error error = error_of([&] { GPT(tiny(path)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(),
            fmt::format("GPT: the weights '{}' (Keras's names) do not fit: 1 missing, 1 unused, 1 "
                        "of another shape or dtype\n"
                        "missing: norm/gamma, for norm/gamma float32[8]; the nearest name is "
                        "norm/gama\n"
                        "unused: norm/gama [8]; the nearest name is norm/gamma\n"
                        "of another shape: position_embedding/embeddings is [9, 8]; "
                        "position_embedding/embeddings is [8, 8]",
                        path));
}

TEST(Weights, AreNotFound) {
  const TempDirectory folder;
  const std::string path = folder / "own.safetensors";
  EXPECT_EQ(error_of([&] { GPT(tiny(path)); }).kind(), ErrorKind::kNotFound);
  write_tensors(path, {{"a", torch::zeros({1})}, {"b.weight", torch::zeros({1})}});
  const Error error = error_of([&] { GPT(tiny(path)); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error.message(), fmt::format("GPT: '{}' has no tensor of a name that it knows; it has "
                                         "'a', 'b.weight'",
                                         path));
  EXPECT_THAT(error.hint(), HasSubstr("'wte.weight' (Hugging Face)"));
  std::ofstream(path) << "no weights";
  EXPECT_EQ(error_of([&] { GPT(tiny(path)); }).kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1::applications
