# Target qwisp_shader_text: shaders/*.metal as one text. It is compiled in (cpp/route/shader_text.h), and lies in the
# target's include directory as route_text.metal, for the driver that compiles it as C++.
set(_shaders ${PROJECT_SOURCE_DIR}/shaders)
set(_generated ${CMAKE_BINARY_DIR}/generated)
set(_scripts ${CMAKE_CURRENT_LIST_DIR}/embed_shaders.py ${PROJECT_SOURCE_DIR}/python/qwisp_native/_amalgamate.py)
file(GLOB _sources CONFIGURE_DEPENDS ${_shaders}/*.metal ${_shaders}/*.h)

add_custom_command(
  OUTPUT ${_generated}/route_text.metal ${_generated}/shader_text.cpp
  COMMAND ${Python_EXECUTABLE} -B ${_scripts} ${_shaders} ${_generated}
  DEPENDS ${_sources} ${_scripts}
  COMMENT "Embedding the shaders"
  VERBATIM)
add_library(qwisp_shader_text STATIC ${_generated}/shader_text.cpp ${_generated}/route_text.metal)
target_include_directories(qwisp_shader_text PUBLIC ${_generated} ${PROJECT_SOURCE_DIR}/cpp)
target_link_libraries(qwisp_shader_text PRIVATE qwisp_flags)
