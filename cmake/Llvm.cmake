# MLIR and LLVM 19, linked statically in every binary with their symbols hidden, so that they never meet the LLVM
# inside libtorch.
find_package(MLIR 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# Debian's MLIR libraries ask for the shared libLLVM, 117 MB; what they use of it is in this archive.
get_property(IMPORTED DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(LIBRARY IN LISTS IMPORTED)
  if(LIBRARY MATCHES "^MLIR")
    get_target_property(USED ${LIBRARY} INTERFACE_LINK_LIBRARIES)
    if(USED)
      list(TRANSFORM USED REPLACE "^LLVM$" LLVMSupport)
      set_target_properties(${LIBRARY} PROPERTIES INTERFACE_LINK_LIBRARIES "${USED}")
    endif()
  endif()
endforeach()

# What every target that includes LLVM or MLIR headers needs.
add_library(cleave_llvm INTERFACE)
target_include_directories(cleave_llvm SYSTEM INTERFACE "$<BUILD_INTERFACE:${LLVM_INCLUDE_DIRS};${MLIR_INCLUDE_DIRS}>")
target_link_options(cleave_llvm INTERFACE -Wl,--exclude-libs,ALL)
