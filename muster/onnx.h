// ONNX files, and SavedModels of TensorFlow. A program that links the library, muster::onnx, may
// export in these formats wherever it exports a model: ExportModelOptions::formats; and Servable
// and Predictor load ONNX files and SavedModels. Include this header to convert an export directly,
// and to use such a model as a layer.
#pragma once

#include "muster/imports/onnx_import.h"
#include "muster/imports/saved_model_import.h"
#include "muster/onnx/onnx_model.h"
#include "muster/savedmodel/saved_model.h"
