//===- WitnessFile.h - What the original module answered --------*- C++ -*-===//
//
// Private to tools/driver/.
//
// `gpt2.witnesses.safetensors`, which cleave-trace writes beside `gpt2.pt`. docs/witnesses.md has the format.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSFILE_H
#define CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSFILE_H

#include "codegen/plan/WitnessedRange.h"
#include "runtime/base/TensorFile.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace cleave {

/// Dimensions of inputs that were given other sizes together, and the sizes at which trace and module agree.
struct WitnessedDimension {
  struct Place {
    std::string input;
    int64_t dim;
    bool operator==(const Place &) const = default;
  };
  std::vector<Place> places;
  int64_t traced;
  plan::WitnessedRange range;
  /// Why there are no smaller or larger sizes, or none between multiples; empty where nobody knows.
  std::string below, above, between;
  /// Path of the module in which trace and module part; may be empty.
  std::string where;
  /// Whether the trace was seen to differ from the module at another size, or to fail there.
  bool diverges = false;
};

/// A tensor that the module returned: `whole`, or what `Projection.h` makes of a large one.
struct WitnessedOutput {
  std::string name;
  /// Undefined: the other members describe the tensor.
  at::Tensor whole;
  std::vector<int64_t> shape;
  std::vector<double> sums, samples;
  /// By block, as `sums`; empty where all elements are finite.
  std::vector<int64_t> nonfinite;
  double largest = 0;
};

/// Inputs, and what the module answered to them.
struct Witness {
  /// `traced`, `seq=9`, `permuted`.
  std::string name;
  std::vector<runtime::NamedTensor> inputs;
  std::vector<WitnessedOutput> outputs;
};

struct WitnessFile {
  std::string path;
  /// Serialization id of the model (TorchScriptFile::serializationId).
  std::string model;
  /// What the tracer fixed.
  std::vector<std::string> warnings;
  std::vector<WitnessedDimension> dimensions;
  std::vector<Witness> witnesses;
  /// Of witnesses and dimensions.
  llvm::StringSet<> inputNames;

  /// Reads and checks an untrusted file. Its strings are not escaped: print them with plan::printable.
  static llvm::Expected<WitnessFile> read(const std::string &path);

  /// Null where the dimension was not compared.
  const WitnessedDimension *find(const WitnessedDimension::Place &place) const;
  /// True if the traced module has this input.
  bool hasInput(llvm::StringRef name) const { return inputNames.contains(name); }
};

/// The witnesses of a model, or a sentence about why there are none.
struct FoundWitnesses {
  std::optional<WitnessFile> file;
  /// Why there is no file, or why the file is not used (another model's, no regular file); empty otherwise.
  std::string missingReason, unusedReason;
};

/// Looks beside the model. \param serializationId  that of the model. Fails if the file is damaged.
llvm::Expected<FoundWitnesses> findWitnesses(llvm::StringRef model, llvm::StringRef serializationId);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSFILE_H
