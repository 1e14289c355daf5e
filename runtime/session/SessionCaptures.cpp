//===- SessionCaptures.cpp - Requests that read and edit values -----------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/CapturePoints.h"
#include "codegen/plan/PlanQueries.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/Values.h"
#include "runtime/exchange/Inputs.h"
#include "runtime/session/SessionImpl.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/Functions.h>
#include <map>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;
using plan::NamedCapturePoint;

namespace {
/// A hook at one capture point.
struct Edit {
  NamedCapturePoint point;
  /// Position of the point among those of the signature.
  size_t place;
  const Hook *hook;
};

/// The options of a captured request, resolved.
struct CaptureSteps {
  std::vector<NamedCapturePoint> captured;
  /// In the order in which they are called; none behind the point at which the request stops.
  std::vector<Edit> edits;
  std::map<uint32_t, at::Tensor> replacements;
  std::optional<NamedCapturePoint> stopAfter;
};
} // namespace

static Expected<CaptureSteps> resolve(const plan::Plan &plan, uint32_t signature,
                                      const CaptureOptions &options) {
  CaptureSteps steps;
  std::map<uint32_t, size_t> places;
  for (auto [place, point] : llvm::enumerate(plan::capturePointsOf(plan, signature)))
    places[point.index] = place;
  size_t last = places.size();
  if (!options.stopAfter.empty()) {
    auto point = plan::capturePointNamed(plan, signature, options.stopAfter, "stop after");
    if (!point)
      return point.takeError();
    last = places[point->index];
    steps.stopAfter = std::move(*point);
  }
  auto captured = plan::matchCapturePoints(plan, signature, options.points, "capture");
  if (!captured)
    return captured.takeError();
  auto isReached = [&](const NamedCapturePoint &point) { return places[point.index] <= last; };
  for (const std::string &text : options.points) {
    auto own = plan::matchCapturePoints(plan, signature, {text}, "capture");
    if (!own)
      return own.takeError();
    if (llvm::none_of(*own, isReached))
      return llvm::createStringError("capture " + own->front().name + ": found a request that stops after " +
                                     options.stopAfter + ", expected a module that is called before that");
  }
  llvm::copy_if(*captured, std::back_inserter(steps.captured), isReached);
  for (const NamedTensor &replacement : options.replacements) {
    auto point = plan::capturePointNamed(plan, signature, replacement.name, "replace");
    if (!point)
      return point.takeError();
    if (!steps.replacements.try_emplace(point->index, replacement.tensor).second)
      return llvm::createStringError("replace " + point->name + ": found two values, expected one");
  }
  for (const Hook &hook : options.hooks) {
    auto points = plan::matchCapturePoints(plan, signature, {hook.points}, "hook of");
    if (!points)
      return points.takeError();
    if (!hook.function)
      return llvm::createStringError("hook of " + hook.points + ": found no function, expected one");
    for (NamedCapturePoint &point : *points) {
      if (Error error = checkWritable(plan, point.index))
        return error;
      if (const size_t place = places[point.index]; place <= last)
        steps.edits.push_back({std::move(point), place, &hook});
    }
  }
  llvm::stable_sort(steps.edits, [](const Edit &a, const Edit &b) { return a.place < b.place; });
  return steps;
}

/// What one pass of the request does, with the part hooks among `edits`.
static ResolvedCaptures passOf(const CaptureSteps &steps, llvm::ArrayRef<Edit> edits) {
  ResolvedCaptures pass;
  for (const auto &[point, value] : steps.replacements)
    pass.replacements.push_back({point, value});
  for (const Edit &edit : edits)
    pass.hooks.push_back({edit.point.index, edit.point.name, edit.hook->function});
  return pass;
}

