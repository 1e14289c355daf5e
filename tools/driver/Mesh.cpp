//===- Mesh.cpp - Devices and mesh from the options -----------------------===//
#include "tools/driver/Mesh.h"
#include "partitioner/Machine.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

using llvm::StringRef;

static llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// `pp=2,tp=2` → axis sizes.
static llvm::Expected<llvm::StringMap<uint32_t>> parseMesh(StringRef text) {
  llvm::StringMap<uint32_t> axes;
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [axis, size] = part.trim().split('=');
    uint32_t count;
    if (!llvm::is_contained({"pp", "dp", "tp"}, axis) || size.getAsInteger(10, count) || count == 0)
      return fail("--mesh " + text + ": found \"" + part +
                  "\", expected pp=N, dp=N or tp=N with N of at least 1");
    if (!axes.try_emplace(axis, count).second)
      return fail("--mesh " + text + ": " + axis + " is given twice");
  }
  return axes;
}

llvm::Expected<PipelineShape> readPipelineShape(const CompileOptions &options) {
  std::vector<std::string> words{options.machine};
  llvm::append_range(words, options.stageBefore);
  llvm::append_range(words, options.capturePoints);
  for (StringRef text : words)
    if (text.find_first_of(" ,{}'\"") != StringRef::npos)
      return fail("\"" + text +
                  "\": found a blank, comma, brace or quote in the name of a machine file, module or "
                  "pattern, which the pass pipeline cannot carry; rename it");
  PipelineShape shape;
  std::optional<uint32_t> devices;
  if (options.devices)
    devices = options.devices;
  if (!options.machine.empty()) {
    auto machine = Machine::load(options.machine);
    if (!machine)
      return machine.takeError();
    if (devices && *devices > machine->devices.size())
      return fail("--devices " + llvm::Twine(*devices) + ": machine " + options.machine + " has " +
                  llvm::Twine(machine->devices.size()));
    devices = devices.value_or(machine->devices.size());
  }
  if (options.mesh.empty()) {
    shape.stages = devices.value_or(1);
    return shape;
  }
  auto mesh = parseMesh(options.mesh);
  if (!mesh)
    return mesh.takeError();
  for (StringRef axis : {"tp", "dp"})
    if (mesh->lookup(axis) > 1)
      return fail("--mesh " + options.mesh + ": found " + axis + "=" + llvm::Twine(mesh->lookup(axis)) +
                  ", expected 1: plans of this version split over pipeline stages; use pp=" +
                  llvm::Twine(devices.value_or(mesh->lookup(axis))));
  shape.stages = std::max(1u, mesh->lookup("pp"));
  if (devices && *devices != shape.stages)
    return fail("--mesh " + options.mesh + ": takes " + llvm::Twine(shape.stages) +
                " devices, but there are " + llvm::Twine(*devices) + "; make --devices equal");
  return shape;
}

} // namespace cleave
