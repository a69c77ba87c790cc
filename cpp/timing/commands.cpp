#include "timing/commands.h"

#include "route/buffer.h"
#include "route/commands.h"
#include "route/outcome.h"

namespace qwisp::timing {

GpuStamps gpu_stamps(const MTL::CommandBuffer *commands) {
    return {commands->GPUStartTime(), commands->GPUEndTime()};
}

Submitted submit(Context &context, bool concurrent, const Encode &encode) {
    AutoreleaseScope pool;
    auto commands = NS::RetainPtr(compute_commands(
        context.queue(), concurrent ? MTL::DispatchTypeConcurrent : MTL::DispatchTypeSerial, encode));
    const int64_t committed = now_ns();
    commands->commit();
    return {std::move(commands), committed};
}

int64_t finish(const Submitted &submitted) {
    AutoreleaseScope pool;
    submitted.commands->waitUntilCompleted();
    const int64_t completed = now_ns();
    throw_if_failed(submitted.commands.get());
    return completed;
}

}  // namespace qwisp::timing
