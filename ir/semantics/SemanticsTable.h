//===- SemanticsTable.h - The table under construction ----------*- C++ -*-===//
//
// Private to ir/semantics/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_SEMANTICS_SEMANTICSTABLE_H
#define CLEAVE_IR_SEMANTICS_SEMANTICSTABLE_H

#include "ir/semantics/OpSemantics.h"

namespace cleave {

/// The table while it is built; each operator family adds its entries.
class SemanticsTable {
public:
  /// Adds `entry` for each name, marked known.
  void add(std::initializer_list<llvm::StringRef> names, OpSemantics entry);
  const OpSemantics *find(llvm::StringRef name) const;
  /// Sets one field for each name. A name without an entry gets one with that field alone, and isKnown stays
  /// false.
  template <typename T>
  void set(T OpSemantics::*field, T value, std::initializer_list<llvm::StringRef> names) {
    for (llvm::StringRef name : names)
      entries[name].*field = value;
  }

private:
  llvm::StringMap<OpSemantics> entries;
};

void addElementwise(SemanticsTable &table);
void addContractions(SemanticsTable &table);
void addRecurrent(SemanticsTable &table);
void addConvolutions(SemanticsTable &table);
void addNorms(SemanticsTable &table);
void addLosses(SemanticsTable &table);
void addShapes(SemanticsTable &table);
void addIndexing(SemanticsTable &table);
void addSignals(SemanticsTable &table);
void addScalars(SemanticsTable &table);
void addCollectives(SemanticsTable &table);
void addRandom(SemanticsTable &table);
/// Must be called after the other families.
void addAliasing(SemanticsTable &table);
void addBackwardPasses(SemanticsTable &table);
void addGradientSemantics(SemanticsTable &table);
void addLinearity(SemanticsTable &table);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_SEMANTICSTABLE_H
