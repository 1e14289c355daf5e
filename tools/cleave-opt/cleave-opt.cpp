//===- cleave-opt.cpp - mlir-opt with Cleave's dialects and passes --------===//
#include "ir/Cleave.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  cleave::registerDialects(registry);
  cleave::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Cleave's pass driver\n", registry));
}
