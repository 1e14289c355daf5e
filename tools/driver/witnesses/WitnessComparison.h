//===- WitnessComparison.h - A plan beside the module -----------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSCOMPARISON_H
#define CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSCOMPARISON_H

#include "runtime/session/Session.h"
#include "tools/driver/verify/VerifyReport.h"
#include "tools/driver/witnesses/WitnessFile.h"

namespace cleave {

/// Compares an output with what the module returned. Whole tensors are compared as Comparison.h says. Of a
/// projection, samples and the largest magnitude are compared like elements of a whole tensor. The sum of a
/// block may be off by the relative tolerance times the block's largest element. The typical magnitude, to
/// which tolerances are relative, is at most the module's largest element. Integers and bools must be equal.
/// \param precision  dtype in which the plan computes matrix products, if it is not the module's.
VerifyReport::Compared compareWithWitness(const at::Tensor &found, const WitnessedOutput &expected,
                                          std::optional<at::ScalarType> precision = std::nullopt);

/// Runs signature `index` on the inputs of each witness that it takes (same dtypes and fixed sizes, and other
/// sizes within the symbols' ranges), and adds to the report. A plan that keeps state runs on the first of
/// them alone, from its saved state. Adds nothing where the plan gives gradients or trains, and a note where
/// it draws random numbers (`report.draws`). Fails if the plan cannot run where the module did.
/// \param prefix  the signature's name, or empty if the plan has one.
llvm::Error compareWithWitnesses(runtime::Session &session, uint32_t index, llvm::StringRef prefix,
                                 const WitnessFile &file, VerifyReport &report);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_WITNESSES_WITNESSCOMPARISON_H
