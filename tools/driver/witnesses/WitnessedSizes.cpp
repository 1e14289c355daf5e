//===- WitnessedSizes.cpp - Sizes that witnesses cover --------------------===//
#include "tools/driver/witnesses/WitnessedSizes.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;
using plan::WitnessedRange;

namespace {
/// A dynamic dimension, and the groups of the file that it is in, in the order of inputs.
struct OpenDimension {
  int64_t traced = 0;
  /// Where it is first.
  WitnessedDimension::Place place;
  std::vector<const WitnessedDimension *> groups;
  /// Some input's dimension of this name was not compared.
  bool isMissing = false;
  /// A group that has another dimension, too, which has not this name.
  const WitnessedDimension *divided = nullptr;
};
} // namespace

/// Text of the file as a message shows it.
static std::string shortened(StringRef text) {
  constexpr size_t kMost = 300;
  return plan::printable(text, kMost);
}

/// ` (at 1025 the module fails: …, in h.0.attn)`; empty where nobody knows why.
static std::string reasonText(llvm::ArrayRef<const WitnessedDimension *> groups) {
  llvm::SmallVector<std::string> reasons;
  for (const WitnessedDimension *group : groups) {
    llvm::SmallVector<std::string> own;
    for (const std::string *reason : {&group->below, &group->above, &group->between})
      if (!reason->empty() && !llvm::is_contained(own, shortened(*reason)))
        own.push_back(shortened(*reason));
    if (!own.empty() && !group->where.empty())
      own.back() += ", in " + shortened(group->where);
    for (std::string &reason : own)
      if (!llvm::is_contained(reasons, reason))
        reasons.push_back(std::move(reason));
  }
  return reasons.empty() ? "" : " (" + llvm::join(reasons, "; ") + ")";
}

/// By name: the dynamic dimensions.
static llvm::MapVector<StringRef, OpenDimension> openDimensions(const WitnessFile &file,
                                                                const ModelInputs &inputs) {
  llvm::MapVector<StringRef, OpenDimension> all;
  for (const ModelInputs::Tensor &tensor : inputs.tensors)
    for (auto [dim, name] : llvm::enumerate(tensor.dims)) {
      if (name.empty())
        continue;
      auto [entry, isNew] = all.insert({name, {}});
      OpenDimension &open = entry->second;
      if (isNew)
        open.place = {tensor.name, int64_t(dim)};
      open.traced = tensor.shape[dim];
      const WitnessedDimension *group = file.find({tensor.name, int64_t(dim)});
      // An input that was added after the trace, such as the number of a step, says nothing about the module.
      open.isMissing |= !group && file.hasInput(tensor.name);
      if (group && !llvm::is_contained(open.groups, group))
        open.groups.push_back(group);
    }
  // Sizes of a group were changed together, so nothing is known of what they are apart.
  for (const WitnessedDimension &group : file.dimensions) {
    llvm::SmallVector<StringRef> names;
    for (const ModelInputs::Tensor &tensor : inputs.tensors)
      for (size_t dim = 0; dim < tensor.shape.size(); ++dim)
        if (llvm::is_contained(group.places, WitnessedDimension::Place{tensor.name, int64_t(dim)}))
          names.push_back(dim < tensor.dims.size() ? StringRef(tensor.dims[dim]) : "");
    if (!llvm::all_equal(names))
      for (StringRef name : names)
        if (auto open = all.find(name); open != all.end())
          open->second.divided = &group;
  }
  return all;
}

/// The sizes of all groups; nothing if the dimension was not compared. Nothing, too, if one size alone agrees
/// and none diverges: the time ran out or the module fails at others, so the compiler's own checks decide.
static std::optional<WitnessedRange> rangeOf(const OpenDimension &open) {
  if (open.isMissing || open.divided || open.groups.empty())
    return std::nullopt;
  std::optional<WitnessedRange> range = WitnessedRange();
  for (const WitnessedDimension *group : open.groups)
    if (range)
      range = range->intersectedWith(group->range);
  auto diverges = [](const WitnessedDimension *group) { return group->diverges; };
  if (range && range->isOnly(open.traced) && llvm::none_of(open.groups, diverges))
    return std::nullopt;
  if (range)
    range->min = std::max<int64_t>(range->min, 1);
  return range;
}

