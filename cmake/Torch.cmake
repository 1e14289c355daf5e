# libtorch from the PyPI wheel in .venv, as imported targets of our own: find_package(Torch) insists on a CUDA
# toolkit. `torch::cpu` is all that the compiler and the CPU runtime link.
set(CLEAVE_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "Python that has the pinned torch wheel")
execute_process(
  COMMAND ${CLEAVE_PYTHON} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE CLEAVE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE CLEAVE_TORCH_FAILED)
if(CLEAVE_TORCH_FAILED)
  message(FATAL_ERROR "no torch wheel for ${CLEAVE_PYTHON}; run `make setup`, or pass -DCLEAVE_PYTHON=…")
endif()

add_library(torch::cpu INTERFACE IMPORTED)
target_include_directories(torch::cpu SYSTEM INTERFACE
  ${CLEAVE_TORCH_DIR}/include ${CLEAVE_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(torch::cpu INTERFACE ${CLEAVE_TORCH_DIR}/lib/libtorch_cpu.so ${CLEAVE_TORCH_DIR}/lib/libc10.so
  Threads::Threads)
