//===- CleaveBase.td - The dialect, its types and attributes --------------===//
#ifndef CLEAVE_IR_CLEAVEBASE
#define CLEAVE_IR_CLEAVEBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/OpBase.td"

def CleaveDialect : Dialect {
  let name = "cleave";
  let cppNamespace = "::cleave";
  let summary = "Everything in a model besides PyTorch's own operators";
  let description = [{
    Parameters, values that are no tensors, control flow, named sizes, module boundaries and pipeline stages. PyTorch's
    operators keep their names, in dialects of their own (see OperatorDialect.h). docs/ir.md has examples.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
}

class CleaveType<string name, string typeMnemonic> : TypeDef<CleaveDialect, name> {
  let mnemonic = typeMnemonic;
}

def UnknownTensorType : CleaveType<"UnknownTensor", "tensor"> { let summary = "a tensor of unknown type"; }
def StringType : CleaveType<"String", "str"> { let summary = "a string"; }
def NumberType : CleaveType<"Number", "number"> { let summary = "an integer, a float or a bool"; }
def DeviceType : CleaveType<"Device", "device"> { let summary = "a device"; }
def GeneratorType : CleaveType<"Generator", "generator"> { let summary = "a random number generator"; }
def AnyValueType : CleaveType<"Any", "any"> { let summary = "a value of any TorchScript type"; }
def ListType : CleaveType<"List", "list"> {
  let summary = "a list of elements of one type";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
}
def DictType : CleaveType<"Dict", "dict"> {
  let summary = "a dictionary in insertion order";
  let parameters = (ins "::mlir::Type":$key, "::mlir::Type":$value);
  let assemblyFormat = "`<` $key `,` $value `>`";
}
def OptionalType : CleaveType<"Optional", "optional"> {
  let summary = "a value or None";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
}

class CleaveAttr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<CleaveDialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def DimAttr : CleaveAttr<"Dim", "dim"> {
  let summary = "a size as an expression of the symbols of dynamic dimensions";
  let description = [{
    `#cleave.dim<"12*batch">`, `#cleave.dim<"(seq + 1) floordiv 2">`, `#cleave.dim<"?">` (unknown), in SymbolicDim's
    canonical form.
  }];
  let parameters = (ins StringRefParameter<"canonical expression">:$expression);
  let assemblyFormat = "`<` $expression `>`";
  let genVerifyDecl = 1;
}

def LayoutAttr : CleaveAttr<"Layout", "layout",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "symbolic dimensions of a tensor type, and strides that are not row-major";
  let description = [{
    The encoding of a tensor type: `tensor<?x?x768xf32, #cleave.layout<dims = ["batch", "seq", "768"]>>`.
    `dims` and `strides` have one expression per dimension, in elements. `strides` is empty for a contiguous tensor.
  }];
  let parameters = (ins OptionalArrayRefParameter<"std::string">:$dims, OptionalArrayRefParameter<"std::string">:$strides);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def ShardingAttr : CleaveAttr<"Sharding", "sharding"> {
  let summary = "indices of one dimension on each rank of a tensor-parallel group";
  let description = [{
    `#cleave.sharding<1, [0, 384, 768, 384], [384, 384, 1152, 384]>`: by rank, (offset, size) pairs of dimension 1,
    ascending and disjoint. A rank's shard of the tensor is these indices, one after the other. Ranks may share indices;
    together they have all.
  }];
  let parameters = (ins "unsigned":$dim, ArrayRefParameter<"::mlir::DenseI64ArrayAttr">:$ranks);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of indices on a rank.
    int64_t extentOf(unsigned rank) const;
    /// Size of the whole dimension.
    int64_t getSize() const;
    /// By rank: extentOf.
    ::llvm::SmallVector<int64_t> getExtents() const;
    /// Shape of a rank's shard of a tensor with this shape.
    ::llvm::SmallVector<int64_t> shapeOf(unsigned rank, ::llvm::ArrayRef<int64_t> shape) const;
  }];
}

def Phase : I32EnumAttr<"Phase", "a phase of a training step", [
    I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"BackwardInput", 1, "backward_input">,
    I32EnumAttrCase<"BackwardWeight", 2, "backward_weight">, I32EnumAttrCase<"Norm", 3, "norm">,
    I32EnumAttrCase<"Update", 4, "update">]> {
  let cppNamespace = "::cleave";
  let genSpecializedAttr = 0;
}

def PhaseAttr : EnumAttr<CleaveDialect, Phase, "phase"> {
  let summary = "the phase of a training step that an operation belongs to";
  let description = [{
    On an operation: `cleave.phase = #cleave.phase<backward_input>`; without it the operation is forward. `backward_input`
    makes gradients of values, `backward_weight` gradients of weights alone, `norm` a stage's part of what the updates of all
    stages read, such as the norm of all gradients, `update` changes weights and what an optimizer keeps. split-stages makes a `cleave.stage` of each stage and phase.
  }];
  let assemblyFormat = "`<` $value `>`";
}

def Optimizer : I32EnumAttr<"Optimizer", "an optimizer of torch.optim", [
    I32EnumAttrCase<"Sgd", 0, "sgd">, I32EnumAttrCase<"Adam", 1, "adam">, I32EnumAttrCase<"AdamW", 2, "adamw">]> {
  let cppNamespace = "::cleave";
  let genSpecializedAttr = 0;
}

def OptimizerAttr : EnumAttr<CleaveDialect, Optimizer, "optimizer"> {
  let summary = "an optimizer";
  let assemblyFormat = "`<` $value `>`";
}

def MeshAttr : CleaveAttr<"Mesh", "mesh"> {
  let summary = "the device mesh: pipeline ranks × data-parallel ranks × tensor-parallel ranks";
  let parameters = (ins DefaultValuedParameter<"unsigned", "1">:$pp, DefaultValuedParameter<"unsigned", "1">:$dp,
                        DefaultValuedParameter<"unsigned", "1">:$tp);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // CLEAVE_IR_CLEAVEBASE