/// The option that names the dimension: `--dynamic input_ids=_,seq`.
static std::string optionOf(StringRef name, const OpenDimension &open,
                            llvm::ArrayRef<std::string> dynamicOptions) {
  for (StringRef option : dynamicOptions) {
    auto [input, names] = option.split('=');
    llvm::SmallVector<StringRef> dims;
    names.split(dims, ',');
    if ((input == open.place.input || input.ends_with("/" + open.place.input)) &&
        llvm::is_contained(dims, name))
      return "--dynamic " + option.str();
  }
  return "input " + open.place.input + ", dimension " + name.str();
}

/// Fails where the user gave one name to some dimensions of a group alone: nothing is known of them apart.
static Error checkUndivided(StringRef name, const OpenDimension &open, const ModelInputs &inputs,
                            llvm::ArrayRef<std::string> dynamicOptions) {
  if (!open.divided)
    return Error::success();
  auto nameOf = [&](const WitnessedDimension::Place &place) -> StringRef {
    for (const ModelInputs::Tensor &tensor : inputs.tensors)
      if (tensor.name == place.input && size_t(place.dim) < tensor.dims.size())
        return tensor.dims[place.dim];
    return "";
  };
  auto text = [](const WitnessedDimension::Place &place) {
    return "dimension " + std::to_string(place.dim) + " of input " + shortened(place.input);
  };
  const auto own = llvm::find_if(open.divided->places, [&](auto &place) { return nameOf(place) == name; });
  const auto other = llvm::find_if(open.divided->places, [&](auto &place) { return nameOf(place) != name; });
  return llvm::createStringError(
      optionOf(name, open, dynamicOptions) + ": found the name " + name + " for " + text(*own) +
      " and not for " + text(*other) +
      ", whose sizes cleave-trace changed together, expected one name for both; name "
      "both so, or give cleave-trace these --dynamic, or pass --beyond-witnesses");
}

/// Fails where a dimension was not compared, or the module fails at all other sizes that were tried. Not
/// where there was no time.
static Error checkCompared(StringRef name, const OpenDimension &open,
                           llvm::ArrayRef<std::string> dynamicOptions) {
  const std::string reason = reasonText(open.groups);
  if (!open.isMissing && reason.empty())
    return Error::success();
  return llvm::createStringError(
      optionOf(name, open, dynamicOptions) + ": found no other size of " + name +
      " at which trace and module were compared" + reason +
      ", expected some; give cleave-trace this --dynamic, or, where the module takes "
      "no other size by itself, pass --beyond-witnesses");
}

/// Fails unless the dimension may be open: there are several sizes, and the one of the inputs is one of them.
static Error checkOpen(StringRef name, const OpenDimension &open, const WitnessedRange &range,
                       llvm::ArrayRef<std::string> dynamicOptions) {
  const std::string where = optionOf(name, open, dynamicOptions), reason = reasonText(open.groups);
  if (!range.contains(open.traced))
    return llvm::createStringError(where + ": found " + Twine(open.traced) + " for " + name + ", expected " +
                                   range.str() + ", where the trace equals the module" + reason +
                                   "; trace at the size that you need");
  if (range.isOnly(open.traced))
    return llvm::createStringError(where + ": found a trace that equals the module at " + Twine(open.traced) +
                                   " alone" + reason + ", expected one that equals it at several sizes of " +
                                   name + "; script the submodule, or trace at the size that you need");
  return Error::success();
}

/// Dimensions with one size: it should be one at which the trace equals the module.
static Error checkFixed(const WitnessFile &file, const ModelInputs &inputs, std::vector<std::string> &notes) {
  for (const ModelInputs::Tensor &tensor : inputs.tensors)
    for (auto [dim, size] : llvm::enumerate(tensor.shape)) {
      const bool isOpen = dim < tensor.dims.size() && !tensor.dims[dim].empty();
      const WitnessedDimension *group = file.find({tensor.name, int64_t(dim)});
      if (isOpen || !group || group->range.contains(size))
        continue;
      const std::string
          found = ("input " + Twine(tensor.name) + ": dimension " + Twine(dim) + " is " + Twine(size)).str(),
          reason = reasonText(group);
      if (!reason.empty())
        return llvm::createStringError(found + ", expected " + group->range.str() +
                                       ", where the trace equals the module" + reason +
                                       "; trace at the size that you need");
      notes.push_back(found + "; trace and module agree at " + group->range.str());
    }
  return Error::success();
}

