// The same with floating-point contraction allowed.
#define QWISP_IMAGE contracted
#define QWISP_IMAGE_ENTRY qwisp_contracted_image
#define QWISP_CONTRACT_COMPILER 1
#include "image_main.cpp"
