// TensorFlow's checkpoints. A program that links the library, muster::tensorflow, opens them
// wherever it names a checkpoint or a model_dir, without a word; this is for reading and writing
// them by hand.
#pragma once

#include "muster/bundles/export_bundle.h"
#include "muster/tensorflow/tensorflow_checkpoint.h"
