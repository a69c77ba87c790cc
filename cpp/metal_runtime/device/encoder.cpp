#include "metal_runtime/device/encoder.h"

namespace qwisp::metal {

Encoder::Encoder(MTL::CommandBuffer *buffer, const char *kind, const char *call)
    : commands_(objc::payload<CommandBufferState>(buffer)), buffer_(NS::RetainPtr(buffer)), kind_(kind) {
    commands_.begin(this, call);
}

Encoder::~Encoder() {
    if (!ended_) commands_.drop(*this);
}

void Encoder::end() {
    check_open("endEncoding");
    ended_ = true;
    commands_.end(this);
}

void Encoder::pop_debug_group() {
    check_open("popDebugGroup");
    if (debug_groups_ == 0) misuse(Misuse::debug_group, "popDebugGroup: no debug group was pushed");
    --debug_groups_;
}

void Encoder::misuse(Misuse misuse, const std::string &message) {
    commands_.misuse(misuse, name() + ": " + message);
}

void Encoder::refuse_use(const MTL::Buffer *buffer, const char *call, const char *what) {
    const std::string argument = std::string(call) + ": " + what;
    if (!buffer) misuse(Misuse::null_argument, argument + " is null");
    misuse(Misuse::foreign_object, argument + " was not made by the command buffer's device");
}

}  // namespace qwisp::metal
