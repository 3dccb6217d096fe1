// TensorFlow's checkpoints. A program that links the library, muster::tensorflow, can open them
// wherever it names a checkpoint or a model_dir; include this header to read and write them
// directly.
#pragma once

#include "muster/bundles/export_bundle.h"
#include "muster/tensorflow/tensorflow_checkpoint.h"