/// Sends a tensor in main memory of process `root` to all.
static Expected<at::Tensor> broadcastTensor(Membership &membership, const at::Tensor &given, uint32_t root) {
  const bool isRoot = membership.rank() == root;
  std::string words;
  if (isRoot) {
    words = std::to_string(int(given.scalar_type()));
    for (int64_t size : given.sizes())
      words += " " + std::to_string(size);
  }
  auto described = membership.broadcast(words, root);
  if (!described)
    return described.takeError();
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(*described).split(parts, ' ');
  int64_t type = -1;
  bool isValid = !parts.front().getAsInteger(10, type) && type >= 0 &&
                 type < int64_t(c10::ScalarType::Undefined) &&
                 dtypeOf(c10::ScalarType(type)) != plan::DType::Unknown;
  std::vector<int64_t> sizes;
  for (llvm::StringRef part : llvm::drop_begin(parts)) {
    int64_t size = -1;
    isValid &= !part.getAsInteger(10, size) && size >= 0;
    sizes.push_back(size);
  }
  if (!isValid)
    return llvm::createStringError("found a hook's value that is no tensor");
  at::Tensor tensor = isRoot ? given.cpu().contiguous() : at::empty(sizes, c10::ScalarType(type));
  char *data = static_cast<char *>(tensor.mutable_data_ptr());
  constexpr size_t kPiece = 8 << 20;
  for (size_t begin = 0; begin < tensor.nbytes(); begin += kPiece) {
    const size_t size = std::min(kPiece, tensor.nbytes() - begin);
    auto piece = membership.broadcast(isRoot ? llvm::StringRef(data + begin, size) : "", root);
    if (!piece)
      return piece.takeError();
    if (piece->size() != size)
      return llvm::createStringError("found a hook's value that is cut off");
    llvm::copy(*piece, data + begin);
  }
  return tensor;
}

/// The value of a capture point; undefined if it is not there.
static at::Tensor valueNamed(llvm::ArrayRef<NamedTensor> values, llvm::StringRef name) {
  auto found = llvm::find_if(values, [&](const NamedTensor &value) { return value.name == name; });
  return found == values.end() ? at::Tensor() : found->tensor;
}

Expected<at::Tensor> Session::Impl::callWholeBatchHook(const Hook &hook, const std::string &name,
                                                       llvm::ArrayRef<NamedTensor> values,
                                                       RequestOptions request, int64_t batch) {
  at::Tensor given;
  const bool shares = membership && !commands;
  const uint32_t root = shares ? outputRankOf(*plan, request.signature) : 0;
  if (!membership || membership->rank() == root) {
    const at::Tensor value = valueNamed(values, name);
    std::string failure = value.defined() ? "" : "its value did not arrive";
    try {
      if (value.defined())
        given = hook.function(value, {name, 0, batch});
    } catch (const std::exception &exception) {
      failure = messageOf(exception);
    } catch (...) {
      failure = "it threw what is no std::exception";
    }
    if (failure.empty() && given.defined() &&
        (given.sizes() != value.sizes() || given.scalar_type() != value.scalar_type()))
      failure = "it returned " + describe(given) + ", expected " + describe(value) + " as it was given";
    if (!failure.empty()) {
      const std::string message = "hook of " + name + ": " + failure;
      // Others wait for the value.
      return shares ? failAll(message) : llvm::createStringError(message);
    }
    if (!given.defined())
      given = value;
  }
  return shares ? broadcastTensor(*membership, given, root) : Expected<at::Tensor>(given);
}

Expected<CapturedRequest> Session::Impl::captureOnce(llvm::ArrayRef<at::Tensor> inputs,
                                                     ResolvedCaptures captures, RequestOptions options) {
  const bool stops = captures.stopAfter.has_value();
  auto request = submit(inputs, options, std::move(captures));
  if (!request)
    return request.takeError();
  CapturedRequest result;
  if (Error error = (*request)->wait().moveInto(result.outputs))
    return error;
  if (stops)
    result.outputs.clear();
  if ((*request)->captures)
    result.values = (*request)->captures->values((*request)->microbatches);
  return result;
}

/// The size of the batch; 0 if the signature has none.
static Expected<int64_t> batchOf(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs) {
  auto sizes = bindSymbols(signature, inputs, {.sizesAlone = true, .beyondWitnesses = true});
  if (!sizes)
    return sizes.takeError();
  return signature.batch < 0 ? 0 : (*sizes)[signature.batch];
}

