// Constant strings: MTLSTR("...") and the named ones that metal-cpp looks up (NSLocalizedDescriptionKey,
// ...).
#include <CoreFoundation/CoreFoundation.h>

#include <atomic>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "../objc/define_class.h"
#include "../objc/internals.h"
#include "foundation.h"

namespace qwisp::objc {

namespace {

struct NamedConstant {
    std::string_view name;
    const char *text;
    std::atomic<CFStringRef> value = nullptr;
};

// Texts as on macOS for Foundation's own; for Metal's, which only compare with each other, mostly the name.
constinit NamedConstant named_constants[] = {
    {"NSCocoaErrorDomain", "NSCocoaErrorDomain"},
    {"NSPOSIXErrorDomain", "NSPOSIXErrorDomain"},
    {"NSOSStatusErrorDomain", "NSOSStatusErrorDomain"},
    {"NSMachErrorDomain", "NSMachErrorDomain"},
    {"NSUnderlyingErrorKey", "NSUnderlyingError"},
    {"NSLocalizedDescriptionKey", "NSLocalizedDescription"},
    {"NSLocalizedFailureReasonErrorKey", "NSLocalizedFailureReason"},
    {"NSLocalizedRecoverySuggestionErrorKey", "NSLocalizedRecoverySuggestion"},
    {"NSLocalizedRecoveryOptionsErrorKey", "NSLocalizedRecoveryOptions"},
    {"NSRecoveryAttempterErrorKey", "NSRecoveryAttempter"},
    {"NSHelpAnchorErrorKey", "NSHelpAnchor"},
    {"NSDebugDescriptionErrorKey", "NSDebugDescription"},
    {"NSLocalizedFailureErrorKey", "NSLocalizedFailure"},
    {"NSStringEncodingErrorKey", "NSStringEncodingErrorKey"},
    {"NSURLErrorKey", "NSURL"},
    {"NSFilePathErrorKey", "NSFilePath"},
    {"MTLCommandBufferEncoderInfoErrorKey", "MTLCommandBufferEncoderInfoErrorKey"},
    {"MTLBinaryArchiveDomain", "MTLBinaryArchiveDomain"},
    {"MTLCounterErrorDomain", "MTLCounterErrorDomain"},
    {"MTLIOErrorDomain", "MTLIOErrorDomain"},
    {"MTLLogStateErrorDomain", "MTLLogStateErrorDomain"},
    {"MTLTensorDomain", "MTLTensorDomain"},
    {"MTLDeviceWasAddedNotification", "MTLDeviceWasAddedNotification"},
    {"MTLDeviceRemovalRequestedNotification", "MTLDeviceRemovalRequestedNotification"},
    {"MTLDeviceWasRemovedNotification", "MTLDeviceWasRemovedNotification"},
    {"MTLCommonCounterTimestamp", "GPUTimestamp"},
    {"MTLCommonCounterSetTimestamp", "timestamp"},
    {"MTLCommonCounterSetStageUtilization", "stageutilization"},
    {"MTLCommonCounterSetStatistic", "statistic"},
    {"MTLCommonCounterComputeKernelInvocations", "ComputeKernelInvocations"},
    {"MTLCommonCounterTotalCycles", "TotalCycles"},
};

}  // namespace

}  // namespace qwisp::objc

using namespace qwisp::objc;

extern "C" CFStringRef __CFStringMakeConstantString(const char *text) {
    static constinit std::unordered_map<std::string_view, id> *constants = nullptr;
    const std::lock_guard lock(constants_mutex);
    if (!constants) constants = new std::unordered_map<std::string_view, id>;
    const auto known = constants->find(text);
    if (known != constants->end()) return reinterpret_cast<CFStringRef>(known->second);
    const id string = new_string(text);
    header_of(string)->references.store(kImmortal, std::memory_order_relaxed);
    constants->emplace(payload<String>(string).utf8, string);
    return reinterpret_cast<CFStringRef>(string);
}

extern "C" void *mtlshim_symbol(const char *name) {
    for (NamedConstant &constant : named_constants) {
        if (constant.name != name) continue;
        if (!constant.value.load(std::memory_order_acquire)) {
            constant.value.store(__CFStringMakeConstantString(constant.text), std::memory_order_release);
        }
        static_assert(sizeof(constant.value) == sizeof(CFStringRef));
        return &constant.value;
    }
    return nullptr;
}
