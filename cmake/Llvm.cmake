# MLIR and LLVM 19, linked statically in every binary with their symbols hidden, so that they never meet the LLVM
# inside libtorch.
find_package(MLIR 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# What every target that includes LLVM or MLIR headers needs.
add_library(cleave_llvm INTERFACE)
target_include_directories(cleave_llvm SYSTEM INTERFACE "$<BUILD_INTERFACE:${LLVM_INCLUDE_DIRS};${MLIR_INCLUDE_DIRS}>")
target_link_options(cleave_llvm INTERFACE -Wl,--exclude-libs,ALL)