Expected<CapturedRequest> Session::Impl::capture(llvm::ArrayRef<at::Tensor> inputs,
                                                 const CaptureOptions &options, RequestOptions request) {
  if (request.signature >= plan->signatures.size())
    return llvm::createStringError("found signature " + llvm::Twine(request.signature) +
                                   ", expected less than " + llvm::Twine(plan->signatures.size()));
  auto resolved = resolve(*plan, request.signature, options);
  if (!resolved)
    return resolved.takeError();
  CaptureSteps &steps = *resolved;
  auto isPart = [](const Edit &edit) { return !edit.hook->takesWholeBatch; };
  if (commands)
    if (auto part = llvm::find_if(steps.edits, isPart); part != steps.edits.end())
      return llvm::createStringError(
          "hook of " + part->point.name +
          ": found a session whose requests come from a coordinator, expected a "
          "whole-batch hook (Hook::takesWholeBatch): other processes do not have the function");
  auto batch = batchOf(*plan->signatures[request.signature], inputs);
  if (!batch)
    return batch.takeError();
  const plan::Signature &called = *plan->signatures[request.signature];
  const bool hasParts = plan::microbatchesOfAll(*plan, scheduleOf(*plan, request.signature)) > 1;
  auto hasNoBatch = [&](const Edit &edit) {
    const plan::TensorType &type = *plan->capture_points[edit.point.index]->type;
    return hasParts && (called.batch < 0 || !plan::batchDimension(type, called.batch));
  };
  llvm::ArrayRef<Edit> left = steps.edits;
  // Part hooks of values without the batch are called in each pass: what they return may differ between
  // micro-batches, and no replacement can hold that.
  std::vector<Edit> repeated;
  while (!llvm::all_of(left, isPart)) {
    // Up to the next whole-batch hook, with what part hooks before it make.
    const size_t before = llvm::find_if_not(left, isPart) - left.begin();
    const Edit &whole = left[before];
    std::vector<Edit> parts = repeated;
    llvm::append_range(parts, left.take_front(before));
    ResolvedCaptures pass = passOf(steps, parts);
    for (const Edit &part : parts)
      if (part.point.index != whole.point.index && !hasNoBatch(part) &&
          llvm::none_of(pass.captured, [&](const auto &point) { return point.index == part.point.index; }))
        pass.captured.push_back(part.point);
    pass.captured.push_back(whole.point);
    pass.stopAfter = whole.point.index;
    auto found = captureOnce(inputs, pass, request);
    if (!found)
      return found.takeError();
    // Other part hooks are not called again.
    for (auto &point : llvm::ArrayRef(pass.captured).drop_back()) {
      at::Tensor own = valueNamed(found->values, point.name);
      const bool shares = membership && !commands;
      const uint32_t root = outputRankOf(*plan, request.signature);
      if (!own.defined() && (!shares || membership->rank() == root)) {
        const std::string message = "hook of " + point.name + ": its value did not arrive";
        return shares ? failAll(message) : llvm::createStringError(message);
      }
      if (shares)
        if (Error error = broadcastTensor(*membership, own, root).moveInto(own))
          return error;
      steps.replacements[point.index] = own;
    }
    auto given = callWholeBatchHook(*whole.hook, whole.point.name, found->values, request, *batch);
    if (!given)
      return given.takeError();
    steps.replacements[whole.point.index] = std::move(*given);
    llvm::erase_if(
        parts, [&](const Edit &edit) { return edit.point.index == whole.point.index || !hasNoBatch(edit); });
    repeated = std::move(parts);
    left = left.drop_front(before + 1);
  }
  llvm::append_range(repeated, left);
  ResolvedCaptures pass = passOf(steps, repeated);
  pass.captured = steps.captured;
  if (steps.stopAfter)
    pass.stopAfter = steps.stopAfter->index;
  pass.device = options.device;
  if (membership)
    pass.device = c10::kCPU;
  return captureOnce(inputs, std::move(pass), request);
}

} // namespace cleave::runtime
