//===- Scalars.cpp - Sizes, scalars, lists and control --------------------===//
#include "ir/semantics/SemanticsTable.h"

namespace cleave {

void addScalars(SemanticsTable &table) {
  table.add({"aten.size",
             "aten.sym_size",
             "aten.dim",
             "aten.numel",
             "aten.len",
             "aten.Int",
             "aten.Float",
             "aten.Bool",
             "aten.ScalarImplicit",
             "aten.IntImplicit",
             "aten.FloatImplicit",
             "aten.item",
             "aten._local_scalar_dense",
             "aten.is_floating_point",
             "aten.__is__",
             "aten.__isnot__",
             "aten.__not__",
             "aten.__contains__",
             "aten.floordiv",
             "aten.stride",
             "aten.device",
             "aten.is_nonzero",
             "aten.list",
             "prim.NumToTensor",
             "prim.device",
             "prim.dtype",
             "prim.layout",
             "prim.is_cuda",
             "prim.min",
             "prim.max",
             "prim.abs",
             "prim.ImplicitTensorToNum",
             "aten.format",
             "aten.str",
             "aten.ord",
             "aten.sqrt.int",
             "aten.add.int",
             "aten.sub.int",
             "aten.mul.int",
             "aten.div.int",
             "aten.add.float",
             "aten.mul.float",
             "aten.eq.int",
             "aten.ne.int",
             "aten.lt.int",
             "aten.le.int",
             "aten.gt.int",
             "aten.ge.int",
             "aten.floordiv.int",
             "aten.remainder.int",
             "aten.neg.int"},
            {.isScalar = true});
  table.add({"aten.__getitem__"}, {.isScalar = true, .item = "idx"});
  table.add({"prim.TupleIndex"}, {.isScalar = true, .item = "i"});
  table.add({"prim.RaiseException"}, {.hasSideEffects = true, .raises = true, .isScalar = true});
  table.add({"prim.Print", "aten.warn", "aten._assert", "aten._assert_async", "aten.manual_seed"},
            {.hasSideEffects = true, .isScalar = true});
}

} // namespace cleave
