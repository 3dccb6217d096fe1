// Tables that Keras 2.9 prints for these models.
#include <gtest/gtest.h>

#include <sstream>

#include "muster/base/error_of.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/merge.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"

namespace muster::inline v0_1 {
namespace {

// Keras fills lines with blanks up to the width of the table, or beyond where a name is long.
std::string without_blanks(const std::string& table, size_t width) {
  std::istringstream lines(table);
  std::string line, result;
  while (std::getline(lines, line)) {
    const bool filled = line.find(':') != std::string::npos || line.size() >= width;
    EXPECT_TRUE(filled) << line;
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

TEST(Summary, OfASequentialIsThatOfKeras) {
  const auto relu = activations::relu;
  const Layer model = Sequential({Conv2D(32, 3, {.activation = relu}), MaxPooling2D(),
                                  Conv2D(64, 3, {.activation = relu}), MaxPooling2D(),
                                  Conv2D(64, 3, {.activation = relu}), Flatten(),
                                  Dense(64, {.activation = relu}), Dense(10)});
  EXPECT_EQ("\n" + without_blanks(model.summary({Input({32, 32, 3})}), 65), R"(
Model: "sequential"
_________________________________________________________________
 Layer (type)                Output Shape              Param #
=================================================================
 conv2d (Conv2D)             (None, 30, 30, 32)        896

 max_pooling2d (MaxPooling2D  (None, 15, 15, 32)       0
 )

 conv2d_1 (Conv2D)           (None, 13, 13, 64)        18496

 max_pooling2d_1 (MaxPooling  (None, 6, 6, 64)         0
 2D)

 conv2d_2 (Conv2D)           (None, 4, 4, 64)          36928

 flatten (Flatten)           (None, 1024)              0

 dense (Dense)               (None, 64)                65600

 dense_1 (Dense)             (None, 10)                650

=================================================================
Total params: 122,570
Trainable params: 122,570
Non-trainable params: 0
_________________________________________________________________
)");
}

TEST(Summary, OfAChainHasItsInputAndNoConnections) {
  const SymbolicTensor x = Input({784}, {.name = "pixels"});
  const SymbolicTensor hidden = BatchNormalization()(Dense(64, {.use_bias = false})(x));
  const Functional model({x}, {Dense(10, {.name = "logits"})(hidden)}, "digits");
  EXPECT_EQ("\n" + without_blanks(model.summary(), 65), R"(
Model: "digits"
_________________________________________________________________
 Layer (type)                Output Shape              Param #
=================================================================
 pixels (InputLayer)         [(None, 784)]             0

 dense (Dense)               (None, 64)                50176

 batch_normalization (BatchN  (None, 64)               256
 ormalization)

 logits (Dense)              (None, 10)                650

=================================================================
Total params: 51,082
Trainable params: 50,954
Non-trainable params: 128
_________________________________________________________________
)");
}

// The small residual net of Keras's guide to the functional form.
TEST(Summary, OfAGraphTellsWhatIsConnected) {
  const auto relu = activations::relu;
  const auto conv = [&](const SymbolicTensor& input) {
    return Conv2D(64, 3, {.padding = Padding::kSame, .activation = relu})(input);
  };
  const SymbolicTensor image = Input({32, 32, 3}, {.name = "img"});
  const SymbolicTensor first = MaxPooling2D({.pool_size = 3})(
      Conv2D(64, 3, {.activation = relu})(Conv2D(32, 3, {.activation = relu})(image)));
  const SymbolicTensor second = Add()({conv(conv(first)), first});
  const SymbolicTensor third = Add()({conv(conv(second)), second});
  const SymbolicTensor seen = GlobalAveragePooling2D()(Conv2D(64, 3, {.activation = relu})(third));
  const SymbolicTensor dropped = Dropout(0.5)(Dense(256, {.activation = relu})(seen));
  const Functional model({image}, {Dense(10)(dropped)}, "toy_resnet");
  EXPECT_EQ(model.count_params(), 223242);
  EXPECT_EQ("\n" + without_blanks(model.summary(), 98), R"(
Model: "toy_resnet"
__________________________________________________________________________________________________
 Layer (type)                   Output Shape         Param #     Connected to
==================================================================================================
 img (InputLayer)               [(None, 32, 32, 3)]  0           []

 conv2d (Conv2D)                (None, 30, 30, 32)   896         ['img[0][0]']

 conv2d_1 (Conv2D)              (None, 28, 28, 64)   18496       ['conv2d[0][0]']

 max_pooling2d (MaxPooling2D)   (None, 9, 9, 64)     0           ['conv2d_1[0][0]']

 conv2d_2 (Conv2D)              (None, 9, 9, 64)     36928       ['max_pooling2d[0][0]']

 conv2d_3 (Conv2D)              (None, 9, 9, 64)     36928       ['conv2d_2[0][0]']

 add (Add)                      (None, 9, 9, 64)     0           ['conv2d_3[0][0]',
                                                                  'max_pooling2d[0][0]']

 conv2d_4 (Conv2D)              (None, 9, 9, 64)     36928       ['add[0][0]']

 conv2d_5 (Conv2D)              (None, 9, 9, 64)     36928       ['conv2d_4[0][0]']

 add_1 (Add)                    (None, 9, 9, 64)     0           ['conv2d_5[0][0]',
                                                                  'add[0][0]']

 conv2d_6 (Conv2D)              (None, 7, 7, 64)     36928       ['add_1[0][0]']

 global_average_pooling2d (Glob  (None, 64)          0           ['conv2d_6[0][0]']
 alAveragePooling2D)

 dense (Dense)                  (None, 256)          16640       ['global_average_pooling2d[0][0]'
                                                                 ]

 dropout (Dropout)              (None, 256)          0           ['dense[0][0]']

 dense_1 (Dense)                (None, 10)           2570        ['dropout[0][0]']

==================================================================================================
Total params: 223,242
Trainable params: 223,242
Non-trainable params: 0
__________________________________________________________________________________________________
)");
}

// Inputs come directly before the layers that use them; a shared layer has a row for all of its
// calls.
TEST(Summary, OrdersLayersAsKerasDoes) {
  const SymbolicTensor left = Input({6}), right = Input({6});
  const SymbolicTensor ids = Input({}, {.dtype = kInt64, .name = "id"});
  const Layer shared = Dense(4, {.name = "tower"});
  const SymbolicTensor both = Concatenate()({shared(left), shared(right), Embedding(9, 2)(ids)});
  const Functional model({left, right, ids}, {Dense(1)(both), Dense(3)(both)});
  EXPECT_EQ("\n" + without_blanks(model.summary(), 98), R"(
Model: "model"
__________________________________________________________________________________________________
 Layer (type)                   Output Shape         Param #     Connected to
==================================================================================================
 input_1 (InputLayer)           [(None, 6)]          0           []

 input_2 (InputLayer)           [(None, 6)]          0           []

 id (InputLayer)                [(None,)]            0           []

 tower (Dense)                  (None, 4)            28          ['input_1[0][0]',
                                                                  'input_2[0][0]']

 embedding (Embedding)          (None, 2)            18          ['id[0][0]']

 concatenate (Concatenate)      (None, 10)           0           ['tower[0][0]',
                                                                  'tower[1][0]',
                                                                  'embedding[0][0]']

 dense (Dense)                  (None, 1)            11          ['concatenate[0][0]']

 dense_1 (Dense)                (None, 3)            33          ['concatenate[0][0]']

==================================================================================================
Total params: 90
Trainable params: 90
Non-trainable params: 0
__________________________________________________________________________________________________
)");
}

TEST(Summary, ShowsAModelInsideAsOneRowAndCountsSharedWeightsOnce) {
  const SymbolicTensor x = Input({3});
  const Layer dense = Dense(3);
  const Functional inner({x}, {dense(x), Dense(2)(x)}, "inner");
  const SymbolicTensor y = Input({3});
  const SymbolicValues both = inner(SymbolicValues{.tensors = {dense(y)}});
  const Functional model({y}, both.tensors);
  const std::string table = without_blanks(model.summary(), 65);
  EXPECT_NE(table.find(" dense (Dense)               (None, 3)                 12\n"),
            std::string::npos);
  EXPECT_NE(table.find(" inner (Functional)          [(None, 3),               20\n"
                       "                              (None, 2)]\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("Total params: 20\n"), std::string::npos);
}

TEST(Summary, SaysWhatIsMissing) {
  const SymbolicTensor x = Input({3});
  const Functional model({x}, {Dense(1)(x)});
  EXPECT_EQ(message_of([&] { Dense(1).summary(); }),
            "summary: inputs is empty, for the layer dense");
  EXPECT_EQ(message_of([&] { model.summary({x}); }),
            "summary: 1 inputs were given for the Functional model");
  EXPECT_EQ(message_of([&] { Dense(1).summary({Dense(2)(x)}); }),
            "summary: the input float32[None, 2] is what a layer (dense) gives");
}

}  // namespace
}  // namespace muster::inline v0_1
