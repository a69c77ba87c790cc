#include "route/outcome.h"

#include "route/errors.h"

namespace qwisp {

std::string failure_text(const NS::Error *error, const char *otherwise) {
    const NS::String *text = error ? error->localizedDescription() : nullptr;
    return text ? text->utf8String() : otherwise;
}

void throw_if_failed(const MTL::CommandBuffer *commands) {
    if (commands->status() != MTL::CommandBufferStatusError) return;
    throw DeviceError(
        failure_text(commands->error(), "the command buffer failed, and the device gives no reason"));
}

}  // namespace qwisp
