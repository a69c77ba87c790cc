// The shaders of this build as a kernel image. QWISP_IMAGE_TEXT is generated/route_text.metal.
#define QWISP_IMAGE plain
#define QWISP_IMAGE_ENTRY qwisp_plain_image
#include "image_main.cpp"
