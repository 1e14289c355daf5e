# What `cmake --install build --prefix P` puts where. Component Runtime: what serves plans; Compiler: the rest. Nothing in
# lib/cmake/Cleave names a folder of this machine: torch and LLVM are found by whoever finds Cleave. The programs, in
# libexec/, are started by scripts that find torch. The CUDA plugin looks for it where it was.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_RPATH ${CLEAVE_TORCH}/lib)
set(CLEAVE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Cleave)

# Public headers, as cleave/FOLDER/NAME.h without layers; so they include each other.
function(install_headers COMPONENT)
  foreach(HEADER ${ARGN})
    string(CONFIGURE [[
      file(READ "@PROJECT_SOURCE_DIR@/@HEADER@" TEXT)
      string(REGEX REPLACE "#include \"(runtime|tools/driver|codegen/plan)/([a-z]+/)+" "#include \"\\1/" TEXT "${TEXT}")
      string(REGEX REPLACE "#include \"(codegen|runtime|tools)/" "#include \"cleave/\\1/" TEXT "${TEXT}")
      string(REGEX REPLACE "^(runtime|tools/driver|codegen/plan)/([a-z]+/)+" "\\1/" NAME "@HEADER@")
      set(FILE "${CMAKE_INSTALL_PREFIX}/include/cleave/${NAME}")
      message(STATUS "Installing: $ENV{DESTDIR}${FILE}")
      file(WRITE "$ENV{DESTDIR}${FILE}" "${TEXT}")
      list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${FILE}")
    ]] REWRITE @ONLY)
    install(CODE "${REWRITE}" COMPONENT ${COMPONENT})
  endforeach()
endfunction()

# Libraries of a component as Cleave::NAME, without the prefix cleave_.
function(install_libraries COMPONENT)
  foreach(LIBRARY ${ARGN})
    string(REPLACE cleave_ "" NAME ${LIBRARY})
    set_target_properties(${LIBRARY} PROPERTIES EXPORT_NAME ${NAME})
  endforeach()
  install(TARGETS ${ARGN} EXPORT Cleave${COMPONENT} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${COMPONENT})
  install(EXPORT Cleave${COMPONENT} NAMESPACE Cleave:: DESTINATION ${CLEAVE_CMAKE_DIR} COMPONENT ${COMPONENT})
endfunction()

function(install_cleave)
  install_libraries(Runtime cleave_llvm cleave_plan cleave_collectives cleave_random cleave_runtime)
  install_headers(Runtime
    codegen/plan/files/AtomicFile.h
    codegen/plan/files/Checksum.h
    codegen/plan/files/InputFile.h
    codegen/plan/Plan.h
    codegen/plan/Safetensors.h
    runtime/base/Launch.h
    runtime/capture/CaptureOptions.h
    runtime/session/Session.h
    runtime/exchange/SignatureInputs.h
    runtime/base/TensorFile.h
    runtime/base/Trace.h
    runtime/training/LearningRate.h
    runtime/training/Trainer.h)
  install(FILES ${PROJECT_BINARY_DIR}/codegen/plan/plan_generated.h DESTINATION include/cleave/codegen/plan COMPONENT Runtime)
  if(TARGET cleave_cuda)
    set_property(TARGET cleave_cuda APPEND PROPERTY INSTALL_RPATH ${CLEAVE_NVIDIA_DIR}/lib)
    install(TARGETS cleave_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Runtime)
  endif()

  install_libraries(Compiler cleave_plan_encoder cleave_profile cleave_ir cleave_frontend cleave_partitioner cleave_passes cleave_codegen cleave_forecast
    cleave_parse_check cleave_driver)
  set_target_properties(cleave_driver PROPERTIES EXPORT_NAME compiler)
  install_headers(Compiler
    tools/driver/Compile.h
    tools/driver/Verify.h
    tools/driver/base/CompileOptions.h
    tools/driver/base/Progress.h
    tools/driver/base/StopSource.h
    tools/driver/base/UsageError.h)
  set_target_properties(cleave cleave-opt PROPERTIES INSTALL_RPATH "")
  install(TARGETS cleave cleave-opt RUNTIME DESTINATION libexec COMPONENT Compiler)
  configure_file(cmake/launcher.sh.in ${PROJECT_BINARY_DIR}/launcher.sh @ONLY)
  foreach(PROGRAM cleave cleave-opt)
    install(PROGRAMS ${PROJECT_BINARY_DIR}/launcher.sh TYPE BIN RENAME ${PROGRAM} COMPONENT Compiler)
  endforeach()

  install(FILES examples/CMakeLists.txt examples/capture.cpp examples/hooks.cpp examples/rank.cpp examples/serve.cpp DESTINATION share/cleave/examples COMPONENT Runtime)
  install(FILES examples/compile.cpp DESTINATION share/cleave/examples COMPONENT Compiler)

  configure_package_config_file(cmake/CleaveConfig.cmake.in ${PROJECT_BINARY_DIR}/CleaveConfig.cmake
    INSTALL_DESTINATION ${CLEAVE_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/CleaveConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/CleaveConfig.cmake ${PROJECT_BINARY_DIR}/CleaveConfigVersion.cmake cmake/Torch.cmake
    DESTINATION ${CLEAVE_CMAKE_DIR} COMPONENT Runtime)
endfunction()
