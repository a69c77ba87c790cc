# Target qwisp_flags: what everything here is compiled with. No fast-math and no -march, ever: the bits are the product.
set(QWISP_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")
set_property(CACHE QWISP_SANITIZE PROPERTY STRINGS "" address thread)
option(QWISP_WERROR "Warnings are errors" OFF)

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(qwisp_flags INTERFACE)
target_compile_features(qwisp_flags INTERFACE cxx_std_20)
target_compile_definitions(qwisp_flags INTERFACE METALCPP_SYMBOL_VISIBILITY_HIDDEN)
target_compile_options(qwisp_flags INTERFACE
  -fvisibility=hidden
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-fvisibility-inlines-hidden>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-unknown-pragmas>
  $<$<AND:$<BOOL:${QWISP_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)

if(QWISP_SANITIZE STREQUAL "address")
  # Not null: hosts send messages to nil, and gcc takes none of metal-cpp's attributes that say so.
  set(_sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=null)
elseif(QWISP_SANITIZE STREQUAL "thread")
  set(_sanitize -fsanitize=thread)
elseif(QWISP_SANITIZE)
  message(FATAL_ERROR "QWISP_SANITIZE=${QWISP_SANITIZE}: it may be address, thread or empty")
endif()
if(QWISP_SANITIZE)
  target_compile_options(qwisp_flags INTERFACE ${_sanitize} -fno-omit-frame-pointer -g)
  target_link_options(qwisp_flags INTERFACE ${_sanitize})
endif()
