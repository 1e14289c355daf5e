# `torch::cuda` is libtorch's CUDA half with headers of the CUDA runtime: those of the PyPI packages, which fit the wheel,
# or a toolkit's, and those of NCCL. Where they are not there, so is no `torch::cuda`, and the plugin that links it is left out.
set(CLEAVE_CUDA AUTO CACHE STRING "Build the CUDA plugin: AUTO (where CUDA's headers are), ON or OFF")
set_property(CACHE CLEAVE_CUDA PROPERTY STRINGS AUTO ON OFF)

# What the torch wheel depends on.
get_filename_component(CLEAVE_NVIDIA_DIR ${CLEAVE_TORCH}/../nvidia/cu13 ABSOLUTE)
find_path(CLEAVE_NCCL_INCLUDE nccl.h HINTS ${CLEAVE_TORCH}/../nvidia/nccl/include)

function(find_cuda_headers RESULT)
  set(PYPI ${CLEAVE_NVIDIA_DIR}/include)
  if(EXISTS ${PYPI}/cuda_runtime_api.h AND EXISTS ${PYPI}/crt/host_defines.h AND EXISTS ${PYPI}/nv/target)
    set(${RESULT} ${PYPI} PARENT_SCOPE)
    return()
  endif()
  find_package(CUDAToolkit 13.0 QUIET)
  set(${RESULT} ${CUDAToolkit_INCLUDE_DIRS} PARENT_SCOPE)
endfunction()

if(CLEAVE_CUDA AND CLEAVE_NCCL_INCLUDE AND EXISTS ${CLEAVE_TORCH}/lib/libtorch_cuda.so AND
   EXISTS ${CLEAVE_NVIDIA_DIR}/lib/libcudart.so.13)
  find_cuda_headers(CLEAVE_CUDA_HEADERS)
endif()
if(CLEAVE_CUDA_HEADERS)
  message(STATUS "CUDA plugin: with the headers in ${CLEAVE_CUDA_HEADERS}")
  add_library(torch::cuda INTERFACE IMPORTED)
  target_include_directories(torch::cuda SYSTEM INTERFACE ${CLEAVE_CUDA_HEADERS} ${CLEAVE_NCCL_INCLUDE})
  # libtorch_cuda registers its kernels when it is loaded; no symbol of it may be wanted, and yet it must be.
  target_link_options(torch::cuda INTERFACE -Wl,--no-as-needed)
  target_link_libraries(torch::cuda INTERFACE torch::cpu ${CLEAVE_TORCH}/lib/libtorch_cuda.so
    ${CLEAVE_TORCH}/lib/libc10_cuda.so ${CLEAVE_NVIDIA_DIR}/lib/libcudart.so.13)
elseif(CLEAVE_CUDA STREQUAL "ON")
  message(FATAL_ERROR "CUDA plugin: found no headers of CUDA and NCCL beside the torch wheel and no CUDA toolkit 13; "
    "run `make setup` or install one, or pass -DCLEAVE_CUDA=OFF")
elseif(CLEAVE_CUDA)
  message(STATUS "CUDA plugin: left out, as there are no headers of CUDA and NCCL (no nvidia-cuda-crt and nvidia-cuda-cccl in .venv, no toolkit 13)")
else()
  message(STATUS "CUDA plugin: left out, as CLEAVE_CUDA is OFF")
endif()
