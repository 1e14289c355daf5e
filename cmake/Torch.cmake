# libtorch from the PyPI wheel as an imported target of our own, `torch::cpu`: find_package(Torch) insists on a CUDA toolkit.
# It is all that the compiler and the CPU runtime link. CLEAVE_TORCH is the folder of Python's torch package; where that is not
# given, the one of CLEAVE_PYTHON. What is wrong is in CLEAVE_TORCH_PROBLEM. The build uses this file, and so does whoever
# finds an installed Cleave.
set(CLEAVE_TORCH_PROBLEM)
if(NOT CLEAVE_TORCH)
  execute_process(
    COMMAND ${CLEAVE_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE CLEAVE_TORCH OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(CLEAVE_TORCH_HEADER ${CLEAVE_TORCH}/include/torch/headeronly/version.h)
if(NOT CLEAVE_TORCH)
  set(CLEAVE_TORCH_PROBLEM "${CLEAVE_PYTHON} has no torch")
elseif(NOT EXISTS ${CLEAVE_TORCH_HEADER} OR NOT EXISTS ${CLEAVE_TORCH}/lib/libtorch_cpu.so)
  set(CLEAVE_TORCH_PROBLEM "${CLEAVE_TORCH} is no folder of a torch wheel")
else()
  file(STRINGS ${CLEAVE_TORCH_HEADER} CLEAVE_TORCH_VERSION REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
  list(TRANSFORM CLEAVE_TORCH_VERSION REPLACE "[^0-9]+" "")
  string(JOIN "." CLEAVE_TORCH_VERSION ${CLEAVE_TORCH_VERSION})
  if(NOT TARGET torch::cpu)
    add_library(torch::cpu INTERFACE IMPORTED)
    target_include_directories(torch::cpu SYSTEM INTERFACE
      ${CLEAVE_TORCH}/include ${CLEAVE_TORCH}/include/torch/csrc/api/include)
    target_link_libraries(torch::cpu INTERFACE ${CLEAVE_TORCH}/lib/libtorch_cpu.so ${CLEAVE_TORCH}/lib/libc10.so
      Threads::Threads)
  endif()
endif()
