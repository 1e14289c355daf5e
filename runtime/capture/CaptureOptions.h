//===- CaptureOptions.h - Values of modules that are read -------*- C++ -*-===//
//
// A capture point is the output of a module (plan::CapturePoint); codegen/plan/CapturePoints.h has its name,
// `transformer.h.3.attn`. A request may read the value, replace it by another one, or call a function that
// does, and end there.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_CAPTURE_CAPTUREOPTIONS_H
#define CLEAVE_RUNTIME_CAPTURE_CAPTUREOPTIONS_H

#include "runtime/base/TensorFile.h"
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Where a hook was called.
struct HookContext {
  /// The name of the capture point.
  const std::string &name;
  /// The value has the samples [firstSample, firstSample + samples) of the batch; 0 and 0 if the signature
  /// has no batch.
  int64_t firstSample, samples;
};

/// Gets the value of a capture point, whole over tensor-parallel ranks, and must not write to it. Returns
/// what takes its place, of the same dtype and shape, on any device; or an undefined tensor, which leaves it.
using HookFunction = std::function<at::Tensor(const at::Tensor &value, const HookContext &context)>;

struct Hook {
  /// Names of capture points, with `*` and `?`.
  std::string points;
  HookFunction function;
  /// False: called for each part of the batch (micro-batch of a data-parallel rank), by tensor-parallel rank
  /// 0 of the stage, in its thread (in its process, if there are several) and on its device. Calls of one
  /// request do not overlap. An exception fails the request.
  /// True: called once, by the thread that made the request, with the value of the whole batch. The request
  /// then runs once more for each such capture point, up to there, since every part has to wait for all.
  bool takesWholeBatch = false;
};

/// What a request reads and replaces.
struct CaptureOptions {
  /// Names of the capture points whose values are returned, with `*` and `?`.
  std::vector<std::string> points;
  /// By name: values of the whole batch that take the place of what the model computes.
  std::vector<NamedTensor> replacements;
  /// In the order in which they are called at a capture point, after a replacement there.
  std::vector<Hook> hooks;
  /// The name of a capture point; the request ends when it has the value. It has no outputs then, and leaves
  /// states as they were. Empty: it runs to its end.
  std::string stopAfter;
  /// Where captured values are put; nothing: on the device of the stage that makes them. With several
  /// processes they are in main memory.
  std::optional<c10::Device> device;
};

/// What a request has returned.
struct CapturedRequest {
  /// As Session::run gives them; empty if the request was to stop before its end.
  std::vector<at::Tensor> outputs;
  /// By name, in the order in which the request reached them, after hooks and replacements. Empty in
  /// processes that do not get the outputs.
  std::vector<NamedTensor> values;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CAPTURE_CAPTUREOPTIONS_H
