// Files of Keras: .h5, .weights.h5 and .keras. A program that links the library,
// muster::kerasfiles, opens them wherever it names a checkpoint, without a word; this is for
// reading them by hand.
#pragma once

#include "muster/kerasfiles/keras_checkpoint.h"
