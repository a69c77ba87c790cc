# Target metal_cpp: Apple's headers, for clang as they are and for gcc rewritten (rewrite_metal_cpp.py).
set(QWISP_METAL_CPP_DIR "$ENV{QWISP_METAL_CPP_DIR}" CACHE PATH
    "The folder that holds Metal/Metal.hpp; empty: find or fetch it (fetch_metal_cpp.py)")

set(_fetch ${Python_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/fetch_metal_cpp.py ${CMAKE_BINARY_DIR}/metal_cpp)
if(QWISP_METAL_CPP_DIR)
  list(APPEND _fetch --dir ${QWISP_METAL_CPP_DIR})
endif()
execute_process(COMMAND ${_fetch} OUTPUT_VARIABLE _headers OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE _failed)
if(_failed)
  message(FATAL_ERROR "No metal-cpp headers: see above.")
endif()

add_library(metal_cpp INTERFACE)
# The receiver of a message may be nil: `this` is no proof of the contrary.
target_compile_options(metal_cpp INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-delete-null-pointer-checks>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(metal_cpp INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fblocks>)
else()
  set(_rewritten ${CMAKE_BINARY_DIR}/metal_cpp_rewritten)
  execute_process(COMMAND ${Python_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/rewrite_metal_cpp.py
                          ${_headers} ${_rewritten} RESULT_VARIABLE _failed)
  if(_failed)
    message(FATAL_ERROR "The metal-cpp headers in ${_headers} cannot be rewritten: see above.")
  endif()
  set(_headers ${_rewritten})
endif()
target_include_directories(metal_cpp SYSTEM INTERFACE ${_headers})