Expected<WitnessedSizes> WitnessedSizes::of(const WitnessFile &file, const ModelInputs &inputs,
                                            llvm::ArrayRef<std::string> dynamicOptions) {
  WitnessedSizes result;
  for (const auto &[name, open] : openDimensions(file, inputs)) {
    const bool isAutomatic = name == inputs.autoDynamic;
    result.hasOpened |= !isAutomatic;
    if (!isAutomatic)
      if (Error error = checkUndivided(name, open, inputs, dynamicOptions))
        return error;
    const auto range = rangeOf(open);
    if (!range && !isAutomatic)
      if (Error error = checkCompared(name, open, dynamicOptions))
        return error;
    if (!range) {
      result.notes.push_back((name +
                              " was not compared with the module at other sizes; cleave-trace --dynamic " +
                              open.place.input + "=… compares it")
                                 .str());
      continue;
    }
    if (!isAutomatic)
      if (Error error = checkOpen(name, open, *range, dynamicOptions))
        return error;
    const std::string reason = reasonText(open.groups);
    if (!range->contains(open.traced)) {
      result.notes.push_back(
          (name + " is " + Twine(open.traced) + "; trace and module agree at " + range->str() + reason)
              .str());
      continue;
    }
    result.ranges[name] = *range;
    if (!range->isAnySize())
      result.notes.push_back(
          (name + ": trace and module agree at " + range->str() + reason + "; run refuses other sizes")
              .str());
  }
  if (Error error = checkFixed(file, inputs, result.notes))
    return error;
  return result;
}

WitnessedSizes WitnessedSizes::ignored(const WitnessFile &file, const ModelInputs &inputs) {
  WitnessedSizes result;
  for (const auto &[name, open] : openDimensions(file, inputs)) {
    result.hasOpened |= name != inputs.autoDynamic;
    const auto range = rangeOf(open);
    if (range && !range->isAnySize())
      result.notes.push_back((name + " is dynamic beyond the sizes at which trace and module agree: " +
                              range->str() + reasonText(open.groups))
                                 .str());
  }
  return result;
}

//===- PlanWitnesses ------------------------------------------------------===//

static plan::Note makeNote(const char *kind, std::string text) {
  plan::Note note;
  note.kind = kind;
  note.text = plan::printable(text);
  return note;
}

/// The first warnings of the trace, and how many more there are, as cleave-trace tells them.
static void addWarnings(const WitnessFile &file, std::vector<plan::Note> &notes) {
  constexpr size_t kMost = 5;
  for (const std::string &warning : llvm::ArrayRef(file.warnings).take_front(kMost))
    notes.push_back(makeNote("trace", "of the trace: " + shortened(warning)));
  if (file.warnings.size() > kMost)
    notes.push_back(makeNote("trace", "of the trace: and " + std::to_string(file.warnings.size() - kMost) +
                                          " more such warnings"));
}

Expected<PlanWitnesses> PlanWitnesses::read(const CompileOptions &options, const ModelSource &source) {
  PlanWitnesses result;
  auto found = findWitnesses(options.model, source.serializationId);
  if (!found)
    return found.takeError();
  if (!found->unusedReason.empty())
    result.notes.push_back(makeNote("witnesses", found->unusedReason));
  if (!found->file)
    return result;
  bool hasOpened = false;
  for (const ModelInputs &inputs : source.inputs) {
    auto sizes = options.beyondWitnesses ? WitnessedSizes::ignored(*found->file, inputs)
                                         : WitnessedSizes::of(*found->file, inputs, options.dynamic);
    if (!sizes)
      return sizes.takeError();
    hasOpened |= sizes->hasOpened;
    const std::string prefix = source.inputs.size() > 1 ? inputs.signature + ": " : "";
    for (const std::string &note : sizes->notes)
      result.notes.push_back(makeNote("witnesses", prefix + note));
    result.ranges[inputs.signature] = std::move(sizes->ranges);
  }
  if (hasOpened)
    addWarnings(*found->file, result.notes);
  return result;
}

void PlanWitnesses::addTo(plan::Plan &plan) const {
  for (auto &signature : plan.signatures) {
    auto own = ranges.find(signature->name);
    if (own == ranges.end())
      continue;
    for (auto &symbol : signature->symbols)
      if (auto range = own->second.find(symbol->name); range != own->second.end()) {
        symbol->witnessed_min = range->second.min;
        symbol->witnessed_max = range->second.max;
        symbol->witnessed_divisible_by = range->second.divisibleBy;
      }
  }
  for (const plan::Note &note : notes)
    plan.notes.push_back(std::make_unique<plan::Note>(note));
}

} // namespace cleave
